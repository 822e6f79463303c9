"""The best choice of some cards where scopes are nested in each other: exact, without trying all.

Sets of cards are bit masks over positions. Scopes that are nested or apart form a tree, and what
a choice is worth is a sum over its scopes; so the best choices of each scope, one for each number
of cards, are put together from those of its parts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, combinations
from math import comb

Best = dict[tuple[int, int], int]
"""The highest value for each (number of cards, number of idle ones among them)."""

_ALL = -1
"""As a mask: every card."""


def is_laminar(scopes: Sequence[int]) -> bool:
    """Whether any two scopes are apart, or one within the other."""
    return all(left & right in (0, left, right) for left, right in combinations(set(scopes), 2))


def best_value(
    scopes: Sequence[int], idle: int, gains: Mapping[int, int], count: int, inside: int, left: int
) -> int:
    """The highest value of a choice of ``count`` cards; 0 where there are fewer.

    Args:
        scopes: nested; one that counts twice is given twice.
        idle: the cards that nobody holds, whether they may be chosen or not.
        gains: by position, what each card that may be chosen is worth by itself.
        count: how many cards to choose.
        inside: what a pair of chosen cards is worth, for each scope that it shares.
        left: what a pair of idle cards that are not chosen is worth, for each scope that it shares.
    """
    times = Counter(scopes)
    tree = [*sorted(times, key=int.bit_count), _ALL]
    cards: dict[int, list[int]] = {scope: [] for scope in tree}
    for position in gains:
        cards[_around(1 << position, tree)].append(position)
    parts: dict[int, Best] = {scope: _of_cards(cards[scope], idle, gains, count) for scope in tree}
    for place, scope in enumerate(tree[:-1]):
        free, weight = (scope & idle).bit_count(), times[scope]
        own = {
            (taken, of_idle): value
            + weight * (comb(taken, 2) * inside + comb(free - of_idle, 2) * left)
            for (taken, of_idle), value in parts[scope].items()
        }
        around = _around(scope, tree[place + 1 :])
        parts[around] = _together(parts[around], own, count)
    return max((value for (taken, _), value in parts[_ALL].items() if taken == count), default=0)


def _around(cards: int, scopes: Sequence[int]) -> int:
    return next(scope for scope in scopes if scope & cards == cards)


def _of_cards(cards: Sequence[int], idle: int, gains: Mapping[int, int], count: int) -> Best:
    """Of cards that share all scopes, the most worthy are the best choice of their number."""
    resting = sorted((gains[card] for card in cards if idle >> card & 1), reverse=True)
    busy = sorted((gains[card] for card in cards if not idle >> card & 1), reverse=True)
    return _together(
        {(taken, taken): sum_ for taken, sum_ in enumerate(accumulate(resting, initial=0))},
        {(taken, 0): sum_ for taken, sum_ in enumerate(accumulate(busy, initial=0))},
        count,
    )


def _together(one: Best, other: Best, count: int) -> Best:
    best: Best = {}
    for (taken, of_idle), value in one.items():
        for (more, more_idle), gain in other.items():
            if taken + more <= count:
                key = (taken + more, of_idle + more_idle)
                best[key] = max(best.get(key, 0), value + gain)
    return best
