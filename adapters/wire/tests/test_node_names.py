"""Names of nodes as JSON: only plain ones are read, and they are written as they were read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.body import BodyError
from adapters.wire.extender import plain_names, read_args, read_names

POD = {"metadata": {"name": "p"}}


def object_of(fields: list[tuple[str, object]]) -> bytes:
    parts = [
        f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in fields
    ]
    return f"{{{','.join(parts)}}}".encode()


def test_an_ending_inside_a_string_is_text() -> None:
    tail = ',"NodeNames":["n1"]}'

    found = read_args(object_of([("Pod", POD), ("NodeNames", ["n2"]), ("x", tail)]))

    assert found.names.names == ("n2",)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "ä", "a\n", "a\x7f"])
def test_a_text_that_is_no_name_is_rejected_with_its_position(name: str) -> None:
    with pytest.raises(BodyError, match=r"NodeNames\[1\]"):
        plain_names(["n", name])


@given(
    st.one_of(
        st.recursive(st.one_of(st.none(), st.integers(), st.text()), st.lists, max_leaves=5),
        st.lists(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=3)),
    ),
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.booleans(),
)
def test_only_arrays_of_plain_names_are_read(
    value: object, separators: tuple[str, str], ascii_only: bool
) -> None:
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
    array = text.encode()

    try:
        found = read_names(array).names
    except BodyError:
        return
    assert [*found] == value


@given(st.lists(st.text(st.characters(codec="ascii"), max_size=5)))
def test_a_plain_name_is_in_json_what_it_is(names: list[str]) -> None:
    try:
        found = plain_names(names)
    except BodyError:
        found = plain_names(())

    assert found.array() == (b"[%b]" % b",".join(b'"%b"' % name.encode() for name in found.names))
