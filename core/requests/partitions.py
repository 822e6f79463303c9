"""Groups of whole cards that a node's partition table names."""

from collections.abc import Set

from core.hardware.node import Node, Partition
from core.requests.request import TopologyConstraint

WEIGHTS = {8: 10_000, 4: 100, 2: 1}
"""What an intact partition of a size counts where several choices would do.
Source: koordinator-sh/koordinator pkg/scheduler/plugins/deviceshare/allocator_gpu.go."""


def rank_partitions(
    node: Node, topology: TopologyConstraint, count: int, allowed: Set[int], free: Set[int]
) -> list[frozenset[int]]:
    """The partitions of a size that can be had, best first, as positions of cards.

    The highest score of the table wins; then what leaves the most of the table intact; then the
    earlier entry.

    Args:
        node: the node.
        topology: the least bandwidth, and whether only the highest score of the size will do.
        count: how many cards.
        allowed: positions of the cards that may be taken.
        free: positions of the cards that nobody holds and that work.
    """
    sized = [partition for partition in node.partitions if len(partition.indexes) == count]
    if topology.best_partitions_only and sized:
        highest = max(partition.score for partition in sized)
        sized = [partition for partition in sized if partition.score == highest]
    places = _places(node)
    found: list[tuple[int, int, frozenset[int]]] = []
    for partition in sized:
        cards = _cards(partition, places)
        if (
            cards is not None
            and cards <= allowed & free
            and topology.bandwidth <= partition.bandwidth
        ):
            found.append((partition.score, intact_weight(node, free - cards, count), cards))
    found.sort(key=lambda entry: (-entry[0], -entry[1]))
    return [cards for _, _, cards in found]


def intact_weight(node: Node, free: Set[int], least: int = 1) -> int:
    """How much of the partition table is left; higher is better.

    Args:
        node: the node.
        free: positions of the cards that nobody holds and that work.
        least: smaller partitions do not count.
    """
    places = _places(node)
    total = 0
    for partition in node.partitions:
        size = len(partition.indexes)
        cards = _cards(partition, places)
        if size >= least and cards is not None and cards <= free:
            total += WEIGHTS.get(size, 0) * partition.score
    return total


def _places(node: Node) -> dict[int, int]:
    return {card.index: place for place, card in enumerate(node.cards)}


def _cards(partition: Partition, places: dict[int, int]) -> frozenset[int] | None:
    if not places.keys() >= set(partition.indexes):
        return None
    return frozenset(places[index] for index in partition.indexes)
