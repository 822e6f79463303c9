"""The cluster as this process knows it, as the answer about a pod reads it."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

from adapters.accounting.gang_cache import Gang, GangCache
from adapters.accounting.pod_requests import PodRequest, PodRequestCache
from adapters.dialects.dialect import Dialect
from adapters.service.decide.advice.feasibility import Feasibility
from adapters.service.decide.ports import ClusterObjects
from adapters.wire.kube import KubeNode, Metadata, Pod
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory
from core.quota.amounts import QuotaAmounts
from core.requests.request import PodRef, Request


class ServiceFacts:
    """Implements ``ClusterFacts``."""

    def __init__(
        self,
        pod_requests: PodRequestCache,
        feasibility: Feasibility,
        objects: ClusterObjects,
        gangs: GangCache,
    ) -> None:
        self._pod_requests = pod_requests
        self._feasibility = feasibility
        self._objects = objects
        self._gangs = gangs

    @property
    def dialects(self) -> Sequence[Dialect]:
        """All dialects, as the operator's policy configures them now."""
        return self._pod_requests.dialects

    @property
    def inventory(self) -> Inventory:
        """By node, committed allocations and this process's reservations."""
        return self._feasibility.ledgers.inventory

    @property
    def revision(self) -> Hashable:
        """Changes whenever a ledger, a quota, a gang or what an answer reads of a node does."""
        return *self._feasibility.revision, self._objects.revision, self._gangs.revision

    def nodes(self) -> Mapping[str, KubeNode]:
        """Return the nodes.

        Without an API server also those of the ledgers, which keep no pod away.
        """
        if self._objects.has_all_nodes:
            return self._objects.nodes()
        nodes = dict(self._objects.nodes())
        for name in (*self.inventory.names(), *self.unreadable()):
            if name not in nodes:
                nodes[name] = KubeNode(Metadata(name=name))
        return nodes

    def unreadable(self) -> Mapping[str, str]:
        """Return why the record of a node cannot be read, by name of the node."""
        return self._feasibility.ledgers.problems()

    def pods_on(self, node: str) -> Iterable[Pod]:
        """Return the pods that are bound to a node and may use cards."""
        return self._objects.pods_on(node)

    def claims_of(self, uid: str) -> Iterable[str]:
        """Return the uids of the allocated ResourceClaims that are reserved for a pod."""
        return self._objects.claims_of(uid)

    def read(self, pod: Pod) -> PodRequest | None:
        """Return what a pod requests, from the cache.

        Raises:
            DialectError: the request is invalid.
        """
        return self._pod_requests.read(pod)

    def evaluate(self, request: Request) -> NodeEvaluation:
        """Return a request against all ledgers, and the quota of its namespace."""
        return self._feasibility.evaluate_request(request)

    def gang(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod with all its pods; None where it may be bound alone."""
        return self._gangs.gang(pod)

    def over_quota(self, holder: PodRef, amounts: QuotaAmounts) -> str | None:
        """Return why the quota of a pod's namespace refuses some amounts.

        None where it does not.
        """
        return self._feasibility.over_quota(holder, amounts)
