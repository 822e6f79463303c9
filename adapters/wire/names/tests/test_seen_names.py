"""Names that were seen: a body is read as if none had been."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.decode.body import BodyError
from adapters.wire.extender import read_args
from adapters.wire.names import seen_names
from adapters.wire.names.name_index import NameList
from adapters.wire.names.seen_names import LISTS, SeenNames

POD = {"metadata": {"name": "p"}}
FIELDS: st.SearchStrategy[tuple[str, object]] = st.sampled_from(
    [
        ("Pod", POD),
        ("pod", {"metadata": {"name": "q"}}),
        ("Nodes", None),
        ("Nodes", {"items": []}),
        ("NodeNames", ["n1"]),
        ("NodeNames", []),
        ("nodenames", ["n3"]),
        ('x","NodeNames":["n1"]}', '\\",\\"NodeNames\\":'),
    ]
)
LISTS_OF_NAMES = st.sampled_from(
    [
        *(["n1"], ["n1", "n2"], ["n2", "n1"], ["n1", "n1"], ["n1", "n3"], ["n1", "n2", "n3"]),
        *([], ["", "n1"], ["n1", ""], ['"', "n1"], ["n1 n2"], ['n1","n2'], ["n1,n2"]),
    ]
)
PARTS = st.sampled_from(
    [
        "{",
        '{"Pod":{"metadata":{"name":"p"}}',
        '{"x":"',
        '{"x\\"',
        '{"x":[1',
        '"',
        "\\",
        ",",
        "}",
        " ",
    ]
)
"""Pieces of bodies that are no JSON, or whose ending is inside of something else."""


def object_of(fields: list[tuple[str, object]]) -> bytes:
    parts = [
        f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in fields
    ]
    return f"{{{','.join(parts)}}}".encode()


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    names = json.dumps(draw(LISTS_OF_NAMES), separators=(",", ":"))
    if draw(st.booleans()):
        fields = draw(st.lists(FIELDS, max_size=4))
        whole = [*fields, ("NodeNames", json.loads(names))]
        return object_of(whole)
    head = "".join(draw(st.lists(PARTS, max_size=4)))
    return f'{head},"NodeNames":{names}}}'.encode()


def read(content: bytes, seen: SeenNames) -> tuple[object, ...]:
    """What a body says, the names in any order, or what is wrong with it."""
    try:
        args = read_args(content, seen)
    except BodyError as error:
        return (str(error),)
    names = None if args.node_names is None else sorted(args.node_names.strings())
    return args.pod, args.nodes, names


@given(st.lists(bodies(), min_size=1, max_size=8))
def test_a_body_is_read_alike_whatever_was_seen_before(contents: list[bytes]) -> None:
    seen = SeenNames()

    for content in contents:
        assert read(content, seen) == read(content, SeenNames())


def of(pod: str, *names: str) -> bytes:
    return object_of([("Pod", {"metadata": {"name": pod}}), ("Nodes", None), ("NodeNames", names)])


def names_of(content: bytes, seen: SeenNames) -> NameList:
    found = read_args(content, seen).node_names
    assert found is not None
    return found


def test_the_names_of_an_earlier_pod_are_the_same_object() -> None:
    seen = SeenNames()
    first = names_of(of("p1", "n1", "n2"), seen)

    found = read_args(of("p2", "n1", "n2"), seen)

    assert found.node_names is first
    assert found.pod.metadata.name == "p2"


def test_the_names_in_another_order_are_the_same_object() -> None:
    seen = SeenNames()
    names = [f"n{number}" for number in range(9)]
    first = names_of(of("p1", *names), seen)

    assert names_of(of("p2", *reversed(names)), seen) is first


@pytest.mark.parametrize(
    "names", [("n1", "n3"), ("n1", "n1"), ("n2", "n1", "n3"), ("n2",), ("n", "n12"), ("n1,n2",)]
)
def test_other_names_are_another_object(names: tuple[str, ...]) -> None:
    seen = SeenNames()
    names_of(of("p1", "n1", "n2"), seen)

    assert names_of(of("p1", *names), seen).strings() == [*names]


def test_a_list_with_a_name_twice_is_known_in_its_own_order_only() -> None:
    seen = SeenNames()
    first = names_of(of("p1", "n1", "n1", "n2"), seen)

    assert names_of(of("p2", "n1", "n1", "n2"), seen) is first
    assert names_of(of("p2", "n2", "n2", "n1"), seen).strings() == ["n2", "n2", "n1"]


def test_a_long_list_in_another_order_is_read_again() -> None:
    seen = SeenNames()
    names = [f"n{number}" for number in range(seen_names.MAX_SET + 1)]
    names_of(of("p1", *names), seen)

    assert names_of(of("p2", *reversed(names)), seen).strings() == [*reversed(names)]


def test_an_ending_inside_a_string_is_text() -> None:
    seen = SeenNames()
    names_of(of("p", "n1"), seen)
    tail = ',"NodeNames":["n1"]}'

    found = names_of(object_of([("Pod", POD), ("NodeNames", ["n2"]), ("x", tail)]), seen)

    assert found.strings() == ["n2"]


def test_few_lists_are_kept_the_latest_ones() -> None:
    seen = SeenNames()
    first = names_of(of("p", "n0"), seen)
    later = [names_of(of("p", f"n{number}"), seen) for number in range(1, LISTS + 1)]

    assert names_of(of("q", f"n{LISTS}"), seen) is later[-1]
    assert names_of(of("q", "n0"), seen) is not first


def test_a_list_past_the_limit_is_not_kept() -> None:
    seen = SeenNames()
    name = "n" * seen_names.MAX_ENDING
    first = names_of(of("p", name), seen)

    assert names_of(of("p", name), seen) is not first


def test_a_list_that_is_asked_about_stays_whatever_the_filters_answered_meanwhile() -> None:
    seen = SeenNames()
    asked = names_of(of("p0", "n1", "n2"), seen)

    for number in range(2 * LISTS):
        seen.expect(NameList.of([f"left-{number}"]))

        assert names_of(of(f"p{number}", "n1", "n2"), seen) is asked
