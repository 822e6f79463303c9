"""What is left of the cards of a node: the largest share that fits, and what is stranded."""

from collections.abc import Iterable
from dataclasses import dataclass

from core.feasibility.columns import free_capacity
from core.feasibility.fit import fit
from core.hardware.card import Card, Mode
from core.hardware.quantity import percent
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage
from core.requests.grant import Placement
from core.requests.request import ContainerRequest, Request

_EVERY_MODE = frozenset(Mode)


@dataclass(frozen=True, slots=True)
class FreeShares:
    """What is left of the cards of one model on one node.

    Attributes:
        idle: those without a share that a container, or a claim, can get as a whole.
        free: bytes that are not allocated.
        largest: bytes of the largest share of one card that still fits, or of an idle one of no
            dialect, which only a claim gets; 0 where there is none.
        stranded: free bytes that no request can use: the card has no slot or no compute left, is
            unhealthy, exclusive, or blocked by a record that cannot be read.
        stranded_compute: free percent on cards of which no request can use any memory.
        fragmentation: as ``fragmentation``, of these cards.
    """

    model: str
    cards: int
    idle: int
    free: int
    largest: int
    stranded: int
    stranded_compute: int
    fragmentation: int


def free_shares(ledger: NodeLedger) -> tuple[FreeShares, ...]:
    """Return what is left of a node, by model in the order of its cards."""
    by_model: dict[str, list[tuple[Card, CardUsage]]] = {}
    for card, use in zip(ledger.node.cards, ledger.usages, strict=True):
        by_model.setdefault(card.model, []).append((card, use))
    found: list[FreeShares] = []
    for model, members in by_model.items():
        free = [max(card.memory - use.memory, 0) for card, use in members]
        usable = [_largest_share(card, use, ledger) for card, use in members]
        found.append(
            FreeShares(
                model=model,
                cards=len(members),
                idle=sum(
                    bool(share) and not use.shares
                    for (_, use), share in zip(members, usable, strict=True)
                ),
                free=sum(free),
                largest=max(usable),
                stranded=sum(  # several slices are each usable
                    0 if share and card.mode is Mode.MIG else left - share
                    for left, share, (card, _) in zip(free, usable, members, strict=True)
                ),
                stranded_compute=sum(
                    max(card.compute - use.compute, 0)
                    for (card, use), share in zip(members, usable, strict=True)
                    if not share
                ),
                fragmentation=_fragmentation(members),
            )
        )
    return tuple(found)


def fragmentation(ledgers: Iterable[NodeLedger]) -> int:
    """Return how fragmented the free memory of healthy cards is, 0 to 99 percent.

    For each free byte, how much of its card is in use, on average: 0 where all free memory is on
    idle cards, or none is free.
    """
    return _fragmentation(
        pair for ledger in ledgers for pair in zip(ledger.node.cards, ledger.usages, strict=True)
    )


def _fragmentation(cards: Iterable[tuple[Card, CardUsage]]) -> int:
    free = lost = 0
    for card, use in cards:
        left = max(card.memory - use.memory, 0) if card.healthy else 0
        free += left
        lost += left * (card.memory - left) // card.memory
    return percent(lost, free)


def _largest_share(card: Card, use: CardUsage, ledger: NodeLedger) -> int:
    """Bytes of the largest share of one card that ``fit`` allows to a normal task, or a claim."""
    memory = free_capacity(card, use)[0]
    if memory <= 0:
        return 0
    if not card.dialects:  # only a driver of claims describes it, or it was withdrawn
        return 0 if use.shares or card.problem or not card.healthy else memory
    for dialect in sorted(card.dialects):
        container = ContainerRequest("", count=1, memory=memory)
        request = Request(
            "", "", dialect, (container,), modes=_EVERY_MODE, allow_uuids=frozenset((card.uuid,))
        )
        if isinstance(fit(request, ledger), Placement):
            return memory
    return 0
