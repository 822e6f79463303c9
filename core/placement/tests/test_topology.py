"""Groups of cards: the examples of the ecosystems, and an oracle that tries all."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, islice
from math import comb
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from core.hardware.card import Card, Level, Scope
from core.hardware.node import Node, Partition
from core.placement.topology import LinkQuery, linked_groups, linked_pairs
from core.requests.request import TopologyConstraint
from core.tests.builders import a_card

TREE = TopologyConstraint(levels=(Level.NUMA, Level.PCIE))
ZONES = TopologyConstraint(levels=(Level.LINK,))

# Koordinator's built-in table for Hopper machines of eight cards.
# Source: koordinator pkg/scheduler/plugins/deviceshare/allocator_gpu_helper.go:28-163
HOPPER = tuple(
    Partition(tuple(range(start, start + size)))
    for size in (1, 2, 4, 8)
    for start in range(0, 8, size)
)


def linked_card(index: int, *links: Scope, healthy: bool = True) -> Card:
    return replace(a_card(f"card-{index}", index), healthy=healthy, links=links)


def tree(cards: int = 8, numa: int = 2, pcie: int = 4, **more: object) -> Node:
    made = tuple(
        linked_card(
            index,
            Scope(Level.NUMA, f"numa{index * numa // cards}"),
            Scope(Level.PCIE, f"pcie{index * pcie // cards}"),
        )
        for index in range(cards)
    )
    return replace(Node("node", made), **more)  # type: ignore[arg-type]


def zones(*sizes: int) -> Node:
    names = [f"zone{zone}" for zone, size in enumerate(sizes) for _ in range(size)]
    return Node(
        "node", tuple(linked_card(i, Scope(Level.LINK, name)) for i, name in enumerate(names))
    )


def choose(
    node: Node,
    count: int,
    used: Sequence[int] = (),
    linking: TopologyConstraint = TREE,
    *,
    exclusive: bool = True,
    order: Sequence[int] | None = None,
    worth: Sequence[int] | None = None,
) -> LinkQuery:
    idle = frozenset(range(len(node.cards))) - set(used)
    chosen = tuple(sorted(idle) if order is None else order)
    return LinkQuery(
        node=node,
        topology=linking,
        count=count,
        exclusive=exclusive,
        order=chosen,
        worth=tuple((0,) * len(chosen) if worth is None else worth),
        idle=idle,
    )


def best(choice: LinkQuery) -> tuple[int, ...] | None:
    return next(linked_groups(choice), None)


class TestKoordinatorTree:
    """Eight cards, two in a PCIe root, four in a NUMA node (koordinator's own cases)."""

    def test_one_card_comes_from_the_broken_pair(self) -> None:
        assert best(choose(tree(), 1, used=[5])) == (4,)

    def test_two_cards_come_from_the_broken_numa_node(self) -> None:
        assert best(choose(tree(), 2, used=[5])) == (6, 7)

    def test_three_cards_come_from_the_broken_numa_node(self) -> None:
        assert best(choose(tree(), 3, used=[0])) == (1, 2, 3)

    def test_five_cards_fill_a_numa_node_first(self) -> None:
        assert best(choose(tree(), 5)) == (0, 1, 2, 3, 4)

    def test_a_required_numa_node_is_kept_to(self) -> None:
        linking = replace(TREE, required=Level.NUMA)

        assert best(choose(tree(), 4, used=[5], linking=linking)) == (0, 1, 2, 3)

    def test_no_group_where_no_numa_node_has_room(self) -> None:
        linking = replace(TREE, required=Level.NUMA)

        assert best(choose(tree(), 4, used=[0, 5], linking=linking)) is None

    def test_a_required_node_is_no_restriction(self) -> None:
        linking = replace(TREE, required=Level.NODE)

        assert best(choose(tree(), 4, used=[0, 5], linking=linking)) == (1, 2, 3, 4)

    def test_every_group_of_a_required_scope_follows(self) -> None:
        linking = replace(TREE, required=Level.PCIE)

        found = list(linked_groups(choose(tree(), 2, used=[5], linking=linking)))

        assert found == [(6, 7), (0, 1), (2, 3)]

    def test_a_share_opens_the_card_of_the_broken_pair_where_all_are_worth_the_same(self) -> None:
        assert best(choose(tree(), 1, used=[5], exclusive=False)) == (4,)

    def test_a_share_goes_to_the_used_card_where_the_fullest_is_worth_most(self) -> None:
        choice = choose(
            tree(),
            1,
            used=[5, 7],
            exclusive=False,
            order=[7, 0, 1, 2, 3, 4, 6],
            worth=[50, 0, 0, 0, 0, 0, 0],
        )

        assert best(choice) == (7,)

    def test_a_share_opens_a_fresh_card_where_the_emptiest_is_worth_most(self) -> None:
        choice = choose(
            tree(),
            1,
            used=[5, 7],
            exclusive=False,
            order=[0, 1, 2, 3, 4, 6, 7],
            worth=[0, 0, 0, 0, 0, 0, -50],
        )

        assert best(choice) == (4,)

    def test_shares_of_several_cards_are_linked_too(self) -> None:
        choice = choose(
            tree(), 2, exclusive=False, order=range(8), worth=[9, 0, 5, 5, 0, 0, 0, 9], used=[2]
        )

        assert best(choice) == (2, 3)

    def test_the_deepest_scope_with_room_wins_over_more_links(self) -> None:
        own_roots = [
            linked_card(i, Scope(Level.NUMA, "a"), Scope(Level.PCIE, f"a{i}")) for i in range(5)
        ]
        one_root = [
            linked_card(i, Scope(Level.NUMA, "b"), Scope(Level.PCIE, "b")) for i in range(5, 9)
        ]

        assert best(choose(Node("node", (*own_roots, *one_root)), 5)) == (0, 1, 2, 3, 4)


class TestMetaxZones:
    """Zones of directly linked cards (HAMi's greedy picker and what it misses)."""

    def test_four_of_zones_of_three_and_two_are_three_and_one(self) -> None:
        assert best(choose(zones(3, 2), 4, linking=ZONES)) == (0, 1, 2, 3)

    def test_four_of_zones_of_one_two_and_three_break_no_pair(self) -> None:
        assert best(choose(zones(1, 2, 3), 4, linking=ZONES)) == (0, 3, 4, 5)

    def test_the_broken_zone_is_used_up_first(self) -> None:
        assert best(choose(zones(4, 4), 2, used=[4, 5], linking=ZONES)) == (6, 7)

    def test_cards_come_in_the_order_of_preference(self) -> None:
        choice = choose(zones(4, 4), 2, used=[7], linking=ZONES, order=range(6, -1, -1))

        assert best(choice) == (6, 5)

    def test_six_of_two_full_zones_are_four_and_two(self) -> None:
        assert best(choose(zones(4, 4), 6, linking=ZONES)) == (0, 1, 2, 3, 4, 5)

    def test_a_card_of_no_zone_is_no_group_of_a_required_zone(self) -> None:
        node = Node("node", (linked_card(0), linked_card(1, Scope(Level.LINK, "zone"))))
        choice = choose(node, 1, linking=replace(ZONES, required=Level.LINK))

        assert list(linked_groups(choice)) == [(1,)]

    def test_an_unhealthy_idle_card_is_no_link_worth_keeping(self) -> None:
        node = zones(2, 2, 3)
        sick = replace(node.cards[5], healthy=False)
        node = replace(node, cards=(*node.cards[:5], sick, node.cards[6]))

        assert best(choose(node, 1, used=[2], linking=ZONES, order=[0, 1, 3, 4, 6])) == (3,)
        assert best(choose(node, 2, linking=ZONES, order=[0, 1, 2, 3, 4, 6])) == (0, 1)


class TestPartitions:
    """The table of a node's fabric (koordinator's own cases)."""

    WANTED = TopologyConstraint(levels=(Level.NUMA, Level.PCIE), by_partition=True)

    def test_the_partition_that_leaves_most_intact_wins(self) -> None:
        node = tree(partitions=HOPPER)

        assert best(choose(node, 2, used=[2, 3], linking=self.WANTED)) == (0, 1)
        assert best(choose(node, 2, used=[4], linking=self.WANTED)) == (6, 7)
        assert best(choose(node, 1, used=[4], linking=self.WANTED)) == (5,)

    def test_of_equals_the_first_of_the_table_wins(self) -> None:
        node = tree(partitions=HOPPER)

        assert best(choose(node, 2, used=[0, 4], linking=self.WANTED)) == (2, 3)

    def test_the_highest_score_wins(self) -> None:
        table = (Partition((0, 1), score=1), Partition((2, 3), score=5), Partition((4, 5), score=3))

        found = islice(linked_groups(choose(tree(partitions=table), 2, linking=self.WANTED)), 3)

        assert list(found) == [(2, 3), (4, 5), (0, 1)]

    def test_only_the_highest_score_is_allowed_where_the_pod_says_so(self) -> None:
        table = (Partition((0, 1), score=1), Partition((2, 3), score=5))
        linking = replace(self.WANTED, must_partition=True, best_partitions_only=True)

        assert best(choose(tree(partitions=table), 2, linking=linking)) == (2, 3)
        assert best(choose(tree(partitions=table), 2, used=[2], linking=linking)) is None

    def test_a_slow_ring_is_not_allowed(self) -> None:
        table = (Partition((0, 1), bandwidth=100), Partition((2, 3), bandwidth=200))
        linking = replace(self.WANTED, bandwidth=150)

        assert best(choose(tree(partitions=table), 2, linking=linking)) == (2, 3)

    def test_without_a_free_partition_links_decide(self) -> None:
        node = tree(partitions=HOPPER)

        assert best(choose(node, 3, linking=self.WANTED)) == (0, 1, 2)

    def test_no_group_comes_twice(self) -> None:
        found = list(linked_groups(choose(tree(partitions=HOPPER), 2, linking=self.WANTED)))

        assert len(found) == len(set(found)) == 28

    def test_only_a_partition_is_allowed_where_the_pod_says_so(self) -> None:
        linking = replace(self.WANTED, by_partition=False, must_partition=True)
        node = tree(partitions=HOPPER)

        assert list(linked_groups(choose(node, 4, linking=linking))) == [(0, 1, 2, 3), (4, 5, 6, 7)]
        assert best(choose(node, 3, linking=linking)) is None
        assert best(choose(tree(), 2, linking=linking)) is None

    def test_only_a_partition_is_allowed_where_the_node_says_so(self) -> None:
        node = tree(partitions=HOPPER, partitions_bind=True)

        assert best(choose(node, 3)) is None
        assert best(choose(node, 2, used=[2, 3])) == (0, 1)

    def test_the_table_does_not_bind_shares(self) -> None:
        node = tree(partitions=HOPPER, partitions_bind=True)

        assert best(choose(node, 3, exclusive=False)) == (0, 1, 2)

    def test_a_partition_lies_in_the_required_scope(self) -> None:
        table = (Partition((3, 4)), Partition((4, 5)))
        linking = replace(self.WANTED, required=Level.NUMA, must_partition=True)

        assert list(linked_groups(choose(tree(partitions=table), 2, linking=linking))) == [(4, 5)]

    def test_an_entry_that_names_a_missing_card_is_passed_over(self) -> None:
        table = (Partition((8, 9)), Partition((2, 3)))
        linking = replace(self.WANTED, must_partition=True)

        assert list(linked_groups(choose(tree(partitions=table), 2, linking=linking))) == [(2, 3)]

    def test_a_share_of_one_card_breaks_as_few_partitions_as_it_can(self) -> None:
        table = (Partition((0, 1)), Partition((2, 3)), Partition((0, 1, 2, 3)))
        linking = TopologyConstraint(by_partition=True)

        assert best(choose(tree(partitions=table), 1, linking=linking, exclusive=False)) == (4,)
        assert best(choose(tree(partitions=table), 1, linking=linking)) == (0,)


def test_pairs_are_counted_once_for_each_level() -> None:
    cards = tree().cards

    assert linked_pairs(cards[:4], TREE.levels) == 8
    assert linked_pairs(cards[3:5], TREE.levels) == 0
    assert linked_pairs([linked_card(0), linked_card(1)], TREE.levels) == 0


def test_sixteen_cards_of_crossing_scopes_are_compared_one_by_one() -> None:
    cards = tuple(
        linked_card(i, Scope(Level.NUMA, str(i // 8)), Scope(Level.PCIE, str(i % 4)))
        for i in range(16)
    )

    assert best(choose(Node("node", cards), 3, used=[0])) == (4, 8, 12)


LEVELS = (Level.NUMA, Level.PCIE, Level.LINK)


@st.composite
def choices(draw: st.DrawFn, *, nested: bool) -> LinkQuery:
    """Up to ten cards in a random tree (or in scopes at random), some held, some not to be had."""
    total = draw(st.integers(1, 10))
    names: list[list[str]] = []
    for _ in range(total):
        parts = [draw(st.sampled_from(["", "a", "b", "c"])) for _ in LEVELS]
        if nested:
            cut = parts.index("") if "" in parts else len(parts)
            parts = ["/".join(parts[: place + 1]) for place in range(cut)]
        names.append(parts)
    cards = tuple(
        linked_card(
            index, *(Scope(level, name) for level, name in zip(LEVELS, parts, strict=False) if name)
        )
        for index, parts in enumerate(names)
    )
    positions = st.sets(st.integers(0, total - 1), min_size=1)
    order = draw(st.permutations(sorted(draw(positions))))
    return LinkQuery(
        node=Node("node", cards),
        topology=TopologyConstraint(
            levels=draw(st.sampled_from([LEVELS, LEVELS[:2], LEVELS[:1], ()]))
        ),
        count=draw(st.integers(1, total)),
        exclusive=draw(st.booleans()),
        order=tuple(order),
        worth=tuple(draw(st.integers(-3, 3)) for _ in order),
        idle=frozenset(draw(positions)),
    )


def slow_best(choice: LinkQuery) -> tuple[int, ...] | None:
    """All combinations, each judged with ``linked_pairs`` on the cards themselves."""
    node, levels = choice.node, choice.topology.levels

    def value(group: tuple[int, ...]) -> tuple[object, ...]:
        cards = [node.cards[position] for position in group]
        shared = [
            level
            for level in levels
            if cards[0].scope(level) and len({each.scope(level) for each in cards}) == 1
        ]
        rest = [node.cards[position] for position in choice.idle - set(group)]
        worth = dict(zip(choice.order, choice.worth, strict=True))
        return (
            max(shared, default=0) if len(group) > 1 else 0,
            linked_pairs(cards, levels),
            0 if choice.exclusive else sum(worth[position] for position in group),
            linked_pairs(rest, levels),
            [position in group for position in choice.order],
        )

    return max(combinations(choice.order, choice.count), key=value, default=None)


@given(choices(nested=True))
def test_the_best_group_of_a_tree_is_what_trying_all_finds(choice: LinkQuery) -> None:
    assert best(choice) == slow_best(choice)


@given(choices(nested=False))
def test_the_best_group_of_crossing_scopes_is_what_trying_all_finds(choice: LinkQuery) -> None:
    assert best(choice) == slow_best(choice)


@given(choices(nested=True))
def test_every_group_comes_once(choice: LinkQuery) -> None:
    found = list(linked_groups(choice))

    assert sorted(found) == sorted(combinations(choice.order, choice.count))


# --- scores of pairs ------------------------------------------------------------------------------

SCORED = TopologyConstraint(levels=(Level.NUMA,), by_score=True)


def as_hami_chooses(scores: Sequence[Sequence[int]], order: Sequence[int], count: int) -> list[int]:
    """HAMi's search, line by line.

    Source: HAMi v2.10 pkg/device/nvidia/device.go, generateCombinations, computeBestCombination
    and computeWorstSingleCard.
    """
    best, chosen = -1, list[int]()
    if count == 1:
        totals = [(sum(scores[one][o] for o in order if o != one), one) for one in order]
        return [min(totals, key=lambda each: each[0])[1]]
    for group in combinations(order, count):
        total = 0
        for i, one in enumerate(group):
            for other in group[i + 1 :]:
                total += scores[one][other]
        if not chosen or total > best:
            best, chosen = total, [*group]
    return chosen


@given(st.randoms(use_true_random=True))
def test_scores_decide_as_in_hami(seed: Random) -> None:
    cards = seed.randint(2, 6)
    rows = tuple(tuple(seed.choice((0, 20, 60, 100)) for _ in range(cards)) for _ in range(cards))
    scores = tuple(tuple(0 if i == j else rows[i][j] for j in range(cards)) for i in range(cards))
    node = replace(tree(cards, 2, 2), scores=scores)
    order = seed.sample(range(cards), seed.randint(1, cards))
    count = seed.randint(1, len(order))

    groups = [*linked_groups(choose(node, count, linking=SCORED, order=order))]

    assert [*groups[0]] == as_hami_chooses(scores, order, count)
    assert len(groups) == len({*groups}) == comb(len(order), count)


def test_a_single_card_is_the_one_of_the_smallest_sum_of_scores() -> None:
    scores = ((0, 5, 9, 0), (5, 0, 1, 0), (9, 1, 0, 0), (0, 0, 0, 0))
    node = replace(tree(4, 2, 2), scores=scores)

    groups = [*linked_groups(choose(node, 1, used=[3], linking=SCORED))]

    assert groups == [(1,), (2,), (0,)]


def test_without_scores_levels_count_and_without_the_wish_scores_do_not() -> None:
    node = tree(4, 2, 2)
    scored = replace(node, scores=((0, 0, 9, 0), (0, 0, 0, 0), (9, 0, 0, 0), (0, 0, 0, 0)))

    assert best(choose(node, 2, linking=SCORED)) == (0, 1)
    assert best(choose(scored, 2, linking=replace(SCORED, by_score=False))) == (0, 1)
    assert best(choose(scored, 2, linking=SCORED)) == (0, 2)
    within = replace(SCORED, required=Level.NUMA)
    assert best(choose(scored, 2, linking=within)) == (0, 1)
    assert best(choose(scored, 3, linking=within)) is None
