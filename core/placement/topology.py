"""The best group of cards by links: exact, not greedy."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb

from core.hardware.card import Card, Level
from core.hardware.node import Node, Partition
from core.placement.laminar import best_value, is_laminar
from core.requests.request import TopologyConstraint

FEW = 32
"""Up to this many groups, comparing them all is faster than the dynamic program of ``laminar``."""

WEIGHTS = {8: 10_000, 4: 100, 2: 1}
"""The weight of an intact partition in the comparison of choices, by its size.
Source: koordinator-sh/koordinator pkg/scheduler/plugins/deviceshare/allocator_gpu.go."""


@dataclass(frozen=True, slots=True)
class LinkQuery:
    """Which group of cards, of those that suit one by one, is linked best.

    Attributes:
        node: the node; positions below are those in its ``cards``.
        topology: how the cards must or should be connected.
        count: how many cards the group has, 1 or more.
        exclusive: no other pod may share the group's cards, so that they are idle no more.
        order: positions of the cards that suit, most preferred first.
        worth: for each of ``order``, how good it is by the first criterion of the ranking;
            higher is better.
        idle: positions of all cards of the node without a share.
    """

    node: Node
    topology: TopologyConstraint
    count: int
    exclusive: bool
    order: tuple[int, ...]
    worth: tuple[int, ...]
    idle: Set[int]


def linked_groups(query: LinkQuery) -> Iterator[tuple[int, ...]]:
    """Yield every group that satisfies the topology constraint, the best one first.

    Groups come as positions in the order of ``query.order``. First come the free partitions of
    the node's table, where the request asks for them or the node allows no other groups; in the
    latter case, and where the request requires a partition, nothing follows. Then comes the best
    group by links, then all others.

    Where the request asks for it and the node states scores of pairs, the best group is the one of
    the largest sum, and a single card that of the smallest sum with the others that suit.

    Otherwise the best group is in one scope of the deepest level that has enough cards. Of those it
    has the most links inside; then, of shared cards, the highest worth (and of a single one, what
    leaves most of the partition table intact); then it leaves the most links among the idle cards;
    then it has the earliest of ``order``. A link is a pair of cards in one scope, counted once for
    each of the constraint's levels.
    """
    topology, node = query.topology, query.node
    only_partitions = query.exclusive and (topology.must_partition or node.partitions_bind)
    pools = _pools(query)
    sources: list[Iterator[tuple[int, ...]]] = []
    if only_partitions or (query.exclusive and topology.by_partition):
        sources.append(_partitions(query, pools))
    if not only_partitions:
        by_score = topology.by_score and node.scores
        sources.append(_by_score(query, pools) if by_score else _by_links(query, pools))
    seen: set[tuple[int, ...]] = set()
    for group in chain.from_iterable(sources):
        if group not in seen:
            seen.add(group)
            yield group


def linked_pairs(cards: Sequence[Card], levels: Sequence[Level]) -> int:
    """Return how many pairs of the cards share a scope, counted once for each of the levels."""
    return sum(
        left.scope(level) is not None and left.scope(level) == right.scope(level)
        for left, right in combinations(cards, 2)
        for level in levels
    )


Pools = list[tuple[int, ...]]
"""Sets of cards, each in the order of the query; all cards of a group are in one pool."""


def scoped_pools(node: Node, order: tuple[int, ...], required: Level | None) -> Pools:
    """Return the cards of each scope of a level that all cards of a group must share.

    Args:
        node: the node.
        order: positions of cards, in the order that each pool keeps.
        required: the level; None for no demand.
    """
    if required is None or required is Level.NODE:
        return [order]
    return _split(node, order, required)


def _pools(query: LinkQuery) -> Pools:
    return scoped_pools(query.node, query.order, query.topology.required)


def _split(node: Node, order: Sequence[int], level: Level) -> Pools:
    """Return the cards of each scope of a level; cards without a scope are left out."""
    scopes: dict[str, list[int]] = {}
    for position in order:
        scope = node.cards[position].scope(level)
        if scope is not None:
            scopes.setdefault(scope.name, []).append(position)
    return [tuple(cards) for cards in scopes.values()]


def _partitions(query: LinkQuery, pools: Pools) -> Iterator[tuple[int, ...]]:
    free = _free(query)
    ranked = rank_partitions(query.node, query.topology, query.count, frozenset(query.order), free)
    for cards in ranked:
        if any(cards <= set(pool) for pool in pools):
            yield tuple(position for position in query.order if position in cards)


def _free(query: LinkQuery) -> Set[int]:
    return {position for position in query.idle if query.node.cards[position].healthy}


def _by_links(query: LinkQuery, pools: Pools) -> Iterator[tuple[int, ...]]:
    deepest = _deepest(query, pools)
    if deepest:
        yield _BestGroup(query).of(deepest)
    for pool in pools:
        yield from combinations(pool, query.count)


def _by_score(query: LinkQuery, pools: Pools) -> Iterator[tuple[int, ...]]:
    """Yield the best group by the scores of pairs, then all others; of equal ones the earliest."""
    scores = query.node.scores
    if query.count == 1:
        among = frozenset(chain.from_iterable(pools))
        alone = [position for position in query.order if position in among]
        yield from ((p,) for p in sorted(alone, key=lambda p: sum(scores[p][o] for o in alone)))
        return
    groups = (group for pool in pools for group in combinations(pool, query.count))
    best = max(
        groups, key=lambda group: sum(scores[a][b] for a, b in combinations(group, 2)), default=None
    )
    if best is not None:
        yield best
    for pool in pools:
        yield from combinations(pool, query.count)


def _deepest(query: LinkQuery, pools: Pools) -> Pools:
    """Return the pools with enough cards, split by the deepest level of which a scope has."""
    if query.count > 1:
        for level in sorted(query.topology.levels, reverse=True):
            scopes = chain.from_iterable(_split(query.node, pool, level) for pool in pools)
            large_enough = [scope for scope in scopes if len(scope) >= query.count]
            if large_enough:
                return large_enough
    return [pool for pool in pools if len(pool) >= query.count]


class _BestGroup:
    """The search for the best group by links; sets of cards are bit masks over positions.

    Attributes:
        query: the question.
        free: positions of the healthy idle cards.
        idle: the same, as a mask.
        scopes: masks of the scopes with two or more cards; one for each level.
        preference: by position, a power of two; the sum over a group orders groups by their
            earliest card in ``query.order``, and its bits name the group.
        worth: by position; 0 where the group is exclusive.
    """

    def __init__(self, query: LinkQuery) -> None:
        self.query = query
        self.free = _free(query)
        self.idle = _mask(self.free)
        every_card = range(len(query.node.cards))
        self.scopes = [
            _mask(scope)
            for level in query.topology.levels
            for scope in _split(query.node, every_card, level)
            if len(scope) > 1
        ]
        latest_first = reversed(query.order)
        self.preference = {position: 1 << bit for bit, position in enumerate(latest_first)}
        self.worth = dict.fromkeys(query.order, 0)
        if not query.exclusive:
            self.worth = dict(zip(query.order, query.worth, strict=True))

    def of(self, pools: Pools) -> tuple[int, ...]:
        """Return the best of all groups, each from one pool; every pool has enough cards."""
        number = sum(comb(len(pool), self.query.count) for pool in pools)
        if self.query.count > 1 and number > FEW and is_laminar(self.scopes):
            return self._of_tree(pools)
        return max(
            (group for pool in pools for group in combinations(pool, self.query.count)),
            key=self._value,
        )

    def _of_tree(self, pools: Pools) -> tuple[int, ...]:
        """Return the best group where the scopes are nested."""
        cards = {p: (self.worth[p], self.preference[p]) for p in self.query.order}
        values = [
            best_value(self.scopes, self.idle, {p: cards[p] for p in pool}, self.query.count)
            for pool in pools
        ]
        *_, preference = max(value for value in values if value is not None)
        return tuple(p for p in self.query.order if preference & self.preference[p])

    def _value(self, group: tuple[int, ...]) -> tuple[int, ...]:
        """Return how good a group is, compared from the left; higher is better."""
        chosen = _mask(group)
        idle_after = self.idle & ~chosen
        intact = 0
        if not self.query.exclusive and self.query.count == 1:
            intact = intact_weight(self.query.node, self.free - set(group))
        return (
            sum(comb((chosen & scope).bit_count(), 2) for scope in self.scopes),
            sum(self.worth[position] for position in group),
            intact,
            sum(comb((idle_after & scope).bit_count(), 2) for scope in self.scopes),
            sum(self.preference[position] for position in group),
        )


def _mask(positions: Sequence[int] | Set[int]) -> int:
    return sum(1 << position for position in positions)


def rank_partitions(
    node: Node, topology: TopologyConstraint, count: int, allowed: Set[int], free: Set[int]
) -> list[frozenset[int]]:
    """Return the free partitions of a size, best first, as positions of cards.

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
    positions = _card_positions(node)
    entries: list[tuple[int, int, frozenset[int]]] = []
    for partition in sized:
        cards = _members(partition, positions)
        if (
            cards is not None
            and cards <= allowed & free
            and topology.bandwidth <= partition.bandwidth
        ):
            entries.append((partition.score, intact_weight(node, free - cards, count), cards))
    entries.sort(key=lambda entry: (-entry[0], -entry[1]))
    return [cards for _, _, cards in entries]


def intact_weight(node: Node, free: Set[int], least: int = 1) -> int:
    """Return the weight of all partitions whose cards are free; higher is better.

    Args:
        node: the node.
        free: positions of the healthy cards without a share.
        least: smaller partitions do not count.
    """
    positions = _card_positions(node)
    total = 0
    for partition in node.partitions:
        size = len(partition.indexes)
        cards = _members(partition, positions)
        if size >= least and cards is not None and cards <= free:
            total += WEIGHTS.get(size, 0) * partition.score
    return total


def _card_positions(node: Node) -> dict[int, int]:
    return {card.index: position for position, card in enumerate(node.cards)}


def _members(partition: Partition, positions: dict[int, int]) -> frozenset[int] | None:
    if not positions.keys() >= set(partition.indexes):
        return None
    return frozenset(positions[index] for index in partition.indexes)
