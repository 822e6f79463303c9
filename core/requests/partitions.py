"""Groups of whole cards that the partition table of a node lists."""

from collections.abc import Set

from core.hardware.node import Node, Partition
from core.requests.request import TopologyConstraint

WEIGHTS = {8: 10_000, 4: 100, 2: 1}
"""The weight of an intact partition in the comparison of choices, by its size.
Source: koordinator-sh/koordinator pkg/scheduler/plugins/deviceshare/allocator_gpu.go."""


def rank_partitions(
    node: Node, topology: TopologyConstraint, count: int, allowed: Set[int], free: Set[int]
) -> list[frozenset[int]]:
    """The free partitions of a size, best first, as positions of cards.

    The highest score of the table comes first; then what leaves the most of the table intact; then
    the earlier entry.

    Args:
        node: the node.
        topology: the least bandwidth, and whether only the highest score of the size is allowed.
        count: how many cards.
        allowed: positions of the cards that suit the request.
        free: positions of the healthy cards without a share.
    """
    sized = [partition for partition in node.partitions if len(partition.indexes) == count]
    if topology.best_partitions_only and sized:
        highest = max(partition.score for partition in sized)
        sized = [partition for partition in sized if partition.score == highest]
    positions = _positions(node)
    entries: list[tuple[int, int, frozenset[int]]] = []
    for partition in sized:
        cards = _cards(partition, positions)
        if (
            cards is not None
            and cards <= allowed & free
            and topology.bandwidth <= partition.bandwidth
        ):
            entries.append((partition.score, intact_weight(node, free - cards, count), cards))
    entries.sort(key=lambda entry: (-entry[0], -entry[1]))
    return [cards for _, _, cards in entries]


def intact_weight(node: Node, free: Set[int], least: int = 1) -> int:
    """The weight of all partitions whose cards are free; higher is better.

    Args:
        node: the node.
        free: positions of the healthy cards without a share.
        least: smaller partitions do not count.
    """
    positions = _positions(node)
    total = 0
    for partition in node.partitions:
        size = len(partition.indexes)
        cards = _cards(partition, positions)
        if size >= least and cards is not None and cards <= free:
            total += WEIGHTS.get(size, 0) * partition.score
    return total


def _positions(node: Node) -> dict[int, int]:
    return {card.index: position for position, card in enumerate(node.cards)}


def _cards(partition: Partition, positions: dict[int, int]) -> frozenset[int] | None:
    if not positions.keys() >= set(partition.indexes):
        return None
    return frozenset(positions[index] for index in partition.indexes)
