"""The decisions of commits, as a recorder gets them; see ``decide.recorder``."""

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.accounting.pod_requests import PodRequest
from adapters.service.decide.commit.attempt import LedgerView
from adapters.service.decide.commit.card_choice import Committed
from adapters.service.decide.recorder import RecordedDecision
from core.requests.grant import Allocation, Grant
from core.requests.reason import Reason


@dataclass(frozen=True, slots=True)
class CardsChosen(RecordedDecision):
    """Which cards a pod gets in one step of a commit.

    Attributes:
        pod: that wants them.
        choice: the cards that its scheduler chose; none leaves the choice to the ledger.
        view: the ledger on which the step decides.
        answer: what the pod gets, or why it gets nothing.
        is_written: whether the step writes the ledger; else it only reserves.
    """

    pod: PodRequest
    choice: Sequence[Grant]
    view: LedgerView
    answer: Committed | Reason
    is_written: bool


@dataclass(frozen=True, slots=True)
class ClaimChecked(RecordedDecision):
    """Whether a ResourceClaim gets the devices that were chosen for it.

    Attributes:
        asked: what it would hold.
        view: the ledger on which the commit decides.
        problem: why it does not get them; None where it does.
    """

    asked: Allocation
    view: LedgerView
    problem: str | None
