"""Victims: as few as possible, and the least of them."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from core.feasibility.fit import fit
from core.feasibility.preempt import EXACT, EvictedTogether, victims
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


def test_another_rule_than_the_request_says_what_has_room() -> None:
    pods = (of_gib("a", 4), of_gib("b", 4), of_gib("c", 4, 20))
    nothing = replace(a_request(), containers=(), priority=20)

    def has(ledger: NodeLedger) -> Reason | None:
        return Reason("", 0) if "b" in ledger.allocations else None

    assert names(victims(nothing, with_pods(empty(a_card()), *pods), fits=has)) == ["b"]


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


def a_group(*uids: str, pods: int = 0, priority: int = 0) -> EvictedTogether:
    return EvictedTogether(frozenset(uids), max(pods, len(uids)), priority)


def test_a_group_goes_as_a_whole() -> None:
    ledger = with_pods(empty(*like_cards(2)), of_gib("a", 9, 0, "c0"), of_gib("b", 9, 0, "c1"))

    assert names(victims(important_gib(8), ledger, groups=[a_group("a", "b")])) == ["b", "a"]


def test_two_pods_go_rather_than_a_group_of_three() -> None:
    ledger = with_pods(empty(a_card()), of_gib("member", 8), of_gib("a", 4), of_gib("b", 4))

    found = victims(important_gib(8), ledger, groups=[a_group("member", pods=3)])

    assert names(found) == ["b", "a"]


def test_no_pod_of_a_group_goes_that_may_not_go_as_a_whole() -> None:
    ledger = with_pods(empty(a_card()), of_gib("a", 8), of_gib("b", 8, 20))

    for one in ([a_group("a", "b")], [a_group("a", priority=20)]):
        assert isinstance(victims(important_gib(4), ledger, groups=one), Reason)
    both = [a_group("a", "b")]
    assert isinstance(victims(important_gib(4, 1), ledger, ["a"], groups=both), Reason)


def test_a_group_with_one_protected_pod_is_protected() -> None:
    ledger = with_pods(empty(a_card()), of_gib("a", 4), of_gib("b", 4), of_gib("c", 8, 5))

    found = victims(important_gib(8), ledger, protected=["a"], groups=[a_group("a", "b")])

    assert names(found) == ["c"]


pods = st.tuples(
    st.sampled_from(["c0", "c1"]),
    st.sampled_from([3, 5, 8, 11]),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([0, 0, 1, 2]),
)


def fits(request: Request, ledger: NodeLedger, gone: Iterable[Allocation]) -> bool:
    for one in gone:
        ledger = ledger.release(one.uid)
    return isinstance(fit(request, ledger), Placement)


@given(
    st.lists(pods, max_size=7),
    st.sampled_from([6, 9, 16]),
    st.integers(1, 2),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_the_victims_are_the_best_of_all_sets(
    wanted: list[tuple[str, int, int, bool, int]], gib: int, count: int, elsewhere: tuple[int, int]
) -> None:
    ledger = empty(*like_cards(2, slots=8))
    protected: set[str] = set()
    members: dict[int, set[str]] = {1: set(), 2: set()}
    for number, (card, size, priority, safe, group) in enumerate(wanted):
        if ledger.usages[int(card[1])].memory + size * GIB <= 16 * GIB:
            ledger = ledger.reserve(of_gib(f"p{number}", size, priority, card))
            protected |= {f"p{number}"} if safe else set()
            members.get(group, set()).add(f"p{number}")
    request = replace(important_gib(gib, count), priority=3)
    groups = [
        EvictedTogether(frozenset(uids), len(uids) + more, 0)
        for uids, more in zip(members.values(), elsewhere, strict=True)
    ]
    youngest_first = [*ledger.allocations.values()][::-1]
    single = [(one,) for one in youngest_first if not any(one.uid in g.uids for g in groups)]
    whole = [tuple(o for o in youngest_first if o.uid in g.uids) for g in groups if g.uids]
    size_of = {g.uids: g.pods for g in groups}

    def pods_of(unit: tuple[Allocation, ...]) -> int:
        return size_of.get(frozenset(one.uid for one in unit), 1)

    def priority_of(unit: tuple[Allocation, ...]) -> int:
        return max(one.priority for one in unit)

    units = sorted((*single, *whole), key=lambda unit: youngest_first.index(unit[0]))
    rows = sorted(
        (unit for unit in units if priority_of(unit) < 3),
        key=lambda unit: (priority_of(unit), pods_of(unit)),
    )

    def cost(places: tuple[int, ...]) -> tuple[object, ...]:
        chosen = [rows[place] for place in places]
        return (
            sum(any(one.uid in protected for one in unit) for unit in chosen),
            max(map(priority_of, chosen), default=-1),
            sum(map(pods_of, chosen)),
            places,
        )

    def gone(places: tuple[int, ...]) -> list[Allocation]:
        return [one for place in places for one in rows[place]]

    sets = chain.from_iterable(combinations(range(len(rows)), n) for n in range(len(rows) + 1))
    helpful = [places for places in sets if fits(request, ledger, gone(places))]

    result = victims(request, ledger, protected=protected, groups=groups)

    if not helpful:
        assert isinstance(result, Reason)
    else:
        assert result == tuple(gone(min(helpful, key=cost)))


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
