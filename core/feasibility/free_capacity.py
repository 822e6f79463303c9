"""The free capacity of one card in three numbers, and what a container demands of them.

A necessary condition that NumPy checks fast: where it fails, ``fit`` fails too. For a request of a
single container for shares of cards, without group, exclusion rule or QoS, it is also sufficient.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.feasibility.suitability import unsuitable
from core.hardware import mig
from core.hardware.card import Card, Mode
from core.hardware.quantity import FULL
from core.ledger.usage import CardUsage
from core.requests.request import ContainerRequest, Request, required_memory
from core.requests.sharing import TaskClass

FreeCapacity = tuple[int, int, int]
"""Free bytes, free percent of compute, and tags of the shares; of a card in MIG mode the most
that any free slice has. -1 where no request can have the card, or more is allocated than it has.
Compute is at most ``FULL``, the most that one container requests; 1 percent is free of a card
without compute, because requests of memory alone fit it."""

NO_CAPACITY: FreeCapacity = (-1, -1, 0)

NORMAL, ONLINE, OFFLINE, EXCLUSIVE, UNDISTURBED = 1, 2, 4, 8, 16
"""Tags: some share is normal, online, offline, exclusive; exclusive and not offline."""

_REJECTING = {
    TaskClass.NORMAL: ONLINE | OFFLINE | EXCLUSIVE,
    TaskClass.OFFLINE: NORMAL | ONLINE | EXCLUSIVE,
    TaskClass.ONLINE: NORMAL | UNDISTURBED,
}
"""Tags of the cards that reject a task class, by the class."""

_CLASS = {TaskClass.NORMAL: NORMAL, TaskClass.ONLINE: ONLINE, TaskClass.OFFLINE: OFFLINE}


@dataclass(frozen=True, slots=True)
class CardDemand:
    """What one container demands of a node's cards.

    Attributes:
        count: how many cards must meet the demand; 1 where one can give several slices.
        memory: free bytes, by model of card; None for a model that the request never fits.
        compute: free percent.
        forbidden: tags that the card must not have, by model of card.
    """

    count: int
    memory: tuple[int | None, ...]
    compute: int
    forbidden: tuple[int, ...]


def free_capacity(card: Card, use: CardUsage) -> FreeCapacity:
    """The free capacity of a card."""
    if not card.healthy or use.slots >= card.slots:
        return NO_CAPACITY
    tags = 0
    for share in use.shares:
        if share.blocked or (share.unreadable_slices and card.mode is Mode.MIG):
            return NO_CAPACITY
        tags |= (
            NORMAL if share.terms.task_class is TaskClass.NORMAL else _CLASS[share.terms.task_class]
        )
        if share.exclusive:
            tags |= EXCLUSIVE | (0 if share.terms.task_class is TaskClass.OFFLINE else UNDISTURBED)
    if card.mode is not Mode.MIG:
        compute = card.compute - use.compute if card.compute else 1 - use.compute
        return max(card.memory - use.memory, -1), min(max(compute, -1), FULL), tags
    slices = mig.free_slices(card.geometry, use.slices())
    memory = max((slot.memory for slot in slices), default=-1)
    return memory, max((slot.compute for slot in slices), default=FULL) or 1, tags


def card_demands(request: Request, models: Sequence[Card]) -> list[CardDemand] | None:
    """What each container demands, or None where no card suits the request.

    Args:
        request: what the pod asks for.
        models: healthy cards, one of each model. Their uuids do not count.
    """
    if request.allow_uuids is not None or request.deny_uuids:
        request = replace(request, allow_uuids=None, deny_uuids=frozenset())
    suitable = [unsuitable(request, card) is None for card in models]
    if not any(suitable):
        return None
    stacks = request.several_slices and any(
        suits and card.mode is Mode.MIG for card, suits in zip(models, suitable, strict=True)
    )
    return [
        CardDemand(
            1 if stacks else container.count,
            tuple(
                required_memory(request, container, card)
                if suits and container.compute <= card.compute
                else None
                for card, suits in zip(models, suitable, strict=True)
            ),
            _compute(request, container),
            tuple(_forbidden(request, container, card) for card in models),
        )
        for container in request.containers
    ]


def _compute(request: Request, container: ContainerRequest) -> int:
    """A container that reserves none needs a card with 1 % free, unless its task is online."""
    return (
        container.compute
        if request.terms.task_class is TaskClass.ONLINE
        else max(container.compute, 1)
    )


def _forbidden(request: Request, container: ContainerRequest, card: Card) -> int:
    if container.exclusive_on(card):
        return NORMAL | ONLINE | OFFLINE
    return _REJECTING[request.terms.task_class]
