"""An attempt to get cards of one node, and what it comes to: the decisions of a commit, as values.

``PodAttempt`` decides which cards a pod gets, ``ClaimAttempt`` which devices a ResourceClaim takes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import Claim
from adapters.dialects.dra.holders import enlarged
from adapters.service.decide.commit.validate import answers, is_free, is_valid, kept_for
from core.feasibility.fit import fit
from core.hardware.node import Node
from core.ledger.node_ledger import Hold, LedgerError, NodeLedger
from core.requests.grant import KUBELET, Allocation, AllocationState, Grant, Placement
from core.requests.reason import Cause, Reason
from core.requests.request import PodRef, Request

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class LedgerView:
    """A node's ledger as a commit sees it.

    Attributes:
        stored: as the store has it.
        reservations: adds this process's reservations to it, one by one: slow where there are many.
        own: the holder's reservation, on any node; None where it has none.
    """

    stored: NodeLedger
    reservations: Callable[[NodeLedger], NodeLedger]
    own: Allocation | None = None

    @property
    def reserved(self) -> NodeLedger:
        """The ledger with the reservations."""
        return self.reservations(self.stored)


@dataclass(frozen=True, slots=True)
class Decided(Generic[AnswerT]):
    """What an attempt comes to on one state of the ledger.

    Attributes:
        view: that state.
        answer: for the caller.
        after: the stored ledger with the change; the same object where nothing changes.
        allocation: what the holder gets there, which counts against a quota; None where it gets
            nothing, or has it already.
    """

    view: LedgerView
    answer: AnswerT
    after: NodeLedger
    allocation: Allocation | None = None


class Attempt(Protocol[AnswerT]):
    """A holder that wants cards of a node."""

    @property
    def holder(self) -> PodRef:
        """The pod or ResourceClaim, with its uid."""

    @property
    def node(self) -> str:
        """The name of the node."""

    def decide(self, view: LedgerView) -> Decided[AnswerT]:
        """Decide on one state of the ledger; a pure function, called again for a newer state."""


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
        hold = kept_for(self.pod_request.pod, request, stored) if stored.holds else None
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
    """Return what the pod has, else what is kept for it, else its reservation, else what fits.

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


IN_USE, QUOTA, UNCLEAR, PLACED = "in_use", "quota", "unclear", "placed"
"""Causes of a refusal: the devices are in use; the quota of the namespace has less; nothing says
which cards they are; the API server's claim has devices, or is another one."""


@dataclass(frozen=True, slots=True)
class ClaimRefusal:
    """Why a claim does not get devices.

    Attributes:
        cause: in one word, for a metric: ``in_use``, ``quota``, ``unclear`` or ``placed``.
        text: in words.
        node: whose ledger cannot have the claim; empty where no ledger is the cause.
    """

    cause: str
    text: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class ClaimOption:
    """Devices that a claim could get: those that its scheduler chose, or others as good.

    Attributes:
        claim: with these devices.
        asked: what it would hold of the node's cards.
    """

    claim: Claim
    asked: Allocation

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.asked.node


@dataclass(frozen=True, slots=True)
class ClaimAttempt:
    """A claim that wants devices of one node; an ``Attempt``.

    Attributes:
        options: one or more, all on one node; the first that is free is allocated.
    """

    options: tuple[ClaimOption, ...]

    @property
    def holder(self) -> PodRef:
        """The claim, with its uid."""
        return self.options[0].claim.ref

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.options[0].node

    def decide(self, view: LedgerView) -> Decided[ClaimOption | ClaimRefusal]:
        """Decide as ``Attempt``; a refusal says why the claim does not get the first option."""
        problems: list[str] = []
        for option in self.options:
            problem = conflict(option, view)
            if problem is None:
                allocation = added(option.asked, view.stored)
                return Decided(view, option, view.stored.allocate(allocation), allocation)
            problems.append(problem)
        return Decided(
            view, ClaimRefusal(IN_USE, f"{self.node}: {problems[0]}", self.node), view.stored
        )


def added(asked: Allocation, ledger: NodeLedger) -> Allocation:
    """Return what the claim would hold after it got its devices: never less than it holds before.

    An earlier attempt may be the one that the API server writes, so it holds its devices too until
    the reconciler has seen which allocation the claim has.
    """
    earlier = ledger.allocations.get(asked.uid)
    if earlier is None:
        return asked
    devices = asked.devices if earlier.devices == asked.devices else ""
    return replace(asked, grants=enlarged(earlier.grants, asked.grants), devices=devices)


def conflict(option: ClaimOption, view: LedgerView) -> str | None:
    """Return why the devices are not free; None where they are.

    What the claim had on the node before, by an earlier attempt, counts as free, and so does what
    is reserved for a claim that is made of its pod's resources.
    """
    asked, ledger = option.asked, view.reserved
    for held in [ledger.allocations.get(each.uid) for each in option.claim.pods]:
        if held and held.dialect == DRA and held.state is AllocationState.RESERVED:
            ledger = ledger.release(held.uid)
    earlier = ledger.allocations.get(asked.uid)
    if earlier is not None:
        if earlier.release_by is not None:
            # Its pods were deleted by force.
            return f"containers of pods that had {asked.pod} before may still run"
        if earlier.unread is not None or earlier.dialect != DRA:
            return f"what {earlier.pod} holds already is not known"
    try:
        ledger.release(asked.uid).reserve(added(asked, ledger))
    except LedgerError as error:
        return str(error)
    return None
