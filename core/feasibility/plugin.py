"""Requests that a vendor's own device plugin serves, against one node.

On a node without cards such a pod is not ours. On a node of the ledger it must not get a card that
is allocated: where a dialect of the request describes cards, the ledger chooses them as for any
other request; elsewhere the kubelet chooses, so that every card that it may choose must be free.
"""

from core.hardware.card import Card
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardShare, first_conflict, shares_by_card
from core.requests.grant import KUBELET, Allocation, Placement
from core.requests.reason import Cause, Reason, count_causes
from core.requests.request import PluginShare, Request


def kubelet_chooses(request: Request, cards: tuple[Card, ...]) -> bool:
    """Whether not the ledger, but a device plugin and the kubelet serve a request on a node.

    Args:
        request: what the pod asks for.
        cards: of the node.
    """
    if request.plugin is None:
        return False
    own = [card for card in cards if _of_vendor(request, card)]
    return request.plugin is PluginShare.DEVICE or not any(map(request.described, own))


def has_undescribed_cards(ledger: NodeLedger) -> bool:
    """Whether pods have cards by the ledger that nothing describes any more.

    The kubelet may choose these cards, and which of them it chose cannot be known.
    """
    described = {card.uuid for card in ledger.node.cards}
    for allocation in ledger.without_holds().allocations.values():
        if allocation.dialect != KUBELET:
            if not described >= allocation.blocked:
                return True
            for grant in allocation.grants:
                if grant.card not in described:
                    return True
    return False


def is_not_ours(ledger: NodeLedger) -> bool:
    """Whether a node has no cards for the ledger to allocate, and had none that pods still have."""
    return not ledger.node.cards and not has_undescribed_cards(ledger)


def kubelet_placement(request: Request, ledger: NodeLedger) -> Placement | Reason:
    """A placement without grants, on a node where the kubelet chooses.

    Args:
        request: for which ``kubelet_chooses`` is true there.
        ledger: of the node, without what the pod has already.
    """
    if has_undescribed_cards(ledger):
        return Reason(ledger.node.name, len(ledger.node.cards), cause=Cause.UNDESCRIBED)
    reachable = reachable_cards(request, ledger.node.cards)
    blocked = frozenset(card.uuid for card in reachable)
    placement = Placement(ledger.node.name, (), blocked)
    share = _share(request, placement)
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
    """The cards of which the kubelet may give a pod a part.

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


def _share(request: Request, placement: Placement) -> CardShare:
    return shares_by_card(Allocation.of(request, placement), (), blocked=True)
