"""The reasons of many nodes, in a few groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hardware.quantity import GIB, MIB
from core.requests.decision import (
    LONGEST,
    SHOWN,
    group_summary,
    grouped,
    nearest,
)
from core.requests.reason import Cause, CauseCount, Reason


def short(amount: int, cause: Cause = Cause.MEMORY, cards: int = 8) -> Reason:
    return Reason("n", cards, 1, "main", counts=(CauseCount(cause, cards, amount),))


def whole(cause: Cause, detail: str = "") -> Reason:
    return Reason("n", 0, cause=cause, detail=detail)


def texts(*reasons: tuple[Reason, int]) -> list[str]:
    return [group.counted for group in grouped(reasons)]


def test_every_cause_has_a_distance() -> None:
    for cause in Cause:
        (group,) = grouped([(whole(cause), 1)])
        assert group.cause is cause


def test_missing_amounts_are_a_range_over_all_nodes() -> None:
    reasons = [(short(int(16.7 * GIB)), 95), (short(20 * GIB), 400), (short(82 * GIB), 1)]

    assert texts(*reasons) == ["496 nodes: memory 16.7 to 82 GiB short"]


def test_the_range_does_not_depend_on_which_node_comes_first() -> None:
    reasons = [(short(amount * GIB), 1) for amount in (20, 82, 17)]

    assert texts(*reasons) == ["3 nodes: memory 17 to 82 GiB short"]


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [
        (GIB, 2 * GIB, "memory 1 to 2 GiB short"),
        (100 * MIB, 200 * MIB, "memory 100 to 200 MiB short"),
        (512 * MIB, 82 * GIB, "memory 512 MiB to 82 GiB short"),
        (20 * GIB + MIB, 20 * GIB + 2 * MIB, "memory 20481 to 20482 MiB short"),
    ],
)
def test_a_range_of_memory_has_the_unit_that_shows_it(least: int, most: int, text: str) -> None:
    (group,) = grouped([(short(least), 1), (short(most), 1)])

    assert group.text == text


def test_equal_amounts_on_different_numbers_of_cards_are_one_amount() -> None:
    assert texts((short(GIB, cards=1), 1), (short(GIB), 1)) == ["2 nodes: memory 1 GiB short"]
    compute = short(30, Cause.COMPUTE, 1), short(30, Cause.COMPUTE, 8)
    assert texts(*((each, 1) for each in compute)) == ["2 nodes: compute 30% short"]


def test_missing_compute_is_a_range() -> None:
    reasons = [(short(10, Cause.COMPUTE), 1), (short(40, Cause.COMPUTE), 1)]

    assert texts(*reasons) == ["2 nodes: compute 10 to 40% short"]


def test_numbers_of_cards_and_devices_are_ranges() -> None:
    few = [(Reason("n", has, 16, cause=Cause.TOO_FEW), 2) for has in (2, 8)]
    devices = [
        (Reason("n", free, 4, cause=Cause.DEVICES, detail=f"{free} of 9"), 1) for free in (0, 3)
    ]

    assert texts(*few) == ["4 nodes: 16 cards asked for one container, node has 2 to 8"]
    assert texts(*devices) == ["2 nodes: 4 devices of the plugin requested, node has 0 to 3 free"]


def test_one_text_is_kept_as_it_is() -> None:
    mixed = Reason(
        "n",
        8,
        1,
        "main",
        counts=(CauseCount(Cause.UNHEALTHY, 5), CauseCount(Cause.MEMORY, 3, 2 * GIB)),
    )

    assert nearest(mixed) == (Cause.MEMORY, 2 * GIB)
    assert texts((mixed, 3)) == [
        "3 nodes: 5 of 8 cards: unhealthy; 3 of 8 cards: memory 2 GiB short"
    ]


def test_what_the_descriptions_say_is_named_where_it_differs() -> None:
    said = [
        (Reason("n", 8, 1, "c", counts=(CauseCount(Cause.UNHEALTHY, 8, 0, text),)), nodes)
        for text, nodes in (("Xid 79", 1), ("Xid 48", 2))
    ]

    assert texts(*said) == ["3 nodes: unhealthy, such as: 8 of 8 cards: Xid 48"]


def test_one_text_is_kept_where_several_entries_have_it() -> None:
    assert texts((whole(Cause.NO_CARDS), 2), (whole(Cause.NO_CARDS), 3)) == ["5 nodes: no cards"]
    assert texts((short(GIB), 1), (short(GIB), 1)) == ["2 nodes: 8 of 8 cards: memory 1 GiB short"]


def test_a_cause_without_an_amount_is_named_once() -> None:
    reasons = [(short(0, Cause.UNHEALTHY, cards), 1) for cards in (4, 8)]

    assert texts(*reasons) == ["2 nodes: unhealthy"]


def test_of_details_that_differ_the_commonest_is_the_example() -> None:
    reasons = [
        (whole(Cause.TAINT, "untolerated taint a:NoSchedule"), 2),
        (whole(Cause.TAINT, "untolerated taint b:NoSchedule"), 5),
    ]

    assert texts(*reasons) == [
        "7 nodes: untolerated taint, such as: untolerated taint b:NoSchedule"
    ]


def test_the_nearest_causes_come_first_and_then_the_most_nodes() -> None:
    reasons = [
        (whole(Cause.NO_CARDS), 900),
        (whole(Cause.UNSCHEDULABLE), 3),
        (short(GIB), 1),
        (short(0, Cause.SLOTS), 2),
    ]

    assert [group.cause for group in grouped(reasons)] == [
        Cause.SLOTS,
        Cause.MEMORY,
        Cause.UNSCHEDULABLE,
        Cause.NO_CARDS,
    ]


def test_a_reason_that_was_not_evaluated_further_has_a_group() -> None:
    assert nearest(Reason("n", 8)) == (Cause.TOO_FEW_FIT, 0)


def test_a_summary_without_nodes_says_so() -> None:
    assert group_summary(()) == "no node to choose from"


def test_a_summary_has_the_first_groups_and_how_many_nodes_are_left() -> None:
    groups = grouped([(whole(cause), 2) for cause in list(Cause)[: SHOWN + 1]])

    assert group_summary(groups[:1]) == f"0 of 2 nodes fit: {groups[0].counted}"
    assert group_summary(groups) == (
        f"0 of {2 * SHOWN + 2} nodes fit: "
        + "; ".join(group.counted for group in groups[:SHOWN])
        + "; 2 nodes: other causes"
    )


@given(
    st.lists(
        st.tuples(
            st.builds(
                Reason,
                st.just("n"),
                st.integers(0, 16),
                st.integers(1, 16),
                st.just("main"),
                st.one_of(st.none(), st.sampled_from(Cause)),
                st.lists(
                    st.builds(
                        CauseCount,
                        st.sampled_from(Cause),
                        st.integers(1, 16),
                        st.integers(0, 100 * GIB),
                    ),
                    max_size=8,
                ).map(tuple),
                st.text("ab ", max_size=400),
            ),
            st.integers(1, 500),
        ),
        max_size=60,
    )
)
def test_no_summary_is_long_and_every_node_counts_once(reasons: list[tuple[Reason, int]]) -> None:
    groups = grouped(reasons)

    assert sum(group.nodes for group in groups) == sum(nodes for _, nodes in reasons)
    members = sorted(member for group in groups for member in group.members)
    assert members == list(range(len(reasons)))
    assert len(groups) <= len(Cause)
    assert all(len(group.text) <= LONGEST for group in groups)
    assert len(group_summary(groups)) < (SHOWN + 1) * (LONGEST + 20) + 30
