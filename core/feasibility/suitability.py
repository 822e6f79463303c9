"""Whether a node and its cards suit a request at all, before anything is compared that changes.

A vendor's own device plugin serves some requests. On a node without cards such a pod is not ours.
On a node of the ledger it must not get a card that is allocated: where a dialect of the request
describes cards, the ledger chooses them as for any other request; elsewhere the kubelet chooses, so
that every card that it may choose must be free.
"""

from collections.abc import Iterable

from core.hardware import mig
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import first_conflict, shares_by_card
from core.requests.grant import KUBELET, Allocation, Placement
from core.requests.reason import Cause, Obstacle, Reason, count_causes
from core.requests.request import PluginShare, Request


def node_rejection(request: Request, node: Node) -> Reason | None:
    """Return why a request never fits a node, whatever is free; None where its cards decide."""
    total = len(node.cards)
    if not total:
        return Reason(node.name, 0, cause=Cause.NO_CARDS)
    if not any(map(request.described, node.cards)):
        left = (card.problem for card in node.cards if card.problem and not card.dialects)
        return Reason(node.name, total, cause=Cause.NO_DIALECT, detail=next(left, ""))
    if request.isolation is not None and request.isolation != node.isolation:
        return Reason(node.name, total, cause=Cause.ISOLATION)
    for container in request.containers:
        # One card in MIG mode can be several of the cards that a container asks for.
        if container.count > total and not (
            request.several_slices
            and Mode.MIG in request.modes
            and any(card.mode is Mode.MIG for card in node.cards)
        ):
            return Reason(node.name, total, container.count, container.name, Cause.TOO_FEW)
    return None


def unsuitable(request: Request, card: Card) -> Cause | None:
    """Return why a card never suits a request, free or not; None where it suits."""
    if not request.described(card):
        return Cause.DIALECT
    if not card.healthy:
        return Cause.UNHEALTHY
    if request.vendor is not None and request.vendor != card.vendor:
        return Cause.VENDOR
    if card.mode not in request.modes:
        return Cause.MODE
    if card.uuid in request.deny_uuids:
        return Cause.UUID
    if request.allow_uuids is not None and card.uuid not in request.allow_uuids:
        return Cause.UUID
    if request.allow_types is None and not request.deny_types:
        return None
    names = [name.lower() for name in (*card.names, card.model)]

    def is_listed(types: Iterable[str]) -> bool:
        return any(each.lower() in name for each in types for name in names)

    is_allowed = request.allow_types is None or is_listed(request.allow_types)
    return None if is_allowed and not is_listed(request.deny_types) else Cause.TYPE


def obstacle_of(cause: Cause, card: Card) -> Obstacle:
    """Return an obstacle for a card that never suits, in the words of its description if any."""
    is_stated = cause in (Cause.UNHEALTHY, Cause.MODE) or (
        cause is Cause.DIALECT and not card.dialects
    )
    return Obstacle(cause, detail=card.problem if is_stated else "")


def slice_obstacle(card: Card, memory: int, compute: int) -> Obstacle:
    """Return why no slice of a card in MIG mode suits: none is free, or none is large enough."""
    if not card.geometry.layouts:
        return Obstacle(Cause.NO_LAYOUT)
    large_enough = mig.free_slices(card.geometry, (), memory)
    if not large_enough:
        return Obstacle(Cause.NO_PROFILE)
    most = max(slot.compute for slot in large_enough)
    return Obstacle(Cause.NO_SLICE) if most >= compute else Obstacle(Cause.COMPUTE, compute - most)


def kubelet_chooses(request: Request, cards: tuple[Card, ...]) -> bool:
    """Return whether a device plugin and the kubelet serve a request on a node with these cards."""
    if request.plugin is None:
        return False
    own = [card for card in cards if _of_vendor(request, card)]
    return request.plugin is PluginShare.DEVICE or not any(map(request.described, own))


def has_undescribed_cards(ledger: NodeLedger) -> bool:
    """Return whether pods have cards by the ledger that nothing describes any more.

    The kubelet may choose these cards, and which of them it chose cannot be known.
    """
    described = {card.uuid for card in ledger.node.cards}
    return any(
        not described.issuperset((*held.blocked, *(grant.card for grant in held.grants)))
        for held in ledger.without_holds().allocations.values()
        if held.dialect != KUBELET
    )


def is_not_ours(ledger: NodeLedger) -> bool:
    """Return whether a node has no cards to allocate, and had none that pods still have."""
    return not ledger.node.cards and not has_undescribed_cards(ledger)


def kubelet_placement(request: Request, ledger: NodeLedger) -> Placement | Reason:
    """Return a placement without grants, on a node where the kubelet chooses.

    Args:
        request: for which ``kubelet_chooses`` is true there.
        ledger: of the node, without what the pod has already.
    """
    if has_undescribed_cards(ledger):
        return Reason(ledger.node.name, len(ledger.node.cards), cause=Cause.UNDESCRIBED)
    blocked = frozenset(card.uuid for card in reachable_cards(request, ledger.node.cards))
    placement = Placement(ledger.node.name, (), blocked)
    share = shares_by_card(Allocation.of(request, placement), (), blocked=True)
    obstacles = [
        obstacle
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
        if card.uuid in blocked and (obstacle := first_conflict(card, use, share)) is not None
    ]
    if not obstacles:
        return placement
    first = request.containers[0]
    return Reason(
        ledger.node.name,
        len(ledger.node.cards),
        first.count,
        first.name,
        counts=count_causes(obstacles),
    )


def reachable_cards(request: Request, cards: tuple[Card, ...]) -> tuple[Card, ...]:
    """Return the cards of which the kubelet may give a pod a part.

    A shared card or a MIG device is of a card of its vendor in such a mode; where there is none it
    may be of any of its vendor, because a description may be older than the device plugin. What
    counts as a whole card is a MIG device where the plugin's strategy is "single".
    """
    own = tuple(card for card in cards if _of_vendor(request, card))
    if request.plugin is PluginShare.CARD:
        return own
    return tuple(card for card in own if card.mode in request.modes) or own


def _of_vendor(request: Request, card: Card) -> bool:
    return request.vendor in (None, card.vendor)
