"""What two nodes have in common when whatever fits one fits the other just as well."""

from collections.abc import Hashable
from itertools import count

from core.hardware.card import Card, Scope
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage


def hardware_class(node: Node) -> Hashable:
    """What never changes while cards are sold, fall ill or are linked another way."""
    return (node.isolation, *(card_model(card) for card in node.cards))


def card_model(card: Card) -> Hashable:
    """What never changes of one card; other cards may be equal in it."""
    return (
        card.vendor,
        card.model,
        card.names,
        card.dialects,
        card.memory,
        card.slots,
        card.mode,
        card.geometry,
    )


def node_state(ledger: NodeLedger) -> Hashable:
    """Equal for two nodes of one shape that differ in names and uuids alone.

    A request that names no uuid and holds nothing on either gets cards at the same places of
    both, or is refused for the same reason, and they rank alike.
    """
    node = ledger.node
    scopes: dict[Scope, int] = {}
    return (
        (node.partitions, node.partitions_bind, node.losses, node.gains),
        *(
            (
                (card.index, card.numa, card.healthy),
                tuple((scope.level, scopes.setdefault(scope, len(scopes))) for scope in card.links),
                _holders(use),
            )
            for card, use in zip(node.cards, ledger.usages, strict=True)
        ),
    )


class NodeClassIds:
    """Numbers for likenesses, so that they are compared fast.

    Past a limit all are forgotten, and what is asked from then on gets new numbers.
    """

    def __init__(self, limit: int = 1 << 16) -> None:
        self._limit = limit
        self._numbers: dict[Hashable, int] = {}
        self._fresh = count()

    def of(self, ledger: NodeLedger) -> int:
        """The number of a node's likeness."""
        if len(self._numbers) > self._limit:
            self._numbers.clear()
        like = (hardware_class(ledger.node), node_state(ledger))
        return self._numbers.setdefault(like, next(self._fresh))


def _holders(use: CardUsage) -> tuple[Hashable, ...]:
    return tuple(
        (
            holder.memory,
            holder.compute,
            holder.slots,
            holder.exclusive,
            holder.blocked,
            holder.task_class,
            holder.qos,
            holder.group,
            holder.exclusions,
            holder.slices,
            holder.unreadable_slices,
        )
        for holder in use.holders
    )
