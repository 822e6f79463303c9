"""Names and their rows: the same answers as a dictionary of strings would give."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.feasibility.columns import Rows
from core.feasibility.inventory import Inventory
from core.feasibility.name_table import NameTable
from core.feasibility.node_names import NodeNames, QuotedNames
from core.tests.builders import a_card, empty

plain = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"\\'), max_size=40
)
alike = st.text("ab", max_size=20)
rosters = st.lists(st.one_of(plain, alike), unique=True, max_size=40)


def listed(names: list[str], *, quoted: bool) -> NodeNames:
    if not quoted:
        return NodeNames(names)
    array = json.dumps(names, separators=(",", ":")).encode()
    return QuotedNames(array, np.array([*map(len, names)], np.int64))


def found_in(table: NameTable, names: list[str]) -> Rows:
    lengths = np.array([*map(len, names)], np.int64)
    return table.rows("".join(names).encode(), np.cumsum(lengths) - lengths, lengths)


def an_inventory(*names: str) -> Inventory:
    return Inventory(empty(a_card(f"card-{name}"), name=name) for name in names)


@given(rosters, st.data())
def test_rows_are_those_of_a_dictionary(known: list[str], data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.one_of(plain, alike, st.sampled_from(["", *known]))))
    places = {name: place for place, name in enumerate(known)}

    found = found_in(NameTable(known), asked)

    assert found.tolist() == [places.get(name, len(known)) for name in asked]


def test_thousands_of_names_that_differ_in_a_digit_are_all_found() -> None:
    known = [f"gpu-node-{number:05}.rack-{number % 40}.example" for number in range(5_000)]

    found = found_in(NameTable(known), known[::-1])

    assert found.tolist() == list(range(4_999, -1, -1))


def test_a_name_that_begins_like_a_known_one_is_another() -> None:
    table = NameTable(["12345678", "1234567"])

    found = found_in(table, ["123456789", "12345678", "123456", "1234567"])

    assert found.tolist() == [2, 0, 2, 1]


def test_a_known_name_that_is_not_plain_is_never_found() -> None:
    found = found_in(NameTable(["ä", "n", "m\0"]), ["n", "", "a", "m"])

    assert found.tolist() == [1, 3, 3, 3]


@given(rosters, st.booleans(), st.booleans(), st.data())
def test_a_selection_is_the_list_of_the_selected_names(
    names: list[str], quoted: bool, known: bool, data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
    inventory = an_inventory("a", "b", *names[:1])
    expected = [name for name, one in zip(names, wanted, strict=True) if one]
    whole = listed(names, quoted=quoted)
    if known:
        whole.rows(inventory)

    found = whole.select(np.array(wanted, np.bool_))

    assert found.names == tuple(expected)
    assert len(found) == len(expected)
    assert [found.name(at) for at in range(len(found))] == expected
    assert json.loads(found.array()) == expected
    assert found.array() == listed(expected, quoted=True).array()
    places = {name: row for row, name in enumerate(inventory.names())}
    assert found.rows(inventory).tolist() == [places.get(name, len(places)) for name in expected]


def test_rows_follow_the_nodes_that_come_and_go() -> None:
    inventory = an_inventory("n1", "n2")
    for quoted in (True, False):
        names = listed(["n2", "n3"], quoted=quoted)
        before = names.rows(inventory)
        same = names.rows(inventory) is before
        assert listed(["n1"], quoted=quoted).rows(inventory).tolist() == [0]
        inventory.put(empty(a_card("c3"), name="n3"))
        assert (same, before.tolist()) == (True, [1, 2])
        assert names.rows(inventory).tolist() == [1, 2]
        inventory.remove("n3")
        assert names.rows(inventory).tolist() == [1, 2]
        assert names.rows(an_inventory("n3", "n2")).tolist() == [1, 0]


def test_all_names_selected_are_the_same_list() -> None:
    names = listed(["a", "b"], quoted=True)

    assert names.select(np.ones(2, np.bool_)) is names
