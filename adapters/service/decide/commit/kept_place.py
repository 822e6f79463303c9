"""The place that a plan of moves keeps for a pod: whether there is one, and is free."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from adapters.accounting.movable import controller
from adapters.accounting.pod_requests import PodRequest
from adapters.service.decide.commit.validate import has_room, is_asked
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.wire.kube import Pod, full_name
from core.ledger.hold import Hold
from core.ledger.node_ledger import NodeLedger
from core.requests.reason import Cause
from core.requests.request import Request


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
