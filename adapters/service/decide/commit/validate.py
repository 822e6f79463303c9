"""Whether a choice of cards that another scheduler made is valid for a request."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from adapters.accounting.movable import controller
from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.allocation_record import ChoiceError, restate
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.wire.kube import Pod, full_name
from core.feasibility.fit import fit
from core.feasibility.suitability import unsuitable
from core.hardware.card import Mode
from core.hardware.node import Node
from core.ledger.node_ledger import Hold, LedgerError, NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.reason import Cause, Reason
from core.requests.request import Request, required_memory


def is_valid(request: Request, grants: Sequence[Grant], ledger: NodeLedger) -> bool:
    """Return whether grants are exactly what a request asks for, and fit beside other allocations.

    A choice that does not say which container has which share is invalid if several ask.

    Args:
        request: of the pod.
        grants: the choice.
        ledger: of the node; an allocation of the pod itself counts as free.
    """
    if _is_bound_to_links(request):
        return False  # whether a choice of cards satisfies these, only a search can say
    return is_asked(request, grants, ledger.node) and has_room(request, grants, ledger)


def is_asked(request: Request, grants: Sequence[Grant], node: Node) -> bool:
    """Return whether grants are exactly what a request asks for, on cards that it may have.

    They must be in start order of the containers, by which it counts what runs at the same time.
    """
    try:
        stated = restate(request, grants, node)
    except ChoiceError:
        return False
    cards = {card.uuid: card for card in node.cards}
    containers = {container.name: container for container in request.containers}
    if request.isolation not in (None, node.isolation):
        return False
    if stated != tuple(grants):
        return False
    for grant in grants:
        card, container = cards[grant.card], containers[grant.container]
        is_large_enough = card.mode is not Mode.MIG or (
            grant.memory >= required_memory(request, container, card)
            and grant.compute >= container.compute
        )
        if unsuitable(request, card) is not None or not is_large_enough:
            return False
    return True


def are_linked(request: Request, grants: Sequence[Grant], node: Node) -> bool:
    """Return whether the cards of each container are such as the topology of its request demands.

    Only a search can say: it finds them where the container may have no others of the idle node.
    """
    if not _is_bound_to_links(request):
        return True
    idle = NodeLedger.of(node)
    for container in request.containers:
        cards = frozenset(grant.card for grant in grants if grant.container == container.name)
        alone = replace(request, containers=(container,), allow_uuids=cards)
        if isinstance(fit(alone, idle), Reason):
            return False
    return True


def has_room(request: Request, grants: Sequence[Grant], ledger: NodeLedger) -> bool:
    """Return whether grants fit beside other allocations; one of the pod itself counts as free."""
    allocation = Allocation.of(request, Placement(ledger.node.name, tuple(grants)))
    try:
        ledger.release(request.uid).reserve(allocation)
    except LedgerError:
        return False
    return True


def answers(request: Request, grants: Sequence[Grant], node: Node) -> bool:
    """Return whether grants that a pod has are what it requests, or more.

    The uid does not say so by itself: a client without an API server can send another request under
    the same uid. Grants that name no container, which another scheduler made, are not compared.
    """
    if any(grant.container == "" for grant in grants):
        return True
    try:
        stated = restate(request, grants, node)
    except ChoiceError:
        return False
    found = {_part(grant): grant for grant in grants}
    return all(
        has.memory >= each.memory and has.compute >= each.compute
        for each in stated
        for has in (found[_part(each)],)
    )


def _is_bound_to_links(request: Request) -> bool:
    return request.topology.required is not None or request.topology.must_partition


def _part(grant: Grant) -> tuple[str, str, str, int]:
    """Return what of which card a container has: by it one of its grants is known."""
    slot = grant.slice
    return grant.container, grant.card, slot.profile if slot else "", slot.start if slot else 0


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """Where a pod goes whose controller makes it in place of one that was moved.

    Attributes:
        node: the node; the pod goes to no other one.
        is_free: whether the pods that were to leave the place have left.
    """

    node: str
    is_free: bool

    def refusal(self, node: str) -> str:
        """Return why the pod does not go to a node now; empty where it does."""
        if node != self.node:
            return f"its place is kept on node {self.node}"
        return "" if self.is_free else str(Cause.KEPT.value)


def kept_place(
    pod_request: PodRequest, ledgers: LedgerCache, staying: Callable[[str], Collection[str]]
) -> KeptPlace | None:
    """Return the place that is kept for the next pod of a controller.

    None where none is for this pod.

    A pod that a plan makes room for may go to any node: it is the plan that gives it the cards. So
    may one that comes before its place can be free, such as when its controller is scaled up.

    Args:
        pod_request: the pod.
        ledgers: of all nodes.
        staying: the uids of the pods of a node that are not about to leave it.
    """
    request, found = pod_request.request, dict[str, tuple[str, Hold]]()
    owner = controller(pod_request.pod)
    for node in () if owner is None else ledgers.keeping_for(owner.uid):
        hold = kept_for(pod_request.pod, request, ledgers.record(node))
        if hold is not None and hold.recipient != request.uid:
            found[hold.id] = node, hold
    if not found or ledgers.has_committed(request.uid):
        return None
    for _, (node, hold) in sorted(found.items()):
        ledger = ledgers.inventory.ledger(node)
        if is_free(hold, request, ledger):
            return KeptPlace(node, is_free=True)
        leaving = ledgers.record(node).allocations.keys() - staying(node)
        if is_free(hold, request, ledger.release(*leaving)):
            return KeptPlace(node, is_free=False)
    return None


def kept_for(pod: Pod, request: Request, ledger: NodeLedger) -> Hold | None:
    """Return the first place that is kept for a pod on a node, and that is just what it requests.

    A pod whose controller has changed since requests something else, and gets no kept place.

    Args:
        pod: the pod.
        request: of the pod.
        ledger: of the node; an allocation of the pod there ends the search.
    """
    if request.uid in ledger.allocations:
        return None
    owner = controller(pod)
    uid, name = "" if owner is None else owner.uid, full_name(pod)
    kept = sorted(ledger.kept(), key=lambda hold: hold.id)
    return next(
        (
            hold
            for hold in kept
            if hold.is_for(request.uid, uid, name)
            and is_asked(request, hold.allocation.grants, ledger.node)
        ),
        None,
    )


def is_free(hold: Hold, request: Request, ledger: NodeLedger) -> bool:
    """Return whether the pods that were to leave a kept place have left.

    Other places of its plan do not count: they fit beside it once all have left that are to.

    Args:
        hold: the place.
        request: of the pod that gets it.
        ledger: of the node, with the kept places as reservations.
    """
    of_plan = [each.id for each in ledger.holds if each.plan == hold.plan]
    return has_room(request, hold.allocation.grants, ledger.release(*of_plan))
