"""Bytes and percent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hardware.quantity import (
    GIB,
    KIB,
    MIB,
    bytes_of_percent,
    format_apart,
    format_bytes,
    format_gib,
    percent,
)


def test_a_part_is_rounded_down_to_whole_bytes() -> None:
    assert bytes_of_percent(999, 50) == 499


def test_a_part_is_rounded_down_to_the_step_that_can_be_written() -> None:
    assert bytes_of_percent(23040 * MIB, 33, MIB) == 7603 * MIB


def test_the_whole_is_a_part() -> None:
    assert bytes_of_percent(80 * GIB, 100) == 80 * GIB


def test_percent_is_rounded_down() -> None:
    assert percent(800 * MIB, 80 * GIB) == 0
    assert percent(6451 * MIB, 80 * GIB) == 7


def test_percent_of_nothing_is_nothing() -> None:
    assert percent(5, 0) == 0


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 MiB"),
        (1, "1 MiB"),
        (MIB, "1 MiB"),
        (MIB + KIB, "2 MiB"),
        (GIB, "1 GiB"),
        (GIB - 1, "1 GiB"),
        (1500 * MIB, "1500 MiB"),
        (80 * GIB, "80 GiB"),
    ],
)
def test_bytes_are_shown_in_the_largest_whole_unit(amount: int, text: str) -> None:
    assert format_bytes(amount) == text


@given(st.integers(0, 1 << 40), st.integers(0, 100), st.sampled_from([1, KIB, MIB, GIB]))
def test_a_part_is_never_more_than_its_percentage(total: int, share: int, step: int) -> None:
    amount = bytes_of_percent(total, share, step)

    assert amount % step == 0
    assert amount * 100 <= total * share < (amount + step) * 100
    assert percent(amount, total) <= share


@pytest.mark.parametrize(
    ("right", "texts"),
    [
        (16 * GIB, ("16.0 GiB", "16.0 GiB")),
        (17 * GIB, ("16.0 GiB", "17.0 GiB")),
        (16 * GIB + MIB, ("16 GiB", "16385 MiB")),
        (16 * GIB - 1, ("17179869184 bytes", "17179869183 bytes")),
    ],
)
def test_amounts_that_differ_look_different(right: int, texts: tuple[str, str]) -> None:
    assert format_apart(16 * GIB, right) == texts


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0.0"), (GIB, "1.0"), (33051115520, "30.8"), (24159191040, "22.5"), (GIB - 1, "1.0")],
)
def test_gib_have_one_decimal(amount: int, text: str) -> None:
    assert format_gib(amount) == text
