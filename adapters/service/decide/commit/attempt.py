"""An attempt to get cards of one node, and what it comes to: the values of a commit.

``card_choice`` has the attempt of a pod, ``claim_choice`` that of a ResourceClaim.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.pod_ref import PodRef

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class LedgerView:
    """A node's ledger as a commit sees it.

    Attributes:
        stored: as the store has it.
        reserved: the same with this process's reservations.
        own: the holder's reservation, on any node; None where it has none.
    """

    stored: NodeLedger
    reserved: NodeLedger
    own: Allocation | None = None


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
        ...

    @property
    def node(self) -> str:
        """The name of the node."""
        ...

    def decide(self, view: LedgerView) -> Decided[AnswerT]:
        """Decide on one state of the ledger; a pure function, called again for a newer state."""
        ...
