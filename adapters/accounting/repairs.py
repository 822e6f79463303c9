"""The repairs that make a node's ledger and its pods agree, and what they do to a ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from adapters.dialects.dialect import Result
from adapters.wire.kube import Pod
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation

RELEASED = "dragoman.dev/released"
"""Annotation of a pod that was not bound in time, or its label where it has no room for one: when
the cards were released that it had, or may have had in a ledger that was deleted."""

RELEASED_LABEL = "%Y-%m-%dT%H.%M.%S.%f"
"""How the label has the time."""


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
