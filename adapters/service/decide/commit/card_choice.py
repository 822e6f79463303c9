"""Which cards of a node a pod gets: the decision of a commit, as a function of values."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from adapters.accounting.pod_requests import PodRequest
from adapters.service.decide.commit.attempt import Decided, LedgerView
from adapters.service.decide.commit.kept_place import is_free, kept_for
from adapters.service.decide.commit.validate import answers, is_valid
from core.feasibility.fit import fit
from core.hardware.node import Node
from core.ledger.hold import Hold
from core.requests.grant import KUBELET, Allocation, Grant, Placement
from core.requests.pod_ref import PodRef
from core.requests.reason import Cause, Reason
from core.requests.request import Request


@dataclass(frozen=True, slots=True)
class Committed:
    """The allocation that a pod has now.

    Attributes:
        placement: on its node.
        node: as the ledger that was written describes it.
        new: False where the store had the allocation before.
        choice_accepted: it is the choice of cards that came with the request.
        attempt: of the allocation: it identifies this attempt to bind.
        earlier_attempt: of the attempt before; 0 where there was none.
        hold: the place that a plan of moves kept for the pod, and that it gets; None where it gets
            none.
    """

    placement: Placement
    node: Node
    new: bool
    choice_accepted: bool = False
    attempt: int = 0
    earlier_attempt: int = 0
    hold: Hold | None = None

    @property
    def is_untouched(self) -> bool:
        """Whether the pod gets nothing of the ledger: a device plugin serves it on its node."""
        return not self.placement.grants and not self.placement.blocked


@dataclass(frozen=True, slots=True)
class PodAttempt:
    """A pod that goes to a node; an ``Attempt``.

    Attributes:
        pod_request: the pod.
        node: the name of the node.
        choice: of cards by another scheduler, accepted if it is valid; empty for none.
    """

    pod_request: PodRequest
    node: str
    choice: tuple[Grant, ...] = ()

    @property
    def holder(self) -> PodRef:
        """The pod, with its uid."""
        request = self.pod_request.request
        return PodRef.parse(request.pod, request.uid)

    def decide(self, view: LedgerView) -> Decided[Committed | Reason]:
        """Decide as ``Attempt``."""
        request, stored = self.pod_request.request, view.stored
        hold = kept_for(self.pod_request.pod, request, stored)
        answer = choose_cards(request, view, self.choice, hold)
        if isinstance(answer, Reason) or answer.is_untouched:
            return Decided(view, answer, stored)
        allocation = Allocation.of(request, answer.placement) if answer.new else None
        # An allocation that is there already is written too: the store must still have it when the
        # Binding is sent, and a reconciler that is about to release it must lose the race.
        after = stored.renew(request.uid) if allocation is None else stored.allocate(allocation)
        if answer.hold is not None:
            after = after.take(answer.hold, request.uid)
        before = stored.allocations.get(request.uid)
        answer = replace(
            answer,
            attempt=after.allocations[request.uid].attempt,
            earlier_attempt=0 if before is None else before.attempt,
        )
        return Decided(view, answer, after, allocation)


def choose_cards(
    request: Request,
    view: LedgerView,
    choice: Sequence[Grant] = (),
    hold: Hold | None = None,
) -> Committed | Reason:
    """What the pod has already, else what is kept for it, else its reservation, else what fits.

    A kept place that is not free yet is kept on. The choice of its scheduler comes before what
    fits.

    Args:
        request: of the pod.
        view: of the node's ledger.
        choice: of cards by another scheduler, accepted if it is valid; empty for none.
        hold: the place that is kept for the pod on the node; None where none is.
    """
    stored, own, choice = view.stored, view.own, tuple(choice)
    described, node = stored.node, stored.node.name
    earlier = stored.allocations.get(request.uid)
    if earlier is not None and earlier.unread is not None:
        if request.plugin is None or earlier.dialect != KUBELET:
            return Reason(node, len(stored.node.cards), cause=Cause.BLOCKED)
        found = fit(request, view.reserved.release(request.uid))
        if isinstance(found, Reason):
            return found
        if found.grants or not found.blocked <= earlier.blocked:
            return Reason(node, len(stored.node.cards), cause=Cause.OTHER_REQUEST)
        return Committed(Placement(node, (), earlier.blocked), described, new=False)
    if earlier is not None:
        if not answers(request, earlier.grants, stored.node):
            return Reason(node, len(stored.node.cards), cause=Cause.OTHER_REQUEST)
        return Committed(Placement(node, earlier.grants), described, new=False)
    if hold is not None and is_free(hold, request, view.reserved):
        kept = hold.allocation.grants
        accepted = choice == kept
        place = Placement(node, kept)
        return Committed(place, described, new=True, choice_accepted=accepted, hold=hold)
    if (
        own is not None
        and own.node == node
        and choice in ((), own.grants)
        and is_valid(request, own.grants, stored)
    ):
        placement = Placement(node, own.grants)
        return Committed(placement, described, new=True, choice_accepted=bool(choice))
    ledger = view.reserved.release(request.uid)
    if choice and is_valid(request, choice, ledger):
        return Committed(Placement(node, choice), described, new=True, choice_accepted=True)
    result = fit(request, ledger)
    return result if isinstance(result, Reason) else Committed(result, described, new=True)
