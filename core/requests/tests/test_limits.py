"""From grants to bounds."""

from dataclasses import replace

import pytest

from core.hardware.card import Card
from core.hardware.quantity import GIB, MIB
from core.requests.grant import Grant
from core.requests.limits import CardLimit, GrantError, Limits, limits
from core.tests.builders import A30ISH, a_card, a_grant, a_mig_card, a_sliced_grant

PRESENT: dict[str, Card] = {"a": a_card("a", 0), "b": a_card("b", 1)}


def only(*grants: Grant, container: str = "main") -> CardLimit:
    (limit,) = limits(grants, container, PRESENT).cards
    return limit


def test_a_share_is_limited_in_memory_and_compute() -> None:
    assert only(a_grant("b", 4 * GIB, 30)) == CardLimit(
        uuid="b",
        index=1,
        memory=4 * GIB,
        compute=30,
        memory_limited=True,
        compute_limited=True,
    )


def test_a_container_gets_its_own_cards_alone_in_their_order() -> None:
    grants = [
        a_grant("b", GIB, container="one"),
        a_grant("a", 2 * GIB, container="two"),
        a_grant("a", 3 * GIB, container="one"),
    ]

    found = limits(grants, "one", PRESENT)

    assert [(limit.uuid, limit.memory) for limit in found.cards] == [("b", GIB), ("a", 3 * GIB)]


def test_a_grant_without_a_container_is_for_each_of_them() -> None:
    grant = a_grant("a", container="")

    assert only(grant, container="one") == only(grant, container="two")


def test_a_container_without_grants_may_use_nothing() -> None:
    assert limits([a_grant()], "other", PRESENT) == Limits("other", ())


@pytest.mark.parametrize("memory", [0, 1, MIB - 1])
@pytest.mark.parametrize("exclusive", [False, True])
def test_an_amount_that_no_driver_can_limit_is_refused(memory: int, *, exclusive: bool) -> None:
    with pytest.raises(GrantError, match="less than 1 MiB"):
        only(replace(a_grant("a", memory, 30), exclusive=exclusive))


def test_an_exclusive_whole_card_is_not_limited() -> None:
    limit = only(replace(a_grant("a", 16 * GIB, 100), exclusive=True))

    assert not limit.memory_limited
    assert not limit.compute_limited


def test_part_of_the_memory_of_an_exclusive_card_is_limited() -> None:
    limit = only(replace(a_grant("a", 8 * GIB, 50), exclusive=True))

    assert limit.memory_limited
    assert not limit.compute_limited


@pytest.mark.parametrize("compute", [0, 100])
def test_no_compute_and_all_compute_are_not_limited(compute: int) -> None:
    assert not only(a_grant("a", GIB, compute)).compute_limited


def test_a_slice_is_limited_by_hardware() -> None:
    quarter = A30ISH.layouts[0].slices[1]
    grant = replace(a_grant("a", quarter.memory, quarter.compute), slice=quarter)

    (limit,) = limits([grant], "main", {"a": a_mig_card()}).cards

    assert limit.slice == quarter
    assert not limit.memory_limited
    assert not limit.compute_limited


def test_an_unhealthy_card_is_still_the_containers() -> None:
    sick = replace(PRESENT["a"], healthy=False)

    assert limits([a_grant()], "main", {"a": sick}).cards[0].uuid == "a"


def test_a_card_that_is_not_there_is_refused() -> None:
    with pytest.raises(GrantError, match="card gone is not on this node"):
        limits([a_grant("gone")], "main", PRESENT)


def test_a_card_that_another_container_misses_is_not_looked_for() -> None:
    assert limits([a_grant("gone", container="other")], "main", PRESENT).cards == ()


def test_a_container_can_have_several_slices_of_a_card() -> None:
    card = a_mig_card()
    first, second = (a_sliced_grant(start) for start in (0, 1))

    found = limits([first, second], "main", {"a": card})
    assert [limit.slice for limit in found.cards] == [first.slice, second.slice]
    for twice in ((first, first), (first, a_grant("a")), (a_grant("a"), first)):
        with pytest.raises(GrantError, match="card a is granted twice"):
            limits(twice, "main", {"a": card})


def test_a_card_granted_twice_is_refused() -> None:
    with pytest.raises(GrantError, match="card a is granted twice"):
        limits([a_grant("a", container=""), a_grant("a")], "main", PRESENT)
