"""A node, with what a placement must know about its cards."""

from dataclasses import dataclass

from core.hardware.card import Card


@dataclass(frozen=True, slots=True)
class Partition:
    """Cards that the node's fabric (NVSwitch) can join into one ring.

    Attributes:
        indexes: card indexes, ascending.
        bandwidth: of the ring, in the table's own unit; 0 where the table does not say.
        score: the table's preference; higher is better.
    """

    indexes: tuple[int, ...]
    bandwidth: int = 0
    score: int = 1


@dataclass(frozen=True, slots=True)
class Node:
    """A node and its cards.

    Attributes:
        name: unique in the cluster.
        cards: by ascending index.
        isolation: the isolation provider that is installed on the node; None where not stated.
        partitions: the fabric's partition table, in the order in which it was written.
        partitions_bind: True where a group of whole cards must be a partition of the table.
        losses: for each number of whole cards, what allocating them costs the node's links; lower
            is better.
        gains: for each number of whole cards, how well linked they are; higher is better.
        scores: for each card, by position, how well it is linked to each card; higher is better.
            Empty where no source states it.
    """

    name: str
    cards: tuple[Card, ...] = ()
    isolation: str | None = None
    partitions: tuple[Partition, ...] = ()
    partitions_bind: bool = False
    losses: tuple[tuple[int, int], ...] = ()
    gains: tuple[tuple[int, int], ...] = ()
    scores: tuple[tuple[int, ...], ...] = ()
