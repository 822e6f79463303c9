"""Texts that are nested without end, rejected before the parser that is slow for them."""

import pytest

from adapters.cli.input.source import InputError, InputLocation
from adapters.cli.nesting import DEEPEST, check_depth


def place(line: int) -> InputLocation:
    return InputLocation("f.yaml", line)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("a:\n  b: " + "[" * 5000, "f.yaml:2: a.b[0][0][0][0]: "),
        ("a: " + "[" * 5000 + "]" * 5000, "f.yaml:1: a[0][0][0][0][0]: "),
        ("k: 1\na:\n- x\n- " + "{b: " * 5000, "f.yaml:4: a[1].b.b.b.b: "),
        ("a:\n  " + "- " * 5000 + "x\n", "f.yaml:2: a[0][0][0][0][0]: "),
        ("? [x, y]\n: z\na: " + "[" * 5000, "f.yaml:3: a[0][0][0][0][0]: "),
    ],
)
def test_it_is_rejected_with_its_field(text: str, field: str) -> None:
    with pytest.raises(InputError) as error:
        check_depth(text, place)

    assert field in str(error.value)
    assert f"is nested more than {DEEPEST} levels deep" in str(error.value)
    assert "close the brackets, or remove what opens them" in str(error.value)


def test_a_text_at_the_bound_and_one_that_is_no_yaml_pass() -> None:
    check_depth("a: " + "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1), place)
    check_depth("a: b: c\n- [", place)
    check_depth("? {x: y}\n: 1\nb: 2\n---\nc: 3\n", place)
    check_depth("", place)
