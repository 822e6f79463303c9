"""Decides which repairs make one node's ledger and its pods agree. No I/O.

The ledger is right about what was allocated; the cluster is right about which cards and pods exist
and where the pods run. ``controller`` reads both and carries out the repairs.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec

from adapters.dialects import allocation_record
from adapters.dialects.adoption import adopt, adopt_from_kubelet, disagreements, unclear_cards
from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import Dialect, DialectError, Result
from adapters.dialects.dra import DRA
from adapters.dialects.dra.holders import enlarged
from adapters.dialects.matching import dialect_of
from adapters.repairs.bound_without_service import allocate_late, late_pods, waiting_pods
from adapters.repairs.mirrored_records import unmirrored
from adapters.repairs.repairs import (
    NOT_REFUSED,
    Adopt,
    Allocate,
    Annotate,
    Compare,
    Describe,
    Keep,
    NodeView,
    Read,
    Recount,
    Release,
    ReleaseCause,
    Repair,
    closing,
    repaired,
)
from adapters.wire.kube import Pod, UnreadPod, annotations, full_name, labels
from core.durations import SECOND
from core.hardware.node import Node
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.ledger.problem import Problem, ProblemKind
from core.requests.grant import KUBELET, Allocation, Grant, Placement
from core.requests.request import Phase


def reconcile(
    view: NodeView, dialects: Sequence[Dialect], mirrored: Sequence[Dialect] = ()
) -> tuple[Repair, ...]:
    """Return the repairs of a node in the order to make them; none where all agrees.

    Args:
        view: of the node.
        dialects: all dialects.
        mirrored: those whose records pods of other dialects get too.
    """
    node = view.node or view.ledger.node
    described = (Describe(node),) if node != view.ledger.node else ()
    closed = (Adopt(closing(node)),) if view.is_lost and node.cards else ()
    late = late_pods(view.pods, view.ledger, dialects) if view.has_agent else {}
    adopted = tuple(
        Adopt(allocation)
        for pod in view.pods
        if pod.metadata.uid not in late and (allocation := _missing(pod, view, node, dialects))
    )
    claimed = tuple(change for held in view.claims if (change := _of_claim(held, view)) is not None)
    left = tuple(
        left_behind
        for allocation in view.ledger.allocations.values()
        if (left_behind := _leave(allocation, view)) is not None
    )
    annotated = tuple(
        repair
        for pod in view.pods
        if (allocation := view.ledger.allocations.get(pod.metadata.uid)) is not None
        and (repair := rewrite(pod, allocation, node, dialects, view.wall, view.read)) is not None
    )
    repairs: tuple[Repair, ...] = (*described, *closed, *adopted, *claimed, *left)
    if any(pod.spec.init_containers or isinstance(pod, UnreadPod) for pod in view.pods):
        repairs += recounted(repaired(view.ledger, repairs), view.pods, dialects)
    if late:
        after = repaired(view.ledger, repairs)
        found = allocate_late(after, late.values(), view.refused)
        earlier = filter(None, map(after.allocations.get, found.waiting))
        repairs += tuple(map(Allocate, found.allocations))
        repairs += tuple(Release(each, ReleaseCause.NOT_STARTED) for each in earlier)
    if not mirrored:
        return (*repairs, *annotated)
    after = repaired(view.ledger, repairs)
    mirrors = unmirrored(after, view.pods, view.consumers, dialects, mirrored)
    return (*repairs, *annotated, *mirrors)


def drift(
    ledger: NodeLedger,
    pods: Sequence[Pod],
    dialects: Sequence[Dialect],
    read: Read = adopt,
    compare: Compare = disagreements,
    refused: Mapping[str, str] = NOT_REFUSED,
) -> tuple[Problem, ...]:
    """Return the problems that no repair solves, so that an operator must look.

    Args:
        ledger: after the repairs.
        pods: pods that are bound to the node.
        dialects: all dialects.
        read: reads a pod's annotations.
        compare: finds where a pod's record differs from its request. It is asked about pods that
            another scheduler bound: of these the larger of both is in use.
        refused: by uid, why the quota has no room for a pod that was bound and has no cards yet.
    """
    edited = tuple(
        Problem(full_name(pod), text, ProblemKind.EDITED)
        for pod in pods
        if (allocation := ledger.allocations.get(pod.metadata.uid)) is not None
        and allocation.attempt == 0
        and allocation.unread is None
        for text in compare(pod, ledger.node, dialects)
    )
    differing = tuple(
        Problem(
            full_name(pod),
            "its annotations name other cards than its ledger, which stays as it is",
            ProblemKind.DRIFT,
        )
        for pod in pods
        if (allocation := ledger.allocations.get(pod.metadata.uid)) is not None
        and allocation.unread is None
        and allocation.dialect != KUBELET
        and not _names_cards_of(allocation, read(pod, ledger.node, dialects))
        and rewrite(pod, allocation, ledger.node, dialects, 0, read) is None
    )
    return (*ledger.problems(), *edited, *waiting_pods(pods, ledger, dialects, refused), *differing)


def rewrite(
    pod: Pod,
    allocation: Allocation,
    node: Node,
    dialects: Sequence[Dialect],
    wall: int,
    read: Read = adopt,
) -> Annotate | None:
    """Return what makes a bound pod's annotations name the cards of its allocation.

    The ledger wins, because other programs can write annotations. Where containers may have been
    started already, only the annotations that are needed are written, so that no device plugin
    takes the pod for a new one. Where only the kubelet knows the cards, none are written.

    Args:
        pod: bound to the node.
        allocation: in the ledger.
        node: with its cards.
        dialects: all dialects.
        wall: nanoseconds since 1970.
        read: reads the pod's annotations.

    Returns:
        None where the annotations name them already, or no annotation can.
    """
    if allocation.unread is not None or allocation.dialect == KUBELET:
        return None
    if _names_cards_of(allocation, read(pod, node, dialects)):
        return None
    full = _written(pod, allocation, node, dialects, wall)
    if full is None or not _names_cards_of(allocation, adopt(_with(pod, full), node, dialects)):
        return None
    if pod.status.phase in (None, "Pending"):
        return Annotate(pod, full)
    least = full
    for key in full.annotations:
        others = {name: value for name, value in least.annotations.items() if name != key}
        less = replace(least, annotations=others)
        if _names_cards_of(allocation, adopt(_with(pod, less), node, dialects)):
            least = less
    return Annotate(pod, least)


def _missing(
    pod: Pod, view: NodeView, node: Node, dialects: Sequence[Dialect]
) -> Allocation | None:
    """Return the allocation that the ledger lacks; None where it has it, or knows more."""
    earlier = view.ledger.allocations.get(pod.metadata.uid)
    if earlier is not None and earlier.unread is None:
        # What took the place of a card that the pod has is blocked: components that read a card's
        # number in the pod's record give the pod the new one.
        present = {card.uuid for card in node.cards}
        if all(grant.card in present for grant in earlier.grants):
            return None
        return view.read(pod, node, dialects) if unclear_cards(pod, node, dialects) else None
    allocation = view.read(pod, node, dialects)
    if allocation is not None:
        allocation = adopt_from_kubelet(allocation, pod, node, dialects, view.holdings)
    if allocation is None or (earlier is not None and allocation == replace(earlier, attempt=0)):
        return None
    return allocation


def _of_claim(held: Allocation, view: NodeView) -> Adopt | Keep | None:
    """Return what becomes of a claim's allocation; None where the ledger has it.

    A claim that got other devices keeps the earlier ones beside them as long as containers of a pod
    that was deleted by force may use these.
    """
    earlier = view.ledger.allocations.get(held.uid)
    if earlier is None:
        return Adopt(held)
    until = view.lingering.get(held.uid) if earlier.release_by is None else earlier.release_by
    if until is None or (earlier.release_by is not None and _is_over(earlier, view)):
        return None if held == replace(earlier, attempt=0) else Adopt(held)
    grants = enlarged(earlier.grants, held.grants)
    kept = replace(earlier, grants=grants, devices="", release_by=until)
    return None if kept == earlier else Keep(kept)


def _leave(allocation: Allocation, view: NodeView) -> Release | Keep | None:
    """Return what becomes of an allocation whose pod does not use its cards; None for nothing.

    The cards of a deleted pod stay in use as long as its containers may run: until the node's
    agent reports that they have stopped, at most until ``release_by``. Those of a claim of our
    driver stay in use until the kubelet has removed it, however long that takes.
    """
    uid, is_claim = allocation.uid, allocation.dialect == DRA
    if any(pod.metadata.uid == uid for pod in view.pods):
        return None
    if is_claim and any(held.uid == uid for held in view.claims):
        return None
    where = view.bound.get(uid)
    if where == "":
        containers_may_run = allocation.release_by is not None and not _is_over(allocation, view)
        is_overdue = uid in view.overdue and not containers_may_run
        return Release(allocation, ReleaseCause.NEVER_BOUND) if is_overdue else None
    if where is not None:
        is_elsewhere = where != view.ledger.node.name
        return Release(allocation, ReleaseCause.ELSEWHERE) if is_elsewhere else None
    cause = ReleaseCause.DEALLOCATED if is_claim else ReleaseCause.GONE
    if view.node is None:
        return Release(allocation, cause)
    if allocation.release_by is None:
        until = view.lingering.get(uid)
        if until is None:
            return Release(allocation, cause)
        return Keep(replace(allocation, release_by=until))
    if not _is_over(allocation, view):
        return None
    has_stopped = _has_stopped(allocation, view)
    return Release(allocation, cause if has_stopped else ReleaseCause.UNCONFIRMED)


def _is_over(kept: Allocation, view: NodeView) -> bool:
    """Return whether the containers for which an allocation is kept have ended."""
    is_late = kept.release_by is not None and view.wall >= kept.release_by * SECOND
    return is_late or _has_stopped(kept, view)


def _has_stopped(allocation: Allocation, view: NodeView) -> bool:
    """Return whether the agent says that no container has the cards; of claims it says nothing."""
    return allocation.dialect != DRA and allocation.uid in view.stopped


def _names_cards_of(allocation: Allocation, annotated: Allocation | None) -> bool:
    if annotated is None or annotated.unread is not None:
        return False
    return sorted(map(_order, annotated.grants)) == sorted(map(_order, allocation.grants))


def _order(grant: Grant) -> tuple[str, str, int, int, str]:
    return grant.container, grant.card, grant.memory, grant.compute, str(grant.slice)


def _written(
    pod: Pod, allocation: Allocation, node: Node, dialects: Sequence[Dialect], wall: int
) -> Result | None:
    placement = Placement(node.name, allocation.grants)
    present = {card.uuid for card in node.cards}
    try:
        dialect = dialect_of(pod, dialects)
        if dialect is None or any(grant.card not in present for grant in allocation.grants):
            return None
        request = dialect.read_request(pod)
    except DialectError:
        return None
    requesting = {ask.name for ask in request.containers}
    if any(grant.container not in requesting for grant in allocation.grants):
        return None
    result = dialect.write_result(pod, request, placement, node, wall)
    return allocation_record.update(pod, result, allocation.grants)


def _with(pod: Pod, result: Result) -> Pod:
    metadata = msgspec.structs.replace(
        pod.metadata,
        annotations={**annotations(pod), **result.annotations},
        labels={**labels(pod), **result.labels},
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def recounted(
    ledger: NodeLedger, pods: Sequence[Pod], dialects: Sequence[Dialect]
) -> tuple[Recount, ...]:
    """Return the allocations that count otherwise than the state of their init containers says.

    Args:
        ledger: of a node, after the other repairs.
        pods: that are bound to it.
        dialects: all dialects.
    """
    freeing = {dialect.name for dialect in dialects if dialect.frees_init_shares}
    changes: list[Recount] = []
    for pod in pods:
        allocation = ledger.allocations.get(pod.metadata.uid)
        if allocation is None or allocation.dialect not in freeing:
            continue
        if not any(grant.phase is Phase.INIT for grant in allocation.grants):
            continue
        changed = replace(allocation, initialized=is_initialized(pod))
        if changed == allocation:
            continue
        with suppress(LedgerError):  # without room, it counts as before
            if not changed.initialized:
                ledger.release(changed.uid).reserve(changed)
            ledger = ledger.adopt(changed)
            changes.append(Recount(changed))
    return tuple(changes)


def is_initialized(pod: Pod) -> bool:
    """Whether all init containers of a pod have succeeded; those that run to its end do not count.

    The kubelet writes the status, and no author can.
    """
    states = {status.name: status.state for status in pod.status.init_container_statuses or ()}
    ended = [
        state is not None and state.terminated is not None and state.terminated.exit_code == 0
        for member in pod_containers(pod)
        if member.phase is Phase.INIT
        for state in (states.get(member.container.name),)
    ]
    return bool(ended) and all(ended)
