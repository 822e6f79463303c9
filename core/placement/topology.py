"""The best group of cards by links: exact, not greedy."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb

from core.hardware.card import Card, Level
from core.hardware.node import Node
from core.placement.laminar import best_value, is_laminar
from core.requests.partitions import intact_weight, rank_partitions
from core.requests.request import TopologyConstraint

FEW = 32
"""Up to this many groups, comparing them all is quicker than putting the best one together."""


@dataclass(frozen=True, slots=True)
class LinkQuery:
    """A choice of some cards among those that would do one by one.

    Attributes:
        node: the node; positions below are places in its ``cards``.
        linking: what links are wanted.
        count: how many cards to choose, 1 or more.
        exclusive: the chosen cards leave the pool of idle cards for good.
        order: positions of the cards that would do, most preferred first.
        worth: for each of ``order``, how good it is by the first criterion of the ranking;
            higher is better.
        idle: positions of all cards of the node that nobody holds.
    """

    node: Node
    topology: TopologyConstraint
    count: int
    exclusive: bool
    order: tuple[int, ...]
    worth: tuple[int, ...]
    idle: Set[int]


def linked_groups(choice: LinkQuery) -> Iterator[tuple[int, ...]]:
    """Every group that satisfies the linking, the best one first; none where none does.

    Groups come as positions in the order of ``choice.order``. First come the free partitions of
    the node's table, where the linking asks for them or the node binds to them; nothing follows
    where nothing else will do. Then comes the best group by links, then all others.

    The best group lies in one scope of the deepest level that has room for it. Of those it has the
    most links inside; then, of shared cards, the highest worth (and of a single one, what leaves
    most of the partition table intact); then it leaves the most links among the idle cards; then
    it holds the earliest of ``order``. A link is a pair of cards in one scope, counted once for
    each of the levels that count.
    """
    linking, node = choice.topology, choice.node
    binding = choice.exclusive and (linking.must_partition or node.partitions_bind)
    pools = _pools(choice)
    found: list[Iterator[tuple[int, ...]]] = []
    if binding or (choice.exclusive and linking.by_partition):
        found.append(_partitions(choice, pools))
    if not binding:
        found.append(_by_links(choice, pools))
    seen: set[tuple[int, ...]] = set()
    for group in chain.from_iterable(found):
        if group not in seen:
            seen.add(group)
            yield group


def linked_pairs(cards: Sequence[Card], levels: Sequence[Level]) -> int:
    """How many pairs of the cards share a scope, counted once for each of the levels."""
    return sum(
        left.scope(level) is not None and left.scope(level) == right.scope(level)
        for left, right in combinations(cards, 2)
        for level in levels
    )


Pools = list[tuple[int, ...]]
"""Cards to choose from, each in the order of the choice; a group comes from one pool."""


def _pools(choice: LinkQuery) -> Pools:
    required = choice.topology.required
    if required is None or required is Level.NODE:
        return [choice.order]
    return _split(choice.node, choice.order, required)


def _split(node: Node, order: Sequence[int], level: Level) -> Pools:
    """The cards of each scope of a level; cards of no scope are in none."""
    scopes: dict[str, list[int]] = {}
    for position in order:
        scope = node.cards[position].scope(level)
        if scope is not None:
            scopes.setdefault(scope.name, []).append(position)
    return [tuple(cards) for cards in scopes.values()]


def _partitions(choice: LinkQuery, pools: Pools) -> Iterator[tuple[int, ...]]:
    free = _free(choice)
    ranked = rank_partitions(
        choice.node, choice.topology, choice.count, frozenset(choice.order), free
    )
    for cards in ranked:
        if any(cards <= set(pool) for pool in pools):
            yield tuple(position for position in choice.order if position in cards)


def _free(choice: LinkQuery) -> Set[int]:
    return {position for position in choice.idle if choice.node.cards[position].healthy}


def _by_links(choice: LinkQuery, pools: Pools) -> Iterator[tuple[int, ...]]:
    roomy = _deepest(choice, pools)
    if roomy:
        yield _Best(choice).of(roomy)
    for pool in pools:
        yield from combinations(pool, choice.count)


def _deepest(choice: LinkQuery, pools: Pools) -> Pools:
    """The pools with room for the group: those of one scope of the deepest level, if any."""
    if choice.count > 1:
        for level in sorted(choice.topology.levels, reverse=True):
            parts = chain.from_iterable(_split(choice.node, pool, level) for pool in pools)
            roomy = [part for part in parts if len(part) >= choice.count]
            if roomy:
                return roomy
    return [pool for pool in pools if len(pool) >= choice.count]


class _Best:
    """The search for the best group by links; sets of cards are bit masks over positions."""

    def __init__(self, choice: LinkQuery) -> None:
        self.choice = choice
        self.free = _free(choice)
        self.idle = _mask(self.free)
        everyone = range(len(choice.node.cards))
        self.scopes = [
            _mask(scope)
            for level in choice.topology.levels
            for scope in _split(choice.node, everyone, level)
            if len(scope) > 1
        ]
        places = len(choice.order)
        self.rank = {p: 1 << (places - place) for place, p in enumerate(choice.order, start=1)}
        self.worth = dict.fromkeys(choice.order, 0)
        if not choice.exclusive:
            least = min(choice.worth)
            self.worth = {
                position: worth - least
                for position, worth in zip(choice.order, choice.worth, strict=True)
            }

    def of(self, pools: Pools) -> tuple[int, ...]:
        """The best of all groups, each from one pool; every pool has room for it."""
        ways = sum(comb(len(pool), self.choice.count) for pool in pools)
        if self.choice.count > 1 and ways > FEW and is_laminar(self.scopes):
            return self._combined(pools)
        return max(
            (group for pool in pools for group in combinations(pool, self.choice.count)),
            key=self._value,
        )

    def _combined(self, pools: Pools) -> tuple[int, ...]:
        cards = {p: (self.worth[p], self.rank[p]) for p in self.choice.order}
        values = [
            best_value(self.scopes, self.idle, {p: cards[p] for p in pool}, self.choice.count)
            for pool in pools
        ]
        *_, preference = max(value for value in values if value is not None)
        return tuple(p for p in self.choice.order if preference & self.rank[p])

    def _value(self, group: tuple[int, ...]) -> tuple[int, ...]:
        chosen = _mask(group)
        left = self.idle & ~chosen
        spared = 0
        if not self.choice.exclusive and self.choice.count == 1:
            spared = intact_weight(self.choice.node, self.free - set(group))
        return (
            sum(comb((chosen & scope).bit_count(), 2) for scope in self.scopes),
            sum(self.worth[position] for position in group),
            spared,
            sum(comb((left & scope).bit_count(), 2) for scope in self.scopes),
            sum(self.rank[position] for position in group),
        )


def _mask(positions: Sequence[int] | Set[int]) -> int:
    return sum(1 << position for position in positions)
