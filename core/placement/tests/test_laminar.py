"""The best choice in nested scopes against trying all."""

from itertools import combinations
from math import comb

from hypothesis import given
from hypothesis import strategies as st

from core.placement.laminar import best_value, is_laminar


def test_scopes_apart_or_within_each_other_are_nested() -> None:
    assert is_laminar([0b1111, 0b0011, 0b1100, 0b0011])
    assert not is_laminar([0b0111, 0b1100])


def test_fewer_cards_than_asked_are_worth_nothing() -> None:
    assert best_value([0b11], 0b11, {0: 1, 1: 1}, 3, inside=10, left=1) == 0


@given(
    st.lists(st.sampled_from([0b11111111, 0b1111, 0b11110000, 0b11, 0b1100, 0b110000]), max_size=7),
    st.integers(0, 255),
    st.dictionaries(st.integers(0, 7), st.integers(0, 9), min_size=1),
    st.integers(1, 8),
    st.integers(0, 50),
    st.integers(0, 50),
)
def test_the_value_is_that_of_the_best_of_all_choices(
    scopes: list[int], idle: int, gains: dict[int, int], count: int, inside: int, left: int
) -> None:
    def value(group: tuple[int, ...]) -> int:
        chosen = sum(1 << position for position in group)
        return sum(gains[position] for position in group) + sum(
            inside * comb((scope & chosen).bit_count(), 2)
            + left * comb((scope & idle & ~chosen).bit_count(), 2)
            for scope in scopes
        )

    obvious = max(map(value, combinations(gains, count)), default=0)

    assert best_value(scopes, idle, gains, count, inside, left) == obvious
