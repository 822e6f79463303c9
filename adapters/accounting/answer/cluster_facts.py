"""What an answer reads of the cluster; the service and the command implement it."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from adapters.accounting.gang_cache import Gang
from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.dialect import Dialect
from adapters.wire.kube import KubeNode, Pod
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory
from core.quota.amounts import QuotaAmounts
from core.requests.pod_ref import PodRef
from core.requests.request import Request


class ClusterFacts(Protocol):
    """The cluster as one process knows it."""

    @property
    def dialects(self) -> Sequence[Dialect]:
        """All dialects, as the operator's policy configures them."""
        ...

    @property
    def inventory(self) -> Inventory:
        """The ledgers that can be read."""
        ...

    @property
    def revision(self) -> Hashable:
        """Changes whenever a ledger, a quota or a gang does."""
        ...

    def nodes(self) -> Mapping[str, KubeNode]:
        """The nodes by name, as a copy that stays; of equally good ones the first wins."""
        ...

    def unreadable(self) -> Mapping[str, str]:
        """Why the ledger of a node cannot be read, by name of the node."""
        ...

    def pods_on(self, node: str) -> Iterable[Pod]:
        """The pods that are bound to a node and may use cards."""
        ...

    def claims_of(self, uid: str) -> Iterable[str]:
        """The uids of the allocated ResourceClaims that are reserved for a pod."""
        ...

    def read(self, pod: Pod) -> PodRequest | None:
        """What a pod requests; None where it requests no share.

        Raises:
            DialectError: the request is invalid.
        """
        ...

    def evaluate(self, request: Request) -> NodeEvaluation:
        """A request against all ledgers, and the quota of its namespace."""
        ...

    def gang(self, pod: Pod) -> Gang | None:
        """The gang of a pod with all its pods; None where it may be bound alone."""
        ...

    def over_quota(self, holder: PodRef, amounts: QuotaAmounts) -> str | None:
        """Why the quota of a pod's namespace refuses some amounts; None where it does not."""
        ...
