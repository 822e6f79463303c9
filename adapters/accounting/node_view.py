"""What the reconciler sees of one node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from adapters.dialects.adoption.adopt import adopt, disagreements
from adapters.dialects.dialect import Dialect
from adapters.wire.kube import Pod
from adapters.wire.records.hardware import DeviceHolding
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation

Read = Callable[[Pod, Node, Sequence[Dialect]], Allocation | None]
"""Reads the allocation in a bound pod's annotations, as ``adopt`` does; None without one."""

Compare = Callable[[Pod, Node, Sequence[Dialect]], tuple[str, ...]]
"""Finds where a bound pod's record differs from its request, as ``disagreements`` does."""


NOT_REFUSED: Mapping[str, str] = MappingProxyType({})
"""No pod is refused by a quota."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node; the ledger must have been read before the pods.

    Attributes:
        ledger: as it is in the store.
        node: as the cluster describes it now; None where the node was deleted.
        pods: pods that are bound to it and may use its cards.
        bound: by uid, the node of each pod of ``pods`` and of ``ledger`` that exists and has not
            finished; empty for a pod that is not bound.
        overdue: uids of pods that were not bound for longer than a Binding takes.
        lingering: by uid, ``release_by`` of pods that do not exist and whose containers may run.
        wall: nanoseconds since 1970.
        holdings: devices that the kubelet assigned, as the node's agent reports them.
        stopped: uids of deleted pods of which no container runs, as the node's agent reports.
        read: reads a pod's annotations.
        compare: compares a pod's annotations with its request.
        has_agent: whether an agent reports about the node.
        claims: what ResourceClaims have of its cards; their uids are in ``bound``.
        refused: by uid, why the quota of its namespace has no room for a pod that was bound and
            has no cards yet.
        is_lost: whether the ledger replaces one that was deleted.
        consumers: pods that are bound to it and name ResourceClaims.
    """

    ledger: NodeLedger
    node: Node | None
    pods: Sequence[Pod]
    bound: Mapping[str, str]
    overdue: frozenset[str] = frozenset()
    lingering: Mapping[str, int] = field(default_factory=dict[str, int])
    wall: int = 0
    holdings: Sequence[DeviceHolding] = ()
    stopped: frozenset[str] = frozenset()
    read: Read = adopt
    compare: Compare = disagreements
    has_agent: bool = False
    claims: Sequence[Allocation] = ()
    refused: Mapping[str, str] = field(default_factory=lambda: NOT_REFUSED)
    is_lost: bool = False
    consumers: Sequence[Pod] = ()
