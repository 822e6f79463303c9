"""What is wrong in a ledger, or between a ledger and its pods."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from core.hardware.card import Card, Mode
from core.hardware.quantity import FULL, format_gib
from core.ledger.usage import CardShare, CardUsage, conflict_between, contested_cards
from core.requests.grant import KUBELET, Allocation


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
        card: uuid; empty where no single card is meant.
    """

    pod: str
    text: str
    kind: ProblemKind
    card: str = ""


def find_problems(
    cards: Sequence[Card], usages: Iterable[CardUsage], allocations: Mapping[str, Allocation]
) -> tuple[Problem, ...]:
    """Return all allocations that cannot be read, and all parts of cards that are allocated twice.

    Args:
        cards: of a node.
        usages: one for each card.
        allocations: on the node, by pod uid; one for each share of ``usages``.
    """
    known = {card.uuid for card in cards}
    found: list[Problem] = []
    for allocation in allocations.values():
        pod = allocation.pod
        if allocation.unread is not None and allocation.dialect != KUBELET:
            found.append(Problem(pod, allocation.unread, ProblemKind.UNREADABLE))
        for uuid in dict.fromkeys(g.card for g in allocation.grants if g.card not in known):
            text = f"holds card {uuid}, which the node does not have"
            found.append(Problem(pod, text, ProblemKind.UNKNOWN_CARD, uuid))
        for uuid in contested_cards(allocation):
            text = f"its containers exclude each other on {uuid}"
            found.append(Problem(pod, text, ProblemKind.CONTESTED, uuid))
    for card, use in zip(cards, usages, strict=True):
        found += _excess(card, use, allocations)
        for left, right in combinations(use.shares, 2):
            if (cause := conflict_between(left, right)) is not None:
                pods = f"{allocations[left.uid].pod} and {allocations[right.uid].pod}"
                text = f"card {card.uuid}: {pods} cannot share it: {cause.value}"
                found.append(Problem("", text, ProblemKind.CONFLICT, card.uuid))
    return tuple(found)


def _excess(card: Card, use: CardUsage, allocations: Mapping[str, Allocation]) -> list[Problem]:
    def parts(amount: Callable[[CardShare], str]) -> str:
        """Return each pod on the card with its dialect and its part."""
        return ", ".join(
            f"{owner.pod} ({owner.dialect}) {amount(share)}"
            for share in use.shares
            for owner in (allocations[share.uid],)
        )

    texts: dict[ProblemKind, str] = {}
    if card.mode is not Mode.MIG and use.memory > card.memory:
        texts[ProblemKind.MEMORY] = (
            f"{format_gib(use.memory)} of {format_gib(card.memory)} GiB are allocated: "
            + parts(lambda share: f"{format_gib(share.memory)} GiB")
        )
    if use.compute > card.compute:
        detail = parts(lambda share: f"{share.compute}%")
        limit = "" if card.compute == FULL else f", of which pods may have {card.compute}%"
        texts[ProblemKind.COMPUTE] = f"{use.compute}% of its compute{limit} are allocated: {detail}"
    if use.slots > card.slots:
        detail = parts(lambda share: str(share.slots))
        texts[ProblemKind.SLOTS] = f"{use.slots} of {card.slots} slots are in use: {detail}"
    return [
        Problem("", f"card {card.uuid}: {text}", kind, card.uuid) for kind, text in texts.items()
    ]
