"""Whether a choice of cards that another scheduler made is valid for a request."""

from collections.abc import Sequence

from core.feasibility.suitability import unsuitable
from core.hardware.card import Card, Mode
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.request import ContainerRequest, Request


def is_valid(request: Request, grants: Sequence[Grant], ledger: NodeLedger) -> bool:
    """Whether grants are exactly what a request asks for, and fit beside other allocations.

    A choice that does not say which container has which share is invalid if several ask.

    Args:
        request: of the pod.
        grants: the choice.
        ledger: of the node; an allocation of the pod itself counts as free.
    """
    cards = {card.uuid: card for card in ledger.node.cards}
    asked = {ask.name for ask in request.containers}
    if any(grant.card not in cards or grant.container not in asked for grant in grants):
        return False
    if not all(_as_asked(request, ask, grants, cards) for ask in request.containers):
        return False
    if request.isolation not in (None, ledger.node.isolation):
        return False
    if request.topology.required is not None or request.topology.must_partition:
        return False  # whether a choice of cards satisfies these, only a search can say
    allocation = Allocation.of(request, Placement(ledger.node.name, tuple(grants)))
    try:
        ledger.release(request.uid).reserve(allocation)
    except LedgerError:
        return False
    return True


def _as_asked(
    request: Request, ask: ContainerRequest, grants: Sequence[Grant], cards: dict[str, Card]
) -> bool:
    given = [grant for grant in grants if grant.container == ask.name]
    return len(given) == ask.count == len({grant.card for grant in given}) and all(
        _enough(request, ask, grant, cards[grant.card]) for grant in given
    )


def _enough(request: Request, ask: ContainerRequest, grant: Grant, card: Card) -> bool:
    if unsuitable(request, card) is not None or (
        grant.exclusive,
        grant.phase,
    ) != (ask.exclusive, ask.phase):
        return False
    memory = ask.memory_on(card.memory)
    if card.mode is Mode.MIG:
        slot = grant.slice
        return (
            slot is not None
            and any(slot in layout.slices for layout in card.geometry.layouts)
            and (grant.memory, grant.compute) == (slot.memory, slot.compute)
            and slot.memory >= memory
            and slot.compute >= ask.compute
        )
    return grant.slice is None and (grant.memory, grant.compute) == (memory, ask.compute)
