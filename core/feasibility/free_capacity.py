"""What one card has left, in three numbers, and what a request must find there.

A necessary condition that a machine can check fast: where it fails, ``fit`` fails too. For a
single container that asks without group, exclusion rule or QoS for shares of cards, it is
also enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.feasibility.fit import required_memory, unsuitable
from core.hardware import mig
from core.hardware.card import Card, Mode
from core.hardware.quantity import FULL
from core.ledger.usage import CardUsage
from core.requests.request import ContainerRequest, Request, TaskClass

FreeCapacity = tuple[int, int, int]
"""Free bytes, free percent of compute, and tags of the holders; of a card in MIG mode the most
that any free slice has. -1 free where the card is of no use to anybody, or oversold."""

NO_CAPACITY: FreeCapacity = (-1, -1, 0)

NORMAL, ONLINE, OFFLINE, EXCLUSIVE, UNDISTURBED = 1, 2, 4, 8, 16
"""Tags: some holder is normal, online, offline, exclusive; exclusive and not offline."""

_FOREIGN = {
    TaskClass.NORMAL: ONLINE | OFFLINE | EXCLUSIVE,
    TaskClass.OFFLINE: NORMAL | ONLINE | EXCLUSIVE,
    TaskClass.ONLINE: NORMAL | UNDISTURBED,
}
"""Tags that keep a task of each class away."""

_CLASS = {TaskClass.NORMAL: NORMAL, TaskClass.ONLINE: ONLINE, TaskClass.OFFLINE: OFFLINE}


@dataclass(frozen=True, slots=True)
class CardDemand:
    """What a container must find.

    Attributes:
        count: on how many cards.
        memory: free bytes, on each make of card; None where that make will never do.
        compute: free percent.
        forbidden: tags that no holder may have.
    """

    count: int
    memory: tuple[int | None, ...]
    compute: int
    forbidden: int


def free_capacity(card: Card, use: CardUsage) -> FreeCapacity:
    """What a card has left."""
    if not card.healthy or use.slots >= card.slots:
        return NO_CAPACITY
    tags = 0
    for holder in use.shares:
        if holder.blocked or (holder.unreadable_slices and card.mode is Mode.MIG):
            return NO_CAPACITY
        tags |= _CLASS[holder.task_class]
        if holder.exclusive:
            tags |= EXCLUSIVE | (0 if holder.task_class is TaskClass.OFFLINE else UNDISTURBED)
    if card.mode is not Mode.MIG:
        return max(card.memory - use.memory, -1), max(FULL - use.compute, -1), tags
    free = mig.free_slices(card.geometry, use.slices())
    memory = max((slot.memory for slot in free), default=-1)
    return memory, max((slot.compute for slot in free), default=FULL) or 1, tags


def card_demands(request: Request, makes: Sequence[Card]) -> list[CardDemand] | None:
    """What each container must find, or None where no card will ever do.

    Args:
        request: what is asked.
        makes: healthy cards, one of each make. Their uuids do not count.
    """
    if request.allow_uuids is not None or request.deny_uuids:
        request = replace(request, allow_uuids=None, deny_uuids=frozenset())
    able = [unsuitable(request, card) is None for card in makes]
    if not any(able):
        return None
    return [
        CardDemand(
            ask.count,
            tuple(
                required_memory(ask, card) if usable else None
                for card, usable in zip(makes, able, strict=True)
            ),
            _compute(request, ask),
            _forbidden(request, ask),
        )
        for ask in request.containers
    ]


def _compute(request: Request, ask: ContainerRequest) -> int:
    """A container that reserves none needs a card that is not sold out, unless it is online."""
    return ask.compute if request.task_class is TaskClass.ONLINE else max(ask.compute, 1)


def _forbidden(request: Request, ask: ContainerRequest) -> int:
    return NORMAL | ONLINE | OFFLINE if ask.exclusive else _FOREIGN[request.task_class]
