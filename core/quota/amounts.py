"""What counts against a quota: cards, memory and compute, in whole numbers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB, format_bytes
from core.ledger.usage import shares_of
from core.requests.grant import Allocation
from core.requests.request import Phase, Request, required_memory

CARD = 1000
"""Thousandths: one whole card."""

_PER_PERCENT = CARD // FULL


@dataclass(frozen=True, slots=True)
class QuotaAmounts:
    """An amount of each resource.

    Attributes:
        cards: thousandths of a card.
        memory: bytes.
        compute: percent of one card; 250 is two and a half cards.
    """

    cards: int = 0
    memory: int = 0
    compute: int = 0

    def plus(self, other: "QuotaAmounts") -> "QuotaAmounts":
        """Return the sum."""
        return self._each(other, int.__add__)

    def most(self, other: "QuotaAmounts") -> "QuotaAmounts":
        """Return the larger amount of each resource."""
        return self._each(other, max)

    def within(self, other: "QuotaAmounts") -> bool:
        """Return whether no amount is above the other's."""
        return self.most(other) == other

    def _each(self, other: "QuotaAmounts", combine: Callable[[int, int], int]) -> "QuotaAmounts":
        return QuotaAmounts(
            combine(self.cards, other.cards),
            combine(self.memory, other.memory),
            combine(self.compute, other.compute),
        )


NOTHING = QuotaAmounts()


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """The most that the pods of a namespace may have together; None for no limit."""

    cards: int | None = None
    memory: int | None = None
    compute: int | None = None

    def exceeded(self, amounts: QuotaAmounts) -> tuple[str, ...]:
        """Return the resources of which there is more than the limit."""
        return tuple(
            name
            for name, limit, amount in self.with_amounts(amounts)
            if limit is not None and amount > limit
        )

    def strictest(self, other: "QuotaLimits") -> "QuotaLimits":
        """Return the lower limit of each resource."""
        return QuotaLimits(
            _lower(self.cards, other.cards),
            _lower(self.memory, other.memory),
            _lower(self.compute, other.compute),
        )

    def with_amounts(self, amounts: QuotaAmounts) -> tuple[tuple[str, int | None, int], ...]:
        """Return each resource by name, with its limit and an amount."""
        return (
            ("cards", self.cards, amounts.cards),
            ("memory", self.memory, amounts.memory),
            ("compute", self.compute, amounts.compute),
        )


NO_LIMITS = QuotaLimits()


def amounts_of(allocation: Allocation, node: Node) -> QuotaAmounts:
    """Return what an allocation counts.

    A share of a card counts as the larger of its fractions of the card's memory and compute,
    rounded up to a thousandth; an exclusive share as the whole card. A card of which the pod may
    have any part counts whole, with all its memory and compute. Containers that do not run at the
    same time count once, as in the ledger.

    Args:
        allocation: on the node.
        node: with its cards; a card that it does not have counts whole.
    """
    cards = {card.uuid: card for card in node.cards}
    found = NOTHING
    for uuid, share in shares_of(allocation).items():
        card = cards.get(uuid)
        part, memory, compute = CARD, share.memory, share.compute
        if share.blocked:
            memory, compute = max(memory, card.memory if card else 0), FULL
        elif card is not None and not share.exclusive:
            part = min(max(_fraction(memory, card.memory), compute * _PER_PERCENT, 1), CARD)
        found = found.plus(QuotaAmounts(part, memory, compute))
    return found


def least(request: Request, cards: Iterable[Card]) -> QuotaAmounts:
    """Return the least that any allocation of a request counts.

    Args:
        request: of a pod.
        cards: those that it may get, equal ones once; more of them give less.
    """
    described = [card for card in cards if card.memory > 0]
    largest = max((card.memory for card in described), default=0)
    running = peak = NOTHING
    for container in request.containers:
        needed = (required_memory(request, container, card) for card in described)
        memory = min(needed, default=container.memory or 0)
        part = max(
            _fraction(memory, largest) if largest else 1, container.compute * _PER_PERCENT, 1
        )
        alone = container.exclusive and all(map(container.exclusive_on, described))
        part, count = CARD if alone else min(part, CARD), container.count
        needs = QuotaAmounts(count * part, count * memory, count * container.compute)
        together = running.plus(needs)
        peak = peak.most(together)
        if container.phase is not Phase.INIT:
            running = together
    if len(request.containers) == 1:
        return peak
    # Containers of one pod may share a card, which counts once at most and may give more than 100
    # percent, so the sum of their parts is no lower bound.
    given = max((card.compute for card in described), default=FULL)
    part = peak.compute * CARD // max(given, FULL)
    part = max(part, _fraction(peak.memory, largest) if largest else 1)
    return QuotaAmounts(part, peak.memory, peak.compute)


def total(amounts: Iterable[QuotaAmounts]) -> QuotaAmounts:
    """Return the sum of several amounts."""
    found = NOTHING
    for each in amounts:
        found = found.plus(each)
    return found


def text(resource: str, amount: int) -> str:
    """Return an amount of a resource for people, such as ``1.5 cards``, ``23 GiB`` or ``150%``."""
    match resource:
        case "cards":
            return f"{format_cards(amount)} {'card' if amount == CARD else 'cards'}"
        case "memory":
            return format_bytes(amount) if amount % MIB == 0 else f"{amount} bytes"
        case _:
            return f"{amount}%"


def format_cards(thousandths: int) -> str:
    """Return thousandths of a card as a decimal number, such as ``1.5``."""
    whole, rest = divmod(thousandths, CARD)
    return f"{whole}.{rest:03}".rstrip("0").rstrip(".")


def _lower(one: int | None, other: int | None) -> int | None:
    """Return the lower of two limits, of which either may be none."""
    return min((limit for limit in (one, other) if limit is not None), default=None)


def _fraction(memory: int, size: int) -> int:
    """Return thousandths, rounded up; a card without memory counts whole."""
    return -(-memory * CARD // size) if size else CARD
