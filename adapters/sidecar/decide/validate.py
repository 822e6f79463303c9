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
    containers = {container.name for container in request.containers}
    if any(grant.card not in cards or grant.container not in containers for grant in grants):
        return False
    if not all(_has_its_cards(request, each, grants, cards) for each in request.containers):
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


def _has_its_cards(
    request: Request, container: ContainerRequest, grants: Sequence[Grant], cards: dict[str, Card]
) -> bool:
    """Whether the container gets as many different cards as it requests, with its share of each."""
    own = [grant for grant in grants if grant.container == container.name]
    return len(own) == container.count == len({grant.card for grant in own}) and all(
        _is_its_share(request, container, grant, cards[grant.card]) for grant in own
    )


def _is_its_share(request: Request, container: ContainerRequest, grant: Grant, card: Card) -> bool:
    if unsuitable(request, card) is not None or (
        grant.exclusive,
        grant.phase,
    ) != (container.exclusive, container.phase):
        return False
    memory = container.memory_on(card.memory)
    if card.mode is Mode.MIG:
        slot = grant.slice
        return (
            slot is not None
            and any(slot in layout.slices for layout in card.geometry.layouts)
            and (grant.memory, grant.compute) == (slot.memory, slot.compute)
            and slot.memory >= memory
            and slot.compute >= container.compute
        )
    return grant.slice is None and (grant.memory, grant.compute) == (memory, container.compute)
