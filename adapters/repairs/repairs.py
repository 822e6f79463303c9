"""What a node's repairs are decided on, the repairs, and what they do to a ledger."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from adapters.dialects.adoption import adopt, disagreements
from adapters.dialects.dialect import Dialect, Result
from adapters.wire.kube import Pod
from adapters.wire.records.hardware import DeviceHolding
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation

RELEASED = "dragoman.dev/released"
"""Annotation of a pod that was not bound in time, or a claim that was not allocated, or its label
where it has no room for one: when the cards were released that it had, or may have had in a ledger
that was deleted."""

RELEASED_LABEL = "%Y-%m-%dT%H.%M.%S.%f"
"""How the label has the time."""

LOST_LEDGER = "deleted-ledger"
"""Uid of the allocation that closes the cards of a node whose ledger was deleted, until no commit
to it can become a Binding; no pod has it, as theirs are UUIDs.

A commit is a write of the ledger and, later, a Binding or the write of a claim. Where the ledger is
deleted in between, the pods do not say yet what they will hold. So the ledger that replaces it has
one allocation that may hold any part of each card, which every replica, of this version or an
earlier one, obeys as it does one that cannot be read."""

CLOSED = "(deleted ledger)"
"""What stands for the pod of that allocation."""

LOST_WHY = "the ledger was deleted, and what was committed to it may still be bound"

HIGHEST = (1 << 31) - 1
"""No pod has a higher priority, so that no scheduler evicts it: int32 in k8s.io/api/core/v1."""


def closing(node: Node) -> Allocation:
    """Return the allocation that closes all cards of a node; see ``LOST_LEDGER``."""
    return Allocation(
        uid=LOST_LEDGER,
        pod=CLOSED,
        dialect="",
        node=node.name,
        grants=(),
        priority=HIGHEST,
        unread=LOST_WHY,
        blocked=frozenset(card.uuid for card in node.cards),
    )


class ReleaseCause(Enum):
    """Why an allocation is released; the value is part of an Event."""

    GONE = "the pod was deleted or has finished"
    NOT_STARTED = "the pod was bound while no replica answered, and there is no room for it"
    UNCONFIRMED = "the pod was deleted, and no agent has reported that its containers stopped"
    ELSEWHERE = "the pod runs on another node"
    NEVER_BOUND = "the pod was not bound in time"
    DEALLOCATED = "the ResourceClaim was deleted or deallocated"


@dataclass(frozen=True, slots=True)
class Describe:
    """Replace the node's cards in its ledger."""

    node: Node


@dataclass(frozen=True, slots=True)
class Adopt:
    """Add the allocation of a bound pod that the ledger lacks, or knows less about."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Allocate:
    """Allocate cards to a pod that was bound while no replica answered."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Release:
    """Remove an allocation that no pod will use.

    Attributes:
        allocation: to remove from the ledger.
        why: the cause.
    """

    allocation: Allocation
    why: ReleaseCause


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep an allocation of a deleted pod, whose containers may still run, with ``release_by``."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Recount:
    """Count what a pod has without its init containers, which have finished, or with them again."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Annotate:
    """Write on a bound pod the cards that the ledger has for it.

    Attributes:
        pod: before the write.
        result: annotations and labels to write.
    """

    pod: Pod
    result: Result


@dataclass(frozen=True, slots=True)
class Mirror:
    """Write on a bound pod what it has, in the words of other ecosystems.

    Attributes:
        pod: before the write.
        holders: uids of the allocations that it states, of the pod and of its ResourceClaims.
        annotations: to write; None removes one.
    """

    pod: Pod
    holders: tuple[str, ...]
    annotations: Mapping[str, str | None]


Repair = Describe | Adopt | Allocate | Release | Keep | Recount | Annotate | Mirror


def repaired(ledger: NodeLedger, repairs: Sequence[Repair]) -> NodeLedger:
    """Return the ledger after the repairs; the same object where no repair changes it."""
    for repair in repairs:
        match repair:
            case Describe(node):
                ledger = ledger.with_node(node)
            case Adopt(allocation) | Allocate(allocation):
                ledger = ledger.adopt(allocation)
            case Release(allocation):
                ledger = ledger.release(allocation.uid)
            case Keep(allocation) | Recount(allocation):
                ledger = ledger.adopt(allocation)
            case Annotate() | Mirror():
                continue
    return ledger


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
