"""Names as columns: the same answers as strings in a dictionary would give."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.decode.body import BodyError
from adapters.wire.names.name_index import FEW, FEW_RUNS, NameIndex, NameList

plain = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"\\'), max_size=40
)
alike = st.text("ab", max_size=20)
rosters = st.lists(st.one_of(plain, alike), unique=True, max_size=40)


def listed(names: list[str], few: int) -> NameList:
    return NameList(json.dumps(names, separators=(",", ":")).encode(), few)


@given(rosters, st.sampled_from([0, FEW]), st.data())
def test_rows_are_those_of_a_dictionary(known: list[str], few: int, data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.one_of(plain, alike, st.sampled_from(["", *known]))))
    places = {name: place for place, name in enumerate(known) if name}

    found = NameIndex(known).rows(listed(asked, few))

    assert found.tolist() == [places.get(name, len(known)) for name in asked]


def test_thousands_of_names_that_differ_in_a_digit_are_all_found() -> None:
    known = [f"gpu-node-{number:05}.rack-{number % 40}.example" for number in range(5_000)]

    found = NameIndex(known).rows(NameList.of(known[::-1]))

    assert found.tolist() == list(range(4_999, -1, -1))


def test_a_name_that_begins_like_a_known_one_is_another() -> None:
    index = NameIndex(["12345678", "1234567"])

    found = index.rows(listed(["123456789", "12345678", "123456", "1234567"], few=0))

    assert found.tolist() == [2, 0, 2, 1]


@given(rosters, st.sampled_from([0, FEW]), st.data())
def test_a_selection_is_the_list_of_the_selected_names(
    names: list[str], few: int, data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
    expected = [name for name, one in zip(names, wanted, strict=True) if one]

    found = listed(names, few).selection(np.array(wanted, np.bool_))

    assert found.compact == listed(expected, few).compact
    assert found.strings() == expected
    assert [found.string(at) for at in range(len(found))] == expected
    index = NameIndex(names)
    assert index.rows(found).tolist() == index.rows(listed(expected, few)).tolist()
    every = np.ones(len(found), np.bool_)
    assert found.json_array(every) == found.compact


@given(st.lists(plain), st.sampled_from([0, FEW]), st.data())
def test_an_array_of_some_is_json_of_some(names: list[str], few: int, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
    mask = np.array(wanted, np.bool_)
    expected = [name for name, one in zip(names, wanted, strict=True) if one]

    found = listed(names, few)

    assert json.loads(found.json_array(mask)) == expected
    assert found.select(mask) == expected
    assert found.strings() == names
    assert len(found) == len(names)


@pytest.mark.parametrize("last", [True, False])
def test_every_other_of_many_names_is_json_of_those(last: bool) -> None:
    names = [f"node-{number:04}" for number in range(4 * FEW_RUNS)]
    mask = np.array([(number % 2 == 1) is last for number in range(len(names))], np.bool_)

    found = listed(names, few=0).json_array(mask)

    assert found == listed(names[last::2], few=0).compact


@given(
    st.recursive(st.one_of(st.none(), st.integers(), st.text()), st.lists, max_leaves=5),
    st.sampled_from([0, FEW]),
)
def test_only_arrays_of_plain_names_without_white_space_are_taken(value: object, few: int) -> None:
    compact = json.dumps(value, separators=(",", ":")).encode()

    try:
        found: object = NameList(compact, few).strings()
    except BodyError:
        found = None

    assert found is None or found == value


@pytest.mark.parametrize("few", [0, FEW])
@pytest.mark.parametrize("compact", [b'["a", "b"]', b'[ "a"]', b'["\xc3\xa4"]', b'["\\u0061"]'])
def test_what_go_would_not_write_is_not_taken_as_it_is(compact: bytes, few: int) -> None:
    with pytest.raises(BodyError):
        NameList(compact, few)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "ä", "a\n", "a\x7f"])
def test_a_text_that_is_no_name_is_rejected_with_its_position(name: str) -> None:
    with pytest.raises(BodyError, match=r"NodeNames\[1\]"):
        NameList.of(["n", name])


def test_a_known_name_that_is_not_plain_is_never_found() -> None:
    found = NameIndex(["ä", "n"]).rows(NameList.of(["n", "", "a"]))

    assert found.tolist() == [1, 2, 2]
