"""Names of nodes as JSON: a body is read as if no filter had been answered before."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire import node_names
from adapters.wire.decode.body import BodyError
from adapters.wire.extender import read_args
from adapters.wire.node_names import ANSWERS, FilterAnswers, plain_names
from core.feasibility.node_names import NodeNames

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
        *([], ["", "n1"], ["n1", ""], ['"', "n1"], ["n1 n2"], ['n1","n2'], ["n1,n2"], [1]),
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
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    names = json.dumps(draw(LISTS_OF_NAMES), separators=separators)
    if draw(st.booleans()):
        fields = draw(st.lists(FIELDS, max_size=4))
        whole = [*fields, ("NodeNames", json.loads(names))]
        return object_of(whole)
    head = "".join(draw(st.lists(PARTS, max_size=4)))
    return f'{head},"NodeNames":{names}}}'.encode()


def read(content: bytes, answers: FilterAnswers) -> tuple[object, ...]:
    """What a body says, or what is wrong with it."""
    try:
        args = read_args(content, answers)
    except BodyError as error:
        return (str(error),)
    return args.pod, args.whole, args.names.names


@given(st.lists(bodies(), min_size=1, max_size=8))
def test_a_body_is_read_alike_whatever_was_answered_before(contents: list[bytes]) -> None:
    answers = FilterAnswers()

    for content in contents:
        assert read(content, answers) == read(content, FilterAnswers())
        try:
            answers.encode(read_args(content, FilterAnswers()).names)
        except BodyError:
            continue


def of(pod: str, *names: str) -> bytes:
    return object_of([("Pod", {"metadata": {"name": pod}}), ("Nodes", None), ("NodeNames", names)])


def names_of(content: bytes, answers: FilterAnswers) -> NodeNames:
    return read_args(content, answers).names


def test_the_names_of_an_answer_are_the_same_object() -> None:
    answers = FilterAnswers()
    names = plain_names(["n1", "n2"])

    assert answers.encode(names) == b'["n1","n2"]'
    assert names_of(of("p", "n1", "n2"), answers) is names


@pytest.mark.parametrize(
    "names",
    [
        ("n2", "n1"),
        ("n1", "n3"),
        ("n1", "n1"),
        ("n2", "n1", "n3"),
        ("n2",),
        ("n", "n12"),
        ("n1,n2",),
    ],
)
def test_other_names_are_another_object(names: tuple[str, ...]) -> None:
    answers = FilterAnswers()
    answers.encode(plain_names(["n1", "n2"]))

    assert names_of(of("p1", *names), answers).names == names


def test_few_answers_are_kept_the_latest_ones() -> None:
    answers = FilterAnswers()
    kept = [plain_names([f"n{number}"]) for number in range(ANSWERS + 1)]
    for names in kept:
        answers.encode(names)

    assert names_of(of("q", f"n{ANSWERS}"), answers) is kept[-1]
    assert names_of(of("q", "n0"), answers) is not kept[0]


def test_an_answer_that_is_asked_about_stays_whatever_filters_answered_meanwhile() -> None:
    answers, asked = FilterAnswers(), plain_names(["n1", "n2"])
    answers.encode(asked)

    for number in range(2 * ANSWERS):
        answers.encode(plain_names([f"left-{number}"]))

        assert names_of(of(f"p{number}", "n1", "n2"), answers) is asked


def test_an_answer_past_the_limit_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_names, "LONGEST_ANSWER", len(b'["n1"]'))
    answers, short, long = FilterAnswers(), plain_names(["n1"]), plain_names(["n10"])
    answers.encode(short)
    answers.encode(long)

    assert names_of(of("p", "n1"), answers) is short
    assert names_of(of("p", "n10"), answers) is not long


def test_an_ending_inside_a_string_is_text() -> None:
    answers = FilterAnswers()
    answers.encode(plain_names(["n1"]))
    tail = ',"NodeNames":["n1"]}'

    found = names_of(object_of([("Pod", POD), ("NodeNames", ["n2"]), ("x", tail)]), answers)

    assert found.names == ("n2",)


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
        found = FilterAnswers().read(array).names
    except BodyError:
        return
    assert [*found] == value


@given(st.lists(st.text(st.characters(codec="ascii"), max_size=5)))
def test_a_plain_name_is_in_json_what_it_is(names: list[str]) -> None:
    try:
        found = plain_names(names)
    except BodyError:
        found = plain_names(())

    assert FilterAnswers().encode(found) == (
        b"[%b]" % b",".join(b'"%b"' % name.encode() for name in found.names)
    )
