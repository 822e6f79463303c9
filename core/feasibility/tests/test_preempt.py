"""Victims: as few as possible, and the least of them."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from core.feasibility.fit import fit
from core.feasibility.preempt import EXACT, victims
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.reason import Cause, Reason
from core.requests.request import Request
from core.tests.builders import (
    a_card,
    a_container,
    a_grant,
    a_request,
    empty,
    held,
    like_cards,
    unreadable,
)
from core.tests.strategies import ledgers, requests


def of_gib(uid: str, gib: int, priority: int = 0, *cards: str) -> Allocation:
    grants = [a_grant(card, gib * GIB) for card in cards or ("a",)]
    return replace(held(*grants, uid=uid), priority=priority)


def important_gib(gib: int = 1, count: int = 1) -> Request:
    return replace(a_request(a_container(gib * GIB, count)), priority=20)


def with_pods(ledger: NodeLedger, *pods: Allocation) -> NodeLedger:
    for each in pods:
        ledger = ledger.reserve(each)
    return ledger


def names(result: tuple[Allocation, ...] | Reason) -> list[str]:
    assert not isinstance(result, Reason)
    return [one.uid for one in result]


def test_there_are_no_victims_where_the_request_fits_already() -> None:
    assert victims(important_gib(4), with_pods(empty(a_card()), of_gib("old", 12))) == ()


def test_where_no_candidate_helps_the_result_is_the_reason() -> None:
    ledger = with_pods(empty(a_card()), of_gib("equal", 8, 20), of_gib("higher", 8, 21))

    result = victims(important_gib(4), ledger)

    assert isinstance(result, Reason)
    assert [count.cause for count in result.counts] == [Cause.MEMORY]


def test_fewer_pods_go_rather_than_more() -> None:
    ledger = with_pods(empty(a_card()), of_gib("a", 4), of_gib("b", 4), of_gib("c", 8))

    assert names(victims(important_gib(8), ledger)) == ["c"]


def test_two_lower_ones_go_rather_than_one_higher() -> None:
    ledger = with_pods(empty(a_card()), of_gib("a", 4, 1), of_gib("b", 4, 0), of_gib("c", 8, 2))

    assert names(victims(important_gib(8), ledger)) == ["b", "a"]


def test_the_younger_of_equals_is_the_victim() -> None:
    ledger = with_pods(empty(a_card()), of_gib("old", 8), of_gib("young", 8))

    assert names(victims(important_gib(8), ledger)) == ["young"]


def test_a_protected_pod_stays_while_others_help() -> None:
    ledger = with_pods(empty(a_card()), of_gib("safe", 8, 0), of_gib("b", 4, 5), of_gib("c", 4, 5))

    assert names(victims(important_gib(8), ledger, protected=["safe"])) == ["c", "b"]


def test_a_protected_pod_is_a_victim_where_nothing_else_helps() -> None:
    ledger = with_pods(empty(a_card()), of_gib("safe", 8), of_gib("other", 8))

    assert names(victims(important_gib(16), ledger, protected=["safe"])) == ["other", "safe"]


def test_one_protected_victim_is_better_than_two() -> None:
    ledger = with_pods(empty(*like_cards(2)), of_gib("a", 8, 0, "c0"), of_gib("b", 8, 0, "c0"))
    ledger = with_pods(ledger, of_gib("large", 16, 3, "c1"))

    assert names(victims(important_gib(16), ledger, protected=["a", "b", "large"])) == ["large"]


def test_only_candidates_go() -> None:
    ledger = with_pods(empty(a_card()), of_gib("a", 8), of_gib("b", 8))

    assert names(victims(important_gib(8), ledger, candidates=["a"])) == ["a"]
    assert isinstance(victims(important_gib(8), ledger, candidates=[]), Reason)


def test_pods_on_unsuitable_cards_are_no_victims() -> None:
    other = replace(a_card("x", 1), healthy=False)
    ledger = with_pods(empty(a_card(), other), of_gib("there", 16, 0, "x"), of_gib("here", 16))

    assert names(victims(important_gib(8), ledger)) == ["here"]


def test_a_pod_whose_record_cannot_be_read_may_be_a_victim() -> None:
    ledger = empty(a_card()).adopt(unreadable("odd", ["a"]))

    assert names(victims(important_gib(8), ledger)) == ["odd"]


def test_all_cards_of_a_node_are_cleared() -> None:
    ledger = with_pods(empty(*like_cards(4)), *(of_gib(f"p{n}", 9, n, f"c{n}") for n in range(4)))

    assert names(victims(important_gib(8, 4), ledger)) == ["p0", "p1", "p2", "p3"]


def test_of_many_pods_the_important_ones_are_reprieved() -> None:
    cards = like_cards(EXACT + 2)
    pods = [of_gib(f"p{n}", 9, n, card.uuid) for n, card in enumerate(cards)]
    ledger = with_pods(empty(*cards), *pods)

    assert names(victims(important_gib(8, 2), ledger)) == ["p0", "p1"]
    assert names(victims(important_gib(8, 2), ledger, protected=["p0", "p1", "p2"])) == ["p3", "p4"]


pods = st.tuples(
    st.sampled_from(["c0", "c1"]), st.sampled_from([3, 5, 8, 11]), st.integers(0, 3), st.booleans()
)


def fits(request: Request, ledger: NodeLedger, gone: Iterable[Allocation]) -> bool:
    for one in gone:
        ledger = ledger.release(one.uid)
    return isinstance(fit(request, ledger), Placement)


@given(st.lists(pods, max_size=7), st.sampled_from([6, 9, 16]), st.integers(1, 2))
def test_the_victims_are_the_best_of_all_sets(
    wanted: list[tuple[str, int, int, bool]], gib: int, count: int
) -> None:
    ledger = empty(*like_cards(2, slots=8))
    protected: set[str] = set()
    for number, (card, size, priority, safe) in enumerate(wanted):
        if ledger.usages[int(card[1])].memory + size * GIB <= 16 * GIB:
            ledger = ledger.reserve(of_gib(f"p{number}", size, priority, card))
            protected |= {f"p{number}"} if safe else set()
    request = replace(important_gib(gib, count), priority=3)
    rows = sorted(
        (one for one in [*ledger.allocations.values()][::-1] if one.priority < 3),
        key=lambda one: one.priority,
    )

    def cost(places: tuple[int, ...]) -> tuple[object, ...]:
        chosen = [rows[place] for place in places]
        return (
            sum(one.uid in protected for one in chosen),
            max((one.priority for one in chosen), default=-1),
            len(chosen),
            places,
        )

    sets = chain.from_iterable(combinations(range(len(rows)), n) for n in range(len(rows) + 1))
    helpful = [s for s in sets if fits(request, ledger, [rows[place] for place in s])]

    result = victims(request, ledger, protected=protected)

    if not helpful:
        assert isinstance(result, Reason)
    else:
        assert result == tuple(rows[place] for place in min(helpful, key=cost))


@given(requests(), ledgers(pods=6), st.sets(st.integers(0, 5)))
def test_every_victim_is_needed_and_of_lower_priority(
    request: Request, ledger: NodeLedger, protected: set[int]
) -> None:
    result = victims(request, ledger, protected=[f"n.{number}" for number in protected])

    if not isinstance(result, Reason):
        assert fits(request, ledger, result)
        assert all(one.priority < request.priority for one in result)
        for one in result:
            assert not fits(request, ledger, [other for other in result if other != one])
