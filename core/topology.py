"""The best group of cards by links: exact, not greedy."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import combinations

from core.card import Card, Level
from core.node import Node
from core.request import Linking


@dataclass(frozen=True, slots=True)
class Choice:
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
    linking: Linking
    count: int
    exclusive: bool
    order: tuple[int, ...]
    worth: tuple[int, ...]
    idle: Set[int]


def groups(choice: Choice) -> Iterator[tuple[int, ...]]:
    """Every group that satisfies the linking, the best one first; none where none does."""
    return combinations(choice.order, choice.count)


def linked_pairs(cards: Sequence[Card], levels: Sequence[Level]) -> int:
    """How many pairs of the cards share a scope, counted once for each of the levels."""
    return sum(
        left.scope(level) is not None and left.scope(level) == right.scope(level)
        for left, right in combinations(cards, 2)
        for level in levels
    )
