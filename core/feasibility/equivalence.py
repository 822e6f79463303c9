"""Classes of nodes: whatever fits one node of a class fits every other one just as well."""

from collections.abc import Hashable
from itertools import count

from core.feasibility.suitability import has_undescribed_cards
from core.hardware.card import Card, Scope
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage


def hardware_class(node: Node) -> Hashable:
    """Return what stays when cards are allocated, become unhealthy or are linked differently.

    Nodes of one hardware class share a capacity table.
    """
    return (node.isolation, *(card_model(card) for card in node.cards))


def card_model(card: Card) -> Hashable:
    """Return what never changes of one card; other cards may be equal in it."""
    return (
        card.vendor,
        card.model,
        card.names,
        card.dialects,
        card.memory,
        card.slots,
        card.mode,
        card.geometry,
        card.compute,
    )


def _card_states(node: Node) -> Hashable:
    """Return what of a node is neither its allocations nor in its hardware class."""
    scopes: dict[Scope, int] = {}
    return (
        (node.partitions, node.partitions_bind, node.losses, node.gains, node.scores),
        *(
            (
                (card.index, card.numa, card.healthy, card.problem),
                tuple((scope.level, scopes.setdefault(scope, len(scopes))) for scope in card.links),
            )
            for card in node.cards
        ),
    )


def _shares(use: CardUsage) -> tuple[Hashable, ...]:
    return tuple(
        (
            share.memory,
            share.compute,
            share.slots,
            share.exclusive,
            share.blocked,
            share.by_kubelet,
            share.terms.of_any_member,
            share.slices,
            share.unreadable_slices,
        )
        for share in use.shares
    )


class NodeClassIds:
    """Class ids: equal for two nodes that differ only in names and uuids.

    A request that names no uuid and holds nothing on either gets the cards of the same positions
    on both, or is rejected for the same reason, and both rank alike. The ids are small numbers in
    place of tuples, so that they are compared fast.

    Past a limit all ids are dropped, and later ledgers get new numbers, never an old one.
    """

    def __init__(self, limit: int = 1 << 16) -> None:
        self._limit = limit
        self._ids: dict[Hashable, int] = {}
        self._idle_ids: dict[Hashable, int] = {}
        self._idle_id_of: dict[str, tuple[Node, int]] = {}
        self._next = count()

    def of(self, ledger: NodeLedger) -> int:
        """Return the class id of a node in the state of its ledger."""
        if len(self._ids) > self._limit:
            self._ids.clear()
        shares = tuple(map(_shares, ledger.usages))
        key = (self.of_node(ledger.node), shares, has_undescribed_cards(ledger))
        return self._ids.setdefault(key, next(self._next))

    def of_node(self, node: Node) -> int:
        """Return the class id of a node without its allocations, kept while its object is the same.

        It is a number of its own, which no ledger of the node has as class id.
        """
        known = self._idle_id_of.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        if len(self._idle_id_of) > self._limit:
            self._idle_id_of.clear()
        if len(self._idle_ids) > self._limit:
            self._idle_ids.clear()
        key = (hardware_class(node), _card_states(node))
        number = self._idle_ids.setdefault(key, next(self._next))
        self._idle_id_of[node.name] = (node, number)
        return number
