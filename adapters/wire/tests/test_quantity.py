import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.quantity import QuantityError, format_binary, format_decimal, parse, parse_int


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("4", 4),
        ("4Gi", 4 << 30),
        ("1G", 10**9),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("2Ei", 2 << 60),
        (".5Ki", 512),
        ("5.", 5),
        ("-1", -1),
        ("500m", Fraction(1, 2)),
        ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)),
        ("1e30", 2**63 - 1),
        ("-9Ei", 1 - 2**63),
    ],
)
def test_a_quantity_is_exactly_what_it_says(text: str, amount: Fraction) -> None:
    assert parse(text) == amount


@pytest.mark.parametrize("text", ["", "abc", "4 Gi", "4gi", "1e", "4GiB", "٤", "0x10", "nan"])
def test_other_text_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@pytest.mark.parametrize("text", ["1e99999999", "1e-99999999", "9" * 5000, "0." + "9" * 5000])
def test_a_number_too_long_to_compute_with_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


def test_a_fraction_is_no_whole_number() -> None:
    with pytest.raises(QuantityError):
        parse_int("500m")


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_a_printed_amount_reads_back(amount: int) -> None:
    assert parse_int(format_binary(amount)) == amount
    assert parse_int(format_decimal(amount)) == amount


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    with contextlib.suppress(QuantityError):
        parse(text)
