"""Names and their rows: the same answers as a dictionary of strings would give."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.feasibility.inventory import Inventory, NodeNames
from core.tests.builders import a_card, empty

plain = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"\\'), max_size=40
)
alike = st.text("ab", max_size=20)
rosters = st.lists(st.one_of(plain, alike), unique=True, max_size=40)


def an_inventory(*names: str) -> Inventory:
    return Inventory(empty(a_card(f"card-{name}"), name=name) for name in names)


@given(rosters, st.booleans(), st.data())
def test_a_selection_is_the_list_of_the_selected_names(
    names: list[str], known: bool, data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
    inventory = an_inventory("a", "b", *names[:1])
    expected = [name for name, one in zip(names, wanted, strict=True) if one]
    whole = NodeNames(names)
    if known:
        whole.rows(inventory)

    found = whole.select(np.array(wanted, np.bool_))

    assert found.names == tuple(expected)
    assert len(found) == len(expected)
    assert [found.name(at) for at in range(len(found))] == expected
    assert json.loads(found.array()) == expected
    assert found.array() == json.dumps(expected, separators=(",", ":")).encode()
    places = {name: row for row, name in enumerate(inventory.names())}
    assert found.rows(inventory).tolist() == [places.get(name, len(places)) for name in expected]


def test_rows_follow_the_nodes_that_come_and_go() -> None:
    inventory = an_inventory("n1", "n2")
    names = NodeNames(["n2", "n3"])
    before = names.rows(inventory)
    same = names.rows(inventory) is before
    assert NodeNames(["n1"]).rows(inventory).tolist() == [0]
    inventory.put(empty(a_card("c3"), name="n3"))
    assert (same, before.tolist()) == (True, [1, 2])
    assert names.rows(inventory).tolist() == [1, 2]
    inventory.remove("n3")
    assert names.rows(inventory).tolist() == [1, 2]
    assert names.rows(an_inventory("n3", "n2")).tolist() == [1, 0]


def test_some_names_selected_keep_their_order_and_their_rows() -> None:
    inventory = an_inventory("n1", "n2")
    names = NodeNames(["n2", "strange", "n1"])
    unasked = names.select(np.array([True, False, True]))
    names.rows(inventory)

    found = names.select(np.array([True, False, True]))

    assert found.names == unasked.names == ("n2", "n1")
    assert (len(found), found.name(1)) == (2, "n1")
    assert found.array() == b'["n2","n1"]'
    assert found.rows(inventory).tolist() == unasked.rows(inventory).tolist() == [1, 0]
    assert found.select(np.zeros(2, np.bool_)).array() == b"[]"


def test_all_names_selected_are_the_same_list() -> None:
    names = NodeNames(["a", "b"])

    assert names.select(np.ones(2, np.bool_)) is names
