"""What an answer reads of the cluster, and what it says of a pod that waits for no node."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from adapters.accounting.gang_cache import Gang
from adapters.accounting.pod_requests import PodRequest
from adapters.answer.device_plugins import devices_text
from adapters.dialects.adoption import FINISHED, may_use_cards
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.matching import NO_AMOUNTS, plain_amounts
from adapters.wire.kube import KubeNode, Pod
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory
from core.quota.amounts import QuotaAmounts
from core.requests.grant import Allocation, AllocationState
from core.requests.request import PodRef, Request


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


def standing(facts: ClusterFacts, pod: Pod, uncounted: str) -> str:
    """The sentence; empty where the pod waits for a node and has no cards.

    Args:
        facts: of the cluster.
        pod: the pod.
        uncounted: says that it requests what Dragoman does not count; else empty.
    """
    if pod.status.phase in FINISHED:
        return f"has ended ({pod.status.phase}) and uses no cards"
    node, allocations = pod.spec.node_name, committed(facts, pod.metadata.uid)
    if not node:
        on = allocations[0].node if allocations else ""
        return f"has cards of {on}, and its Binding is not written yet" if on else ""
    bound, unreadable = f"is bound to {node}", facts.unreadable()
    own = next((each for each in allocations if each.node == node), None)
    if own is not None:
        unread = own.unread
        return f"{bound} and has its cards" if unread is None else _unknown(bound, "it has", unread)
    if node in unreadable:
        return _unknown(bound, "it has", unreadable[node])
    claims = [held for uid in facts.claims_of(pod.metadata.uid) for held in committed(facts, uid)]
    if claims:
        unread = next((each.unread for each in claims if each.unread), None)
        if unread is not None:
            return _unknown(bound, "its claims have", unread)
        return f"{bound} and has the cards of its claims"
    is_known, devices = node in facts.nodes(), held_devices(facts, pod)
    if devices and is_known:
        return f"{bound}: has {devices_text(devices)} of the device plugin, in no ledger"
    if uncounted:
        return f"{bound}: {uncounted}"
    return f"{bound}{'' if is_known else ', which does not exist,'} and uses no cards"


def committed(facts: ClusterFacts, uid: str) -> list[Allocation]:
    """The allocations of a pod or a claim in the ledgers."""
    if not uid:
        return []
    found = (
        facts.inventory.ledger(node).allocations[uid] for node in facts.inventory.nodes_of(uid)
    )
    return [each for each in found if each.state is AllocationState.COMMITTED]


def held_devices(facts: ClusterFacts, pod: Pod) -> Mapping[str, int]:
    """The devices of plugins that a pod has where it is bound."""
    try:
        return plain_amounts(pod, facts.dialects) if may_use_cards(pod) else NO_AMOUNTS
    except DialectError:
        return NO_AMOUNTS


def _unknown(bound: str, what: str, unread: str) -> str:
    return f"{bound}; which cards {what} is unknown: {unread}"
