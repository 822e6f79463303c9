"""What two nodes have in common when whatever fits one fits the other just as well."""

from collections.abc import Hashable
from itertools import count

from core.hardware.card import Card, Scope
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUse


def shape(node: Node) -> Hashable:
    """What never changes while cards are sold, fall ill or are linked another way."""
    return (node.isolation, *(make(card) for card in node.cards))


def make(card: Card) -> Hashable:
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


def likeness(ledger: NodeLedger) -> Hashable:
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
            for card, use in zip(node.cards, ledger.uses, strict=True)
        ),
    )


class Kinds:
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
        like = (shape(ledger.node), likeness(ledger))
        return self._numbers.setdefault(like, next(self._fresh))


def _holders(use: CardUse) -> tuple[Hashable, ...]:
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
            holder.uncut,
        )
        for holder in use.holders
    )
