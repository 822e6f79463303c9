"""Whether a choice of cards that another scheduler made is valid for a request."""

from collections.abc import Sequence
from dataclasses import replace

from adapters.dialects.allocation_record import ChoiceError, restate
from core.feasibility.fit import fit
from core.feasibility.suitability import unsuitable
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.reason import Reason
from core.requests.request import ContainerRequest, Request, required_memory


def is_valid(request: Request, grants: Sequence[Grant], ledger: NodeLedger) -> bool:
    """Return whether grants are exactly what a request asks for, and fit beside other allocations.

    A choice that does not say which container has which share is invalid if several ask.

    Args:
        request: of the pod.
        grants: the choice.
        ledger: of the node; an allocation of the pod itself counts as free.
    """
    if _is_bound_to_links(request):
        return False  # whether a choice of cards satisfies these, only a search can say
    return is_asked(request, grants, ledger.node) and has_room(request, grants, ledger)


def is_asked(request: Request, grants: Sequence[Grant], node: Node) -> bool:
    """Return whether grants are exactly what a request asks for, on cards that it may have.

    They must be in start order of the containers, by which it counts what runs at the same time.

    Args:
        request: of a pod.
        grants: of cards of the node.
        node: where they are.
    """
    try:
        stated = restate(request, grants, node)
    except ChoiceError:
        return False
    cards = {card.uuid: card for card in node.cards}
    containers = {container.name: container for container in request.containers}
    if request.isolation not in (None, node.isolation):
        return False
    return stated == tuple(grants) and all(
        _may_hold(request, containers[grant.container], grant, cards[grant.card])
        for grant in grants
    )


def are_linked(request: Request, grants: Sequence[Grant], node: Node) -> bool:
    """Return whether the cards of each container are such as the topology of its request demands.

    Only a search can say: it finds them where the container may have no others of the idle node.

    Args:
        request: of a pod.
        grants: exactly what it asks for.
        node: where they are.
    """
    if not _is_bound_to_links(request):
        return True
    idle = NodeLedger.of(node)
    for container in request.containers:
        cards = frozenset(grant.card for grant in grants if grant.container == container.name)
        alone = replace(request, containers=(container,), allow_uuids=cards)
        if isinstance(fit(alone, idle), Reason):
            return False
    return True


def has_room(request: Request, grants: Sequence[Grant], ledger: NodeLedger) -> bool:
    """Return whether grants fit beside other allocations; one of the pod itself counts as free."""
    allocation = Allocation.of(request, Placement(ledger.node.name, tuple(grants)))
    try:
        ledger.release(request.uid).reserve(allocation)
    except LedgerError:
        return False
    return True


def answers(request: Request, grants: Sequence[Grant], node: Node) -> bool:
    """Return whether grants that a pod has are what it requests, or more.

    The uid does not say so by itself: a client without an API server can send another request under
    the same uid. Grants that name no container, which another scheduler made, are not compared.

    Args:
        request: of the pod.
        grants: that it has.
        node: where they are.
    """
    if any(grant.container == "" for grant in grants):
        return True
    try:
        stated = restate(request, grants, node)
    except ChoiceError:
        return False
    found = {_part(grant): grant for grant in grants}
    return all(
        has.memory >= each.memory and has.compute >= each.compute
        for each in stated
        for has in (found[_part(each)],)
    )


def _is_bound_to_links(request: Request) -> bool:
    return request.topology.required is not None or request.topology.must_partition


def _part(grant: Grant) -> tuple[str, str, str, int]:
    """Return what of which card a container has: by it one of its grants is known."""
    slot = grant.slice
    return grant.container, grant.card, slot.profile if slot else "", slot.start if slot else 0


def _may_hold(request: Request, container: ContainerRequest, grant: Grant, card: Card) -> bool:
    """Return whether the card is suitable, and its slice, if it has one, large enough."""
    if unsuitable(request, card) is not None:
        return False
    return card.mode is not Mode.MIG or (
        grant.memory >= required_memory(request, container, card)
        and grant.compute >= container.compute
    )
