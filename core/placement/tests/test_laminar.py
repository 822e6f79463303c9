"""The best choice in nested scopes against trying all."""

from itertools import combinations
from math import comb

from hypothesis import example, given
from hypothesis import strategies as st

from core.placement.topology import CardValue, GroupValue, best_value, is_laminar


def test_scopes_apart_or_within_each_other_are_nested() -> None:
    assert is_laminar([0b1111, 0b0011, 0b1100, 0b0011])
    assert not is_laminar([0b0111, 0b1100])


def test_fewer_cards_than_asked_have_no_value() -> None:
    assert best_value([0b11], 0b11, {0: (1, 1), 1: (1, 2)}, 3) is None


@given(
    st.lists(st.sampled_from([0b11111111, 0b1111, 0b11110000, 0b11, 0b1100, 0b110000]), max_size=7),
    st.integers(0, 255),
    st.dictionaries(
        st.integers(0, 7), st.tuples(st.integers(-9, 9), st.integers(0, 99)), min_size=1
    ),
    st.integers(1, 8),
)
@example(
    [0b11111111, 0b11111111, 0b1111, 0b11],
    0b11110111,
    {position: (position % 3, 1 << position) for position in range(7)},
    3,
)
def test_the_value_is_that_of_the_best_of_all_groups(
    scopes: list[int], idle: int, cards: dict[int, CardValue], count: int
) -> None:
    def value(group: tuple[int, ...]) -> GroupValue:
        chosen = sum(1 << position for position in group)
        return (
            sum(comb((scope & chosen).bit_count(), 2) for scope in scopes),
            sum(cards[position][0] for position in group),
            sum(comb((scope & idle & ~chosen).bit_count(), 2) for scope in scopes),
            sum(cards[position][1] for position in group),
        )

    obvious = max(map(value, combinations(cards, count)), default=None)

    assert best_value(scopes, idle, cards, count) == obvious
