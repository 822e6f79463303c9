"""What a partition table offers, and what is left of it."""

from dataclasses import replace

from core.hardware.node import Node, Partition
from core.placement.topology import intact_weight, rank_partitions
from core.requests.request import TopologyConstraint
from core.tests.builders import a_card, a_node

ALL = frozenset(range(8))


def eight_cards(*partitions: Partition, first: int = 0) -> Node:
    cards = (a_card(f"card-{index}", index) for index in range(first, first + 8))
    return replace(a_node(*cards), partitions=partitions)


def test_larger_partitions_weigh_more_than_all_smaller_ones() -> None:
    table = eight_cards(
        Partition((0, 1, 2, 3)), Partition((4, 5)), Partition((6, 7)), Partition((0,))
    )

    assert intact_weight(table, ALL) == 102
    assert intact_weight(table, ALL - {0}) == 2
    assert intact_weight(table, ALL, least=4) == 100


def test_scores_count_in_what_is_left() -> None:
    assert intact_weight(eight_cards(Partition((0, 1), score=7)), ALL) == 7


def test_indexes_are_not_positions() -> None:
    table = eight_cards(Partition((4, 5)), first=4)

    assert rank_partitions(table, TopologyConstraint(), 2, ALL, ALL) == [{0, 1}]


def test_a_held_card_may_not_be_part_of_a_partition() -> None:
    table = eight_cards(Partition((0, 1)), Partition((2, 3)))

    assert rank_partitions(table, TopologyConstraint(), 2, ALL, ALL - {1}) == [{2, 3}]
    assert rank_partitions(table, TopologyConstraint(), 2, ALL - {2}, ALL) == [{0, 1}]


def test_no_partition_of_a_size_that_the_table_has_not() -> None:
    linking = TopologyConstraint(best_partitions_only=True)

    assert rank_partitions(eight_cards(Partition((0, 1))), linking, 3, ALL, ALL) == []
