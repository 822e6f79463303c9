"""Places that are kept for pods to come."""

from dataclasses import replace

import pytest

from core.hardware.quantity import GIB
from core.ledger.node_ledger import Hold, LedgerError, NodeLedger
from core.requests.grant import Allocation
from core.tests.builders import a_card, a_grant, empty, held, like_cards


def a_hold(allocation: Allocation, recipient: str = "owner", *, by_name: bool = False) -> Hold:
    return Hold("plan", recipient, by_name, allocation)


KEPT = a_hold(held(a_grant("c0", 10 * GIB), uid="kept-1"))


def two_cards() -> NodeLedger:
    """Two cards of 16 GiB, of which the first has a pod with 10."""
    return empty(*like_cards(2)).adopt(held(a_grant("c0", 10 * GIB), uid="here"))


def test_a_place_that_is_kept_counts_for_decisions_and_is_no_allocation() -> None:
    ledger = two_cards().hold(KEPT)

    assert ledger.usages == two_cards().usages
    assert ledger.problems() == ()
    assert ledger.version == two_cards().version + 1
    assert [use.memory // GIB for use in ledger.with_holds().usages] == [20, 0]
    with pytest.raises(LedgerError, match="memory"):
        ledger.with_holds().reserve(held(a_grant("c0", GIB), uid="thief"))
    assert ledger.with_holds().without_holds().usages == ledger.usages


def test_a_place_is_kept_through_every_other_change() -> None:
    ledger = two_cards().hold(KEPT)
    changed = [
        ledger.release("here"),
        ledger.allocate(held(a_grant("c1"), uid="new")),
        ledger.renew("here"),
        ledger.adopt(held(a_grant("c1"), uid="new")),
        ledger.with_node(replace(ledger.node, isolation="x")),
        ledger.fenced("default", 3),
        ledger.expire(1),
    ]

    assert [each.holds for each in changed] == [(KEPT,)] * len(changed)


def test_a_place_is_replaced_and_dropped_by_its_uid() -> None:
    other = replace(KEPT, recipient="other")
    ledger = two_cards().hold(KEPT)

    assert ledger.hold(KEPT) is ledger
    assert ledger.hold() is ledger
    assert ledger.hold(other).holds == (other,)
    assert ledger.drop_holds("kept-2") is ledger
    assert ledger.drop_holds("kept-1").holds == ()
    assert ledger.drop_holds("kept-1").version == ledger.version + 1


def test_a_place_that_was_taken_counts_again_when_its_pod_has_no_cards() -> None:
    ledger = empty(a_card("c0")).hold(KEPT)
    taken = ledger.allocate(held(a_grant("c0", 10 * GIB), uid="new")).take(KEPT, "new")

    assert taken.version == ledger.version + 1
    assert [*taken.kept()] == []
    assert taken.with_holds().usages == taken.usages
    again = taken.release("new")
    assert [hold.taken_by for hold in again.kept()] == ["new"]
    assert [use.memory for use in again.with_holds().usages] == [10 * GIB]


@pytest.mark.parametrize(
    ("hold", "expected"),
    [
        (a_hold(held(a_grant())), True),
        (a_hold(held(a_grant()), "uid"), True),
        (a_hold(held(a_grant()), "another"), False),
        (a_hold(held(a_grant()), ""), False),
        (a_hold(held(a_grant()), by_name=True), False),
        (a_hold(replace(held(a_grant()), pod="default/p"), by_name=True), True),
    ],
)
def test_a_place_is_for_a_pod_or_for_the_next_one_of_its_controller(
    hold: Hold, expected: bool
) -> None:
    assert hold.is_for("uid", "owner", "default/p") is expected
    assert not hold.is_for("uid-2", "", "default/p")
    assert not hold.is_for("uid", "owner", "other/p")
