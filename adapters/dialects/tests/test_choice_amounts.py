from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.allocation_record import ChoiceError, at_least, restate
from core.hardware.quantity import GIB
from core.requests.grant import Grant
from core.requests.request import ContainerRequest, Phase
from core.tests.builders import a_card, a_container, a_mig_card, a_node, a_request

NODE = a_node(a_card("a"), a_card("b", 1))
SLICED = a_node(a_mig_card("m"))
REQUEST = a_request(a_container(3 * GIB, 2, 30, "x"), a_container(GIB, name="y"))
QUARTER, HALF = (layout.slices[0] for layout in SLICED.cards[0].geometry.layouts[:2])
CHOICE = (Grant("x", "b", 0, 0), Grant("x", "a", 0, 0), Grant("y", "a", 0, 0))


@given(
    st.integers(0, 1 << 60), st.integers(0, 1 << 20), st.booleans(), st.sampled_from(list(Phase))
)
def test_amounts_and_phases_are_those_of_the_request(
    memory: int, compute: int, exclusive: bool, phase: Phase
) -> None:
    forged = [
        replace(each, memory=memory, compute=compute, exclusive=exclusive, phase=phase)
        for each in CHOICE
    ]

    assert restate(REQUEST, forged, NODE) == (
        Grant("x", "b", 3 * GIB, 30),
        Grant("x", "a", 3 * GIB, 30),
        Grant("y", "a", GIB, 0),
    )


@given(st.integers(0, 1 << 60), st.integers(0, 8), st.integers(0, 100))
def test_a_slice_is_as_large_as_the_card_says(memory: int, size: int, compute: int) -> None:
    named = replace(QUARTER, memory=memory, size=size, compute=compute)
    request = a_request(a_container(GIB))

    found = restate(request, [Grant("main", "m", 1, 1, slice=named)], SLICED)

    assert found == (Grant("main", "m", QUARTER.memory, QUARTER.compute, slice=QUARTER),)


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ((*CHOICE, Grant("z", "a", 0, 0)), "names container 'z'"),
        (CHOICE[1:], "must name 2 different cards for x"),
        ((CHOICE[0], CHOICE[0], CHOICE[2]), "must name 2 different cards for x"),
        ((*CHOICE[:2], Grant("y", "c", 0, 0)), "names card 'c'"),
        ((*CHOICE[:2], Grant("y", "a", 0, 0, slice=QUARTER)), "which is not in MIG mode"),
    ],
)
def test_what_request_or_node_contradicts_is_an_error(
    choice: tuple[Grant, ...], problem: str
) -> None:
    with pytest.raises(ChoiceError, match=problem):
        restate(REQUEST, choice, NODE)


@pytest.mark.parametrize("named", [None, replace(QUARTER, start=9), replace(QUARTER, layout="no")])
def test_of_a_card_in_mig_mode_a_known_slice_must_be_named(named: object) -> None:
    with pytest.raises(ChoiceError, match="must name a slice of m"):
        restate(a_request(a_container(GIB)), [Grant("main", "m", 1, 1, slice=named)], SLICED)  # type: ignore[arg-type]


def test_containers_that_run_together_do_not_share_a_slice() -> None:
    first, second = a_container(GIB, name="x"), a_container(GIB, name="y")
    choice = [Grant(name, "m", 1, 1, slice=QUARTER) for name in ("x", "y")]

    with pytest.raises(ChoiceError, match="twice at the same time"):
        restate(a_request(first, second), choice, SLICED)

    before = replace(first, phase=Phase.INIT)
    after = restate(a_request(before, second), choice, SLICED)
    assert [grant.slice for grant in after] == [QUARTER, QUARTER]


def test_a_container_may_have_several_slices_of_a_card_where_its_dialect_says_so() -> None:
    other = SLICED.cards[0].geometry.layouts[0].slices[1]
    choice = [Grant("main", "m", 1, 1, slice=slot) for slot in (QUARTER, other)]
    plain = a_request(a_container(GIB, 2))
    request = replace(plain, several_slices=True)

    assert [each.slice for each in restate(request, choice, SLICED)] == [QUARTER, other]
    for refused, twice in ((plain, choice), (request, [choice[0], choice[0]])):
        with pytest.raises(ChoiceError, match="must name 2 different cards for main"):
            restate(refused, twice, SLICED)


def test_a_running_pod_holds_at_least_what_it_requests() -> None:
    requested: ContainerRequest = a_container(3 * GIB, compute=30)
    request = a_request(requested)

    found = at_least(
        request,
        [
            Grant("main", "a", GIB, 50),
            Grant("", "b", 4 * GIB, 10),
            Grant("main", "gone", GIB, 1),
            Grant("main", "a", HALF.memory, 50, slice=HALF),
            Grant("other", "a", GIB, 1),
        ],
        NODE,
    )

    assert found == (
        Grant("main", "a", 3 * GIB, 50),
        Grant("", "b", 4 * GIB, 30),
        Grant("main", "gone", GIB, 1),
        Grant("main", "a", HALF.memory, 50, slice=HALF),
        Grant("other", "a", GIB, 1),
    )
