"""What is wrong in a ledger, or between a ledger and its pods."""

from dataclasses import dataclass
from enum import Enum


class ProblemKind(Enum):
    """What is wrong in a ledger; the value identifies the rule in reports."""

    UNREADABLE = "unreadable-allocation"
    UNKNOWN_CARD = "unknown-card"
    CONTESTED = "containers-exclude-each-other"
    MEMORY = "memory-over-allocated"
    COMPUTE = "compute-over-allocated"
    SLOTS = "slots-over-allocated"
    CONFLICT = "pods-exclude-each-other"
    DRIFT = "record-differs-from-ledger"
    EDITED = "edited-record"
    WAITING = "bound-without-cards"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the ledger that a person should look at.

    Attributes:
        pod: ``namespace/name`` of the allocation, or empty where a card is meant.
        text: what is wrong, as a sentence.
        kind: of the problem.
        card: uuid; empty where no single card is meant.
    """

    pod: str
    text: str
    kind: ProblemKind
    card: str = ""
