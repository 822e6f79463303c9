"""What must be done so that one node's record and its pods agree: a decision, nothing else.

The record is the truth about what was given away, the cluster about what there is: which cards,
which pods, and where they run. ``reconciling`` reads both, and does what is decided here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import msgspec

from adapters.dialects.adopt import adopt
from adapters.dialects.dialect import Dialect, DialectError, Result
from adapters.dialects.kubelet import adopt_from_kubelet
from adapters.dialects.record import KEY, encode
from adapters.dialects.registry import dialect_of
from adapters.wire.hardware import KUBELET, DeviceHolding
from adapters.wire.kube import Pod, annotations, full_name, labels
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger, Problem
from core.requests.grant import Allocation, Grant, Placement


class ReleaseCause(Enum):
    """Why cards are taken back; the value is what people read."""

    GONE = "the pod is gone, or its containers are"
    ELSEWHERE = "the pod runs on another node"
    NEVER_BOUND = "the pod was not bound in time"


@dataclass(frozen=True, slots=True)
class Describe:
    """The node's cards are others now."""

    node: Node


@dataclass(frozen=True, slots=True)
class Adopt:
    """A pod is bound here, and the record does not say what it holds, or not well enough."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Release:
    """Nobody will use these cards.

    Attributes:
        allocation: which is taken out of the record.
        why: it is.
    """

    allocation: Allocation
    why: ReleaseCause


@dataclass(frozen=True, slots=True)
class Annotate:
    """A pod that is bound here does not say what the record says that it holds.

    Attributes:
        pod: as it is.
        result: what is to be written on it.
    """

    pod: Pod
    result: Result


Repair = Describe | Adopt | Release | Annotate

Read = Callable[[Pod, Node, Sequence[Dialect]], Allocation | None]
"""What a bound pod says that it holds, as ``adopt`` reads it."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node, as it was read: the record first, the pods after it.

    Attributes:
        ledger: as it is in the store.
        node: as the cluster describes it now; None where there is no such node any more.
        pods: those that are bound to it and may hold cards.
        bound: by uid, the node of each pod of ``pods`` and of ``ledger`` that there is and that
            has not finished; empty where it has none yet.
        overdue: uids of pods that were not bound for longer than a Binding takes.
        wall: nanoseconds since 1970.
        holdings: what the node's agent tells of the kubelet.
        read: of its pods.
    """

    ledger: NodeLedger
    node: Node | None
    pods: Sequence[Pod]
    bound: Mapping[str, str]
    overdue: frozenset[str] = frozenset()
    wall: int = 0
    holdings: Sequence[DeviceHolding] = ()
    read: Read = adopt


def reconcile(view: NodeView, dialects: Sequence[Dialect]) -> tuple[Repair, ...]:
    """What to do, in this order; nothing where all is as it should be.

    Args:
        view: of the node.
        dialects: the vocabularies.
    """
    node = view.node or view.ledger.node
    described = (Describe(node),) if node != view.ledger.node else ()
    adopted = tuple(
        Adopt(found) for pod in view.pods if (found := _missing(pod, view, node, dialects))
    )
    released = tuple(
        Release(allocation, why)
        for uid, allocation in view.ledger.allocations.items()
        if (why := _idle(uid, view)) is not None
    )
    annotated = tuple(
        repair
        for pod in view.pods
        if (known := view.ledger.allocations.get(pod.metadata.uid)) is not None
        and (repair := rewrite(pod, known, node, dialects, view.wall, view.read)) is not None
    )
    return (*described, *adopted, *released, *annotated)


def repaired(ledger: NodeLedger, repairs: Sequence[Repair]) -> NodeLedger:
    """The record after the repairs; the same one where none is about it."""
    for repair in repairs:
        match repair:
            case Describe(node):
                ledger = ledger.with_node(node)
            case Adopt(allocation):
                ledger = ledger.adopt(allocation)
            case Release(allocation):
                ledger = ledger.release(allocation.uid)
            case Annotate():
                continue
    return ledger


def drift(
    ledger: NodeLedger, pods: Sequence[Pod], dialects: Sequence[Dialect], read: Read = adopt
) -> tuple[Problem, ...]:
    """What no repair can help, so that a person must look.

    Args:
        ledger: after the repairs.
        pods: those that are bound to the node.
        dialects: the vocabularies.
        read: of the pods.
    """
    return ledger.problems() + tuple(
        Problem(full_name(pod), "says that it holds other cards than the ledger, which are kept")
        for pod in pods
        if (known := ledger.allocations.get(pod.metadata.uid)) is not None
        and known.unread is None
        and known.dialect != KUBELET
        and not _says(known, read(pod, ledger.node, dialects))
        and rewrite(pod, known, ledger.node, dialects, 0, read) is None
    )


def rewrite(
    pod: Pod,
    known: Allocation,
    node: Node,
    dialects: Sequence[Dialect],
    wall: int,
    read: Read = adopt,
) -> Annotate | None:
    """What makes a bound pod say what the record says that it holds.

    The record wins: what stands on a pod, others can write. Of a pod whose containers may have
    been started already only what must be there is written, so that no device plugin takes it for
    a new one. On a pod whose cards the kubelet alone tells, nothing is.

    Args:
        pod: which is bound to the node.
        known: what the record says.
        node: where.
        dialects: the vocabularies.
        wall: nanoseconds since 1970.
        read: of the pod.

    Returns:
        None where the pod says so already, or cannot be made to.
    """
    if known.unread is not None or known.dialect == KUBELET:
        return None
    if _says(known, read(pod, node, dialects)):
        return None
    full = _written(pod, known, node, dialects, wall)
    if full is None or not _says(known, adopt(_with(pod, full), node, dialects)):
        return None
    if pod.status.phase in (None, "Pending"):
        return Annotate(pod, full)
    least = full
    for key in full.annotations:
        less = replace(least, annotations=_without(least.annotations, key))
        if _says(known, adopt(_with(pod, less), node, dialects)):
            least = less
    return Annotate(pod, least)


def _missing(
    pod: Pod, view: NodeView, node: Node, dialects: Sequence[Dialect]
) -> Allocation | None:
    """What the record should say of a bound pod; None where it says so, or knows better."""
    known = view.ledger.allocations.get(pod.metadata.uid)
    if known is not None and known.unread is None:
        return None
    found = view.read(pod, node, dialects)
    if found is not None:
        found = adopt_from_kubelet(found, pod, node, dialects, view.holdings)
    if found is None or (known is not None and found == replace(known, since=0)):
        return None
    return found


def _idle(uid: str, view: NodeView) -> ReleaseCause | None:
    if any(pod.metadata.uid == uid for pod in view.pods):
        return None
    where = view.bound.get(uid)
    if where is None:
        return ReleaseCause.GONE
    if where == "":
        return ReleaseCause.NEVER_BOUND if uid in view.overdue else None
    return None if where == view.ledger.node.name else ReleaseCause.ELSEWHERE


def _says(known: Allocation, found: Allocation | None) -> bool:
    if found is None or found.unread is not None:
        return False
    return sorted(map(_order, found.grants)) == sorted(map(_order, known.grants))


def _order(grant: Grant) -> tuple[str, str, int, int, str]:
    return grant.container, grant.card, grant.memory, grant.compute, str(grant.slice)


def _written(
    pod: Pod, known: Allocation, node: Node, dialects: Sequence[Dialect], wall: int
) -> Result | None:
    placement = Placement(node.name, known.grants)
    present = {card.uuid for card in node.cards}
    try:
        dialect = dialect_of(pod, dialects)
        if dialect is None or any(grant.card not in present for grant in known.grants):
            return None
        request = dialect.read_request(pod)
    except DialectError:
        return None
    asking = {ask.name for ask in request.containers}
    if any(grant.container not in asking for grant in known.grants):
        return None
    result = dialect.write_result(pod, request, placement, node, wall)
    if KEY in annotations(pod) and KEY not in result.annotations:
        ours = {KEY: encode(known.grants)}
        return replace(result, annotations={**result.annotations, **ours})
    return result


def _with(pod: Pod, result: Result) -> Pod:
    metadata = msgspec.structs.replace(
        pod.metadata,
        annotations={**annotations(pod), **result.annotations},
        labels={**labels(pod), **result.labels},
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def _without(said: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in said.items() if name != key}
