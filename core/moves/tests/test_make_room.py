"""Plans: as cheap as the oracle's, in an order in which each place is free, and honest if not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from core.feasibility.fit import placements
from core.hardware.quantity import GIB
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.moves.bound import Bound
from core.moves.make_room import SearchLimits, free_nodes, make_room
from core.moves.places import Places, State
from core.moves.search import Search, in_order
from core.moves.situation import Move, MovePlan, PlannedPod, Proof
from core.moves.tests.builders import a_pod, on, places
from core.moves.tests.oracle import least_cost
from core.moves.tests.strategies import a_situation
from core.requests.grant import Allocation, Placement
from core.requests.request import SharingTerms, TaskClass
from core.tests.builders import a_container, a_grant, a_ledger, a_request, held

MOVES = 3
SEEDS = 200
"""All 1,000 run in ``bench/defrag.py``."""

FAR = SearchLimits(MOVES, 1 << 20)


def steps(plan: MovePlan) -> list[tuple[str, str, str]]:
    return [(move.pod.request.uid, move.source, move.target.grants[0].card) for move in plan.moves]


@pytest.mark.parametrize("number", range(SEEDS))
def test_a_plan_costs_what_the_cheapest_of_all_plans_costs(number: int) -> None:
    wanted, situation = a_situation(number)
    best = least_cost(wanted, situation, MOVES)

    plan = make_room(wanted, Places(situation), FAR)

    assert (plan.cost if plan.found else None) == best
    assert plan.proof is (Proof.IMPOSSIBLE if best is None else Proof.OPTIMAL)


@pytest.mark.parametrize("number", range(SEEDS))
def test_each_new_place_is_free_when_its_step_comes(number: int) -> None:
    wanted, situation = a_situation(number)
    ledgers = {ledger.node.name: ledger for ledger in situation.inventory}

    plan = make_room(wanted, Places(situation), FAR)

    for move in plan.moves:
        uid, to = move.pod.request.uid, move.target.node
        ledgers[move.source] = ledgers[move.source].release(uid)
        ledgers[to] = ledgers[to].reserve(Allocation.of(move.pod.request, move.target))
    for pod, place in plan.placed:
        allocation = Allocation.of(pod.request, place)
        ledgers[place.node] = ledgers[place.node].reserve(allocation)
    assert {pod.request.uid for pod, _ in plan.placed} == (
        {pod.request.uid for pod in wanted} if plan.found else set()
    )


@pytest.mark.parametrize("number", range(SEEDS))
def test_a_target_has_its_place_after_the_last_move_where_shares_fill_the_compute_of_cards(
    number: int,
) -> None:
    wanted, situation = a_situation(number, compute=(0, 50))
    ledgers = {ledger.node.name: ledger for ledger in situation.inventory}
    best = least_cost(wanted, situation, MOVES)

    plan = make_room(wanted, Places(situation), FAR)

    for move in plan.moves:
        uid, to = move.pod.request.uid, move.target.node
        before = ledgers[move.source].allocations[uid]
        assert Allocation.of(move.pod.request, move.target).grants != before.grants
        ledgers[move.source] = ledgers[move.source].release(uid)
        ledgers[to] = ledgers[to].reserve(Allocation.of(move.pod.request, move.target))
    in_turn = permutations(plan.placed)
    assert any(_can_be_placed(placed, ledgers) for placed in in_turn)
    if best is None:
        assert not plan.found
    elif plan.proof is Proof.OPTIMAL:
        assert plan.cost == best
    else:
        assert plan.proof in (Proof.CUT, Proof.UNKNOWN)


def _can_be_placed(
    placed: Sequence[tuple[PlannedPod, Placement]], ledgers: Mapping[str, NodeLedger]
) -> bool:
    after = dict(ledgers)
    try:
        for pod, place in placed:
            after[place.node] = after[place.node].reserve(Allocation.of(pod.request, place))
    except LedgerError:
        return False
    return True


@pytest.mark.parametrize("number", range(SEEDS))
def test_a_bound_for_many_pods_is_no_more_than_the_cheapest_plan_costs(number: int) -> None:
    wanted, situation = a_situation(number)
    best = least_cost(wanted, situation, MOVES)

    bound = Bound(wanted, Places(situation))

    if best is not None:
        assert not bound.unresolvable()
        assert bound.cost([pod.request.uid for pod in wanted]) <= best


def test_a_pod_that_fits_needs_no_move() -> None:
    plan = make_room([a_pod("w", 4, ["n"])], places(a_ledger(), movable=[]), FAR)

    assert (plan.proof, plan.moves, plan.bound) == (Proof.OPTIMAL, (), 0)
    assert plan.proof.settled


def test_a_pod_makes_room_for_the_one_that_makes_room() -> None:
    """``w`` fits ``n`` alone, ``a`` fits ``m`` too, and ``b`` fits ``o`` too."""
    a, b = a_pod("a", 10, ["n", "m"]), a_pod("b", 10, ["m", "o"])
    found = places(
        on(a_ledger("n", 1), a, "n-0"),
        on(a_ledger("m", 1), b, "m-0"),
        a_ledger("o", 1),
        movable=[a, b],
    )

    plan = make_room([a_pod("w", 10, ["n"])], found, FAR)

    assert steps(plan) == [("b", "m", "o-0"), ("a", "n", "m-0")]


def test_two_pods_do_not_exchange_their_places() -> None:
    a, b = a_pod("a", 10, ["n", "m"]), a_pod("b", 12, ["n", "m"])
    found = places(on(a_ledger("n", 1), a, "n-0"), on(a_ledger("m", 1), b, "m-0"), movable=[a, b])

    plan = make_room([a_pod("w", 6, ["m"])], found, FAR)

    assert plan.proof is Proof.IMPOSSIBLE


def test_a_pod_moves_to_another_card_of_its_node() -> None:
    a, b = a_pod("a", 8, ["n"]), a_pod("b", 8, ["n"])
    ledger = on(on(a_ledger("n", 2), a, "n-0"), b, "n-1")

    plan = make_room([a_pod("w", 16, ["n"])], places(ledger, movable=[a, b]), FAR)

    assert [(uid, source) for uid, source, _ in steps(plan)] in ([("a", "n")], [("b", "n")])


def test_two_light_pods_move_rather_than_a_heavy_one() -> None:
    a, b, c = a_pod("a", 8, ["n", "m"]), a_pod("b", 8, ["n", "m"]), a_pod("c", 16, ["n", "m"], 3)
    ledger = on(on(on(a_ledger("n", 2), a, "n-0"), b, "n-0"), c, "n-1")

    plan = make_room([a_pod("w", 16, ["n"])], places(ledger, a_ledger("m"), movable=[a, b, c]), FAR)

    assert (sorted(uid for uid, _, _ in steps(plan)), plan.cost) == (["a", "b"], 2)


def test_a_pod_leaves_a_node_that_lacks_cpu_though_its_cards_are_free() -> None:
    a = a_pod("a", 1, ["n", "m"], cpu=3)
    ledger = on(a_ledger("n"), a, "n-0")
    found = places(ledger, a_ledger("m"), movable=[a], cpu={"n": 1, "m": 3})

    plan = make_room([a_pod("w", 1, ["n"], cpu=4)], found, FAR)

    assert [(uid, source) for uid, source, _ in steps(plan)] == [("a", "n")]
    assert found.situation.room == {"n": {"cpu": 0}, "m": {"cpu": 0}}


def test_no_pod_that_leaves_helps_where_the_others_do_not_need_what_is_missing() -> None:
    a = a_pod("a", 1, ["n", "m"])
    found = places(on(a_ledger("n"), a, "n-0"), a_ledger("m"), movable=[a], cpu={"n": 1})
    wanted = [a_pod("w", 1, ["n"], cpu=2)]

    assert Bound(wanted, found).unresolvable() == {"w"}
    assert make_room(wanted, found, FAR).proof is Proof.IMPOSSIBLE


def test_what_one_plan_moved_stays_for_the_next_one() -> None:
    a = a_pod("a", 8, ["n", "m"])
    found = places(on(a_ledger("n", 1), a, "n-0"), a_ledger("m", 1), movable=[a])
    make_room([a_pod("w", 16, ["n"])], found, FAR)

    assert make_room([a_pod("v", 16, ["m"])], found, FAR).proof is Proof.IMPOSSIBLE


def test_pods_of_a_gang_fit_together_or_not_at_all() -> None:
    a = a_pod("a", 8, ["n", "m"])
    ledgers = on(a_ledger("n", 1), a, "n-0"), a_ledger("m", 1)
    gang = [a_pod("w", 16, ["n"]), a_pod("v", 8, ["m"])]

    assert make_room(gang, places(*ledgers, movable=[a]), FAR).cost == 1
    more = [*gang, a_pod("t", 4, ["m"])]
    assert make_room(more, places(*ledgers, movable=[a]), FAR).proof is Proof.IMPOSSIBLE


def full_cluster(nodes: int) -> tuple[list[NodeLedger], list[PlannedPod]]:
    """Nodes of four cards that are half full, with a pod on each card."""
    names = [f"n{each}" for each in range(nodes)]
    ledgers = [a_ledger(name, 4) for name in names]
    pods = [a_pod(f"{name}/{card}", 9, names) for name in names for card in range(4)]
    for number, pod in enumerate(pods):
        at, card = divmod(number, 4)
        ledgers[at] = on(ledgers[at], pod, f"{names[at]}-{card}")
    return ledgers, pods


def test_a_search_that_is_cut_says_so_and_keeps_its_bound() -> None:
    ledgers, pods = full_cluster(4)

    plan = make_room([a_pod("w", 16, ["n0"])], places(*ledgers, movable=pods), SearchLimits(8, 20))

    assert (plan.proof, plan.proof.settled, plan.found) == (Proof.UNKNOWN, False, False)
    assert plan.bound >= 2


def test_a_search_that_is_cut_gives_a_plan_that_it_finds_fast() -> None:
    """The first places of ``a`` are those that only ``b`` can have; nothing is proven then."""
    names = [f"n{each}" for each in range(6)]
    a, b = a_pod("a", 9, names), a_pod("b", 9, names)
    ledgers = [a_ledger(name, 1) for name in names]
    ledgers[0] = on(a_ledger("n0", 2), a, "n0-0")
    ledgers[0] = on(ledgers[0], b, "n0-1")

    found = places(*ledgers, movable=[a, b])
    plan = make_room([a_pod("w", 16, ["n0"], count=2)], found, SearchLimits(8, 3))

    assert plan.found
    assert plan.cost == 2


class Clock:
    """A time that is over after some questions."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    def expired(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("questions", [0, 1, 2, 3, 5, 8, 13, 30, 100])
def test_a_search_that_the_time_cuts_claims_nothing_that_is_wrong(questions: int) -> None:
    for number in range(40):
        wanted, situation = a_situation(number)
        best = least_cost(wanted, situation, MOVES)

        limits = SearchLimits(MOVES, 1 << 20, Clock(questions).expired)
        plan = make_room(wanted, Places(situation), limits)

        assert best is None or plan.bound <= best, number
        assert plan.proof is not Proof.OPTIMAL or plan.cost == best, number
        assert plan.proof is not Proof.IMPOSSIBLE or best is None, number
        assert not plan.found or len(plan.placed) == len(wanted), number


def test_once_the_time_is_over_a_pod_gets_a_place_that_is_free_and_none_moves() -> None:
    first = on(a_ledger(), a_pod("a", 10, ["n"]), "n-0")
    movable = [a_pod("a", 10, ["n"])]
    over = SearchLimits(expired=lambda: True)

    fits, lacks = (
        make_room([a_pod("w", 10, ["n"], 0, count)], places(first, movable=movable), over)
        for count in (1, 2)
    )

    assert (fits.proof, fits.moves, len(fits.placed)) == (Proof.OPTIMAL, (), 1)
    assert (lacks.proof, lacks.moves) == (Proof.UNKNOWN, ())


def test_no_nodes_can_be_emptied_once_the_time_is_over_where_there_are_too_few() -> None:
    over = SearchLimits(expired=lambda: True)

    plan = free_nodes(2, ["n"], places(a_ledger(), movable=[]), over)

    assert not plan.found


def test_a_bound_that_the_time_cuts_counts_the_other_pods_as_free() -> None:
    first = on(a_ledger(cards=1), a_pod("a", 10, ["n"]), "n-0")
    waits = [a_pod(uid, 10, ["n"], 0) for uid in ("w1", "w2")]
    all_places = places(first, movable=[a_pod("a", 10, ["n"])])

    prices = [
        Bound(waits, all_places, Clock(questions).expired).cost(["w2"]) for questions in (1, 2)
    ]

    assert prices == [0, 1]


def test_online_and_offline_tasks_join_in_one_order_only_so_that_nothing_is_proven() -> None:
    a = a_pod("a", 8, ["n", "m"])
    task = replace(a, request=replace(a.request, terms=SharingTerms(task_class=TaskClass.ONLINE)))
    ledger = on(a_ledger("n", 1), a, "n-0")

    wanted = [a_pod("w", 16, ["n"]), a_pod("too large", 17, ["n"])]
    bound = Bound(wanted, places(ledger, a_ledger("m", 1), movable=[task]))
    plan = make_room(wanted[:1], places(ledger, a_ledger("m", 1), movable=[task]), FAR)

    assert (plan.proof, plan.cost, plan.bound) == (Proof.CUT, 1, 0)
    assert (bound.cost(["w"]), bound.unresolvable()) == (0, frozenset())


def test_of_many_pods_on_a_card_not_all_sets_are_compared() -> None:
    names = ["n", "m"]
    pods = [a_pod(f"p{each:02}", 1, names) for each in range(14)]
    (card,) = a_ledger("n", 1).node.cards
    ledger = NodeLedger.of(replace(a_ledger("n", 1).node, cards=(replace(card, slots=20),)))
    for pod in pods:
        ledger = on(ledger, pod, "n-0")

    found = places(ledger, a_ledger("m", 4), movable=pods)
    plan = make_room([a_pod("w", 4, ["n"])], found, FAR)

    assert (plan.cost, plan.proof) == (2, Proof.CUT)


def test_of_many_pods_on_a_card_the_lightest_leave_and_no_price_of_a_hole_is_certain() -> None:
    names = ["n", "m"]
    pods = [a_pod(f"p{each:02}", 1, names, weight=1 + each % 2) for each in range(16)]
    (card,) = a_ledger("n", 1).node.cards
    ledger = NodeLedger.of(replace(a_ledger("n", 1).node, cards=(replace(card, slots=20),)))
    for pod in pods:
        ledger = on(ledger, pod, "n-0")
    wanted = [a_pod("w", 5, ["n"]), a_pod("too large", 17, ["n"])]

    found = places(ledger, a_ledger("m", 4), movable=pods)

    assert Bound(wanted, found).cost(["w"]) <= 5
    assert Bound(wanted, found).unresolvable() == {"too large"}
    assert make_room(wanted[:1], found, SearchLimits(8, 1000)).cost == 5


def test_many_pods_that_free_too_little_cpu_make_no_room() -> None:
    pods = [a_pod(f"p{each:02}", 1, ["n", "m"], cpu=1) for each in range(14)]
    ledger = a_ledger("n", 4)
    for number, pod in enumerate(pods):
        ledger = on(ledger, pod, f"n-{number // 4}")

    found = places(ledger, a_ledger("m", 4), movable=pods, cpu={"n": 0})
    plan = make_room([a_pod("w", 1, ["n"], cpu=15)], found, FAR)

    assert plan.proof is Proof.IMPOSSIBLE


def test_of_many_combinations_of_cards_the_costliest_are_left_out() -> None:
    names = ["n", "m"]
    ledger = a_ledger("n", 7)
    pods: list[PlannedPod] = []
    for card in range(7):
        for each in range(4):
            pods.append(a_pod(f"p{card}{each}", 4, names))
            ledger = on(ledger, pods[-1], f"n-{card}")

    found = places(ledger, a_ledger("m", 8), movable=pods)
    plan = make_room([a_pod("w", 4, ["n"], count=7)], found, SearchLimits(8, 1000))

    assert (plan.cost, plan.proof) == (7, Proof.CUT)


def test_the_cheapest_nodes_are_emptied() -> None:
    names = ["n", "m", "o"]
    a, b, c = a_pod("a", 8, names, 2), a_pod("b", 8, names, 1), a_pod("c", 8, names, 4)
    ledgers = [on(a_ledger(n), pod, f"{n}-0") for n, pod in zip(names, (a, b, c), strict=True)]
    found = places(*ledgers, movable=[a, b, c])

    plan = free_nodes(2, names, found, FAR)

    assert ({*plan.freed}, plan.cost, plan.proof) == ({"n", "m"}, 3, Proof.OPTIMAL)
    assert not found.situation.inventory.ledger("n").allocations


def test_a_node_whose_pods_have_no_free_place_is_emptied_where_another_costs_more() -> None:
    """To empty n costs 4 by one move; to empty m costs 2 by two."""
    w, a, b = a_pod("w", 6, ["n", "o"], 4), a_pod("a", 12, ["m", "o"]), a_pod("b", 5, ["n", "o"])
    staying = a_pod("s", 11, ["o"])
    ledgers = [on(a_ledger("n", 1), w, "n-0"), on(a_ledger("m", 1), a, "m-0")]
    ledgers.append(on(on(a_ledger("o", 2), b, "o-0"), staying, "o-1"))

    plan = free_nodes(1, ["n", "m"], places(*ledgers, movable=[w, a, b]), FAR)
    cut = free_nodes(1, ["n", "m"], places(*ledgers, movable=[w, a, b]), SearchLimits(8, 2))

    assert (steps(plan), {*plan.freed}) == ([("b", "o", "n-0"), ("a", "m", "o-0")], {"m"})
    assert (plan.proof, plan.bound) == (Proof.OPTIMAL, 2)
    assert (cut.cost, cut.proof, cut.bound) == (4, Proof.CUT, 2)


def test_a_node_whose_pods_have_no_free_place_is_emptied_where_nothing_else_helps() -> None:
    a, b = a_pod("a", 16, ["n", "m"]), a_pod("b", 8, ["m", "o"], 3)
    ledgers = on(a_ledger("n", 1), a, "n-0"), on(a_ledger("m", 1), b, "m-0"), a_ledger("o", 1)

    first = free_nodes(1, ["n"], places(*ledgers, movable=[a, b]), FAR)
    second = free_nodes(1, ["n", "m"], places(*ledgers, movable=[a, b]), FAR)

    assert (steps(first), first.cost) == ([("b", "m", "o-0"), ("a", "n", "m-0")], 4)
    assert ({*second.freed}, second.cost, second.proof) == ({"m"}, 3, Proof.OPTIMAL)
    assert second.bound == 3


def test_more_nodes_than_there_are_cannot_be_emptied() -> None:
    plan = free_nodes(2, ["n"], places(a_ledger(), movable=[]), FAR)

    assert plan.proof is Proof.IMPOSSIBLE


def test_an_emptied_node_gets_no_pod_of_another_one() -> None:
    a, b = a_pod("a", 8, ["n", "m"]), a_pod("b", 8, ["n", "m"])
    ledgers = on(a_ledger("n"), a, "n-0"), on(a_ledger("m"), b, "m-0")

    plan = free_nodes(2, ["n", "m"], places(*ledgers, movable=[a, b]), FAR)

    assert plan.proof is Proof.IMPOSSIBLE


def test_pods_that_lack_cards_need_as_much_as_comes_free() -> None:
    """Each of four pods needs a card alone; no card is free, and one of two pods must leave it."""
    names = ["n", "m"]
    ledger = a_ledger("n", 4)
    pods: list[PlannedPod] = []
    for card in range(4):
        pods.append(a_pod(f"p{card}", 2, names))
        ledger = on(ledger, pods[-1], f"n-{card}")
    found = places(ledger, a_ledger("m", 1), movable=pods)
    wanted = [a_pod(f"w{each}", 15, ["n"]) for each in range(4)]
    several = a_request(a_container(15 * GIB), a_container(GIB, name="b"), uid="v")

    bound = Bound([*wanted, PlannedPod(several, frozenset(names[:1]))], found)

    assert bound.cost(["w0", "w1", "w2", "w3"]) == 4
    assert bound.cost(["v"]) == 1
    assert bound.cost([]) == 0


def test_a_pod_lacks_only_the_cards_that_no_node_has_free() -> None:
    a = a_pod("a", 8, ["n", "m"])
    found = places(on(a_ledger("n", 3), a, "n-0"), a_ledger("m", 1), movable=[a])

    assert Bound([a_pod("w", 16, ["n"], count=3)], found).cost(["w"]) == 1


def test_a_card_that_nothing_describes_frees_nothing() -> None:
    a = a_pod("a", 8, ["n", "m"])
    ledger = a_ledger("n", 1).adopt(held(a_grant("gone", 8 * GIB), uid="a", node="n"))
    found = places(ledger, a_ledger("m", 1), movable=[a])

    assert Bound([a_pod("w", 16, ["n"])], found).cost(["w"]) == 0


def test_moves_that_wait_for_each_other_have_no_order() -> None:
    a, b = a_pod("a", 16, ["n", "m"]), a_pod("b", 16, ["n", "m"])
    found = places(on(a_ledger("n", 1), a, "n-0"), on(a_ledger("m", 1), b, "m-0"), movable=[a, b])
    moves = [
        Move(a, "n", Placement("m", (a_grant("m-0", 16 * GIB),))),
        Move(b, "m", Placement("n", (a_grant("n-0", 16 * GIB),))),
    ]

    assert in_order(moves, found.situation) is None


def test_an_order_is_found_after_those_that_lead_nowhere() -> None:
    """``r`` leaves ``m`` once ``q`` has come; with ``p`` there before, ``q`` has no room."""
    names = ["n", "m", "o"]
    p, q, r, x = (a_pod(uid, 6, names) for uid in "pqrx")
    fixed = a_pod("fixed", 5, names)
    found = places(
        on(on(on(a_ledger("n", 2), fixed, "n-1"), q, "n-1"), p, "n-0"),
        on(a_ledger("m", 1), r, "m-0"),
        on(a_ledger("o", 2), x, "o-0"),
        movable=[p, q, r, x],
    )

    def to(pod: PlannedPod, source: str, card: str) -> Move:
        return Move(pod, source, Placement(card[0], (a_grant(card, 6 * GIB),)))

    moves = [to(p, "n", "m-0"), to(x, "o", "o-1"), to(q, "n", "m-0"), to(r, "m", "n-1")]

    found_order = in_order(moves, found.situation)

    assert found_order is not None
    assert [move.pod.request.uid for move in found_order] == ["x", "q", "r", "p"]


@pytest.mark.parametrize("gib", [7, 8])
def test_a_pod_that_could_stay_moves_where_the_others_wait_for_each_other(gib: int) -> None:
    """``p`` and ``r`` exchange nodes once ``q`` is gone, beside which ``w`` would fit."""
    p, q, r = a_pod("p", 10, ["a", "b"]), a_pod("q", 4, ["a", "c"]), a_pod("r", 4, ["a", "b"])
    found = places(
        on(on(a_ledger("a", 1), p, "a-0"), q, "a-0"),
        on(on(a_ledger("b", 1), r, "b-0"), a_pod("fixed", 4, ["b"]), "b-0"),
        on(a_ledger("c", 1), a_pod("other", 12, ["c"]), "c-0"),
        movable=[p, q, r],
    )
    wanted = [a_pod("w", gib, ["a"])]
    best = least_cost(wanted, found.situation, MOVES)

    plan = make_room(wanted, found, FAR)

    assert steps(plan) == [("q", "a", "c-0"), ("r", "b", "a-0"), ("p", "a", "b-0")]
    assert (plan.cost, plan.proof) == (best, Proof.OPTIMAL)


def test_an_order_of_more_moves_than_python_calls_itself_is_found() -> None:
    pods = [a_pod(f"p{number}", 4, ["n", "m"]) for number in range(1200)]
    places_of = [
        {node: a_grant(f"{node}-{number // 4}", 4 * GIB) for node in "nm"}
        for number in range(len(pods))
    ]
    on_n = [
        held(at["n"], uid=pod.request.uid, node="n")
        for pod, at in zip(pods, places_of, strict=True)
    ]
    ledgers = NodeLedger.restored(a_ledger("n", 300).node, on_n), a_ledger("m", 300)
    moves = [
        Move(pod, "n", Placement("m", (at["m"],))) for pod, at in zip(pods, places_of, strict=True)
    ]

    assert in_order(moves, places(*ledgers, movable=pods).situation) == tuple(moves)


def test_a_plan_of_many_moves_without_an_order_proves_nothing() -> None:
    a, b = a_pod("a", 10, ["n", "m"]), a_pod("b", 12, ["n", "m"])
    found = places(on(a_ledger("n", 1), a, "n-0"), on(a_ledger("m", 1), b, "m-0"), movable=[a, b])
    search = Search(found, MOVES)
    search.sure = 1

    assert search.run([State({"w": a_pod("w", 6, ["m"])})], 1000) is None
    assert not found.complete


def test_further_nodes_are_emptied_where_the_cheapest_cannot_be_together() -> None:
    """``a`` and ``b`` have each a free place, and it is the same one."""
    a, b = a_pod("a", 16, ["n", "p"]), a_pod("b", 16, ["m", "p"])
    c = a_pod("c", 16, ["o", "q"], 5)
    ledgers = [
        on(a_ledger(n, 1), pod, f"{n}-0") for n, pod in zip(("n", "m", "o"), (a, b, c), strict=True)
    ]
    nodes = *ledgers, a_ledger("p", 1), a_ledger("q", 1)

    plan = free_nodes(2, ["n", "m", "o"], places(*nodes, movable=[a, b, c]), FAR)

    assert ({*plan.freed}, plan.cost) in (({"n", "o"}, 6), ({"m", "o"}, 6))
    assert plan.proof is Proof.OPTIMAL
    cut = free_nodes(2, ["n", "m", "o"], places(*nodes, movable=[a, b, c]), SearchLimits(8, 1))
    assert (cut.cost, cut.proof) == (6, Proof.CUT)


def test_a_move_waits_for_the_cpu_that_another_one_frees() -> None:
    a, b = a_pod("a", 1, ["n", "m"], cpu=2), a_pod("b", 1, ["m", "o"], cpu=2)
    ledgers = on(a_ledger("n"), a, "n-0"), on(a_ledger("m"), b, "m-0"), a_ledger("o")
    found = places(*ledgers, movable=[a, b], cpu={"n": 0, "m": 1})
    moves = [
        Move(a, "n", Placement("m", (a_grant("m-0"),))),
        Move(b, "m", Placement("o", (a_grant("o-0"),))),
    ]

    assert in_order(moves, found.situation) == (moves[1], moves[0])


def test_all_choices_of_cards_are_placements() -> None:
    request = a_request(a_container(GIB, 2), a_container(GIB, 1, name="second"))

    found = {placement.grants for placement in placements(request, a_ledger("n", 3))}

    assert len(found) == 9
    assert not [*placements(a_request(a_container(GIB, 4)), a_ledger("n", 3))]


def _filling(uid: str, nodes: Sequence[str], compute: int = 50) -> PlannedPod:
    """A movable pod of 1 GiB, or one that waits, with a share of the compute."""
    container = a_container(GIB, compute=compute)
    return PlannedPod(a_request(container, uid=uid), frozenset(nodes), weight=1)


def _cards(*pods: tuple[PlannedPod, str], name: str = "n") -> NodeLedger:
    ledger = a_ledger(name, 1)
    for pod, card in pods:
        compute = pod.request.containers[0].compute
        share = a_grant(card, GIB, compute)
        ledger = ledger.reserve(held(share, uid=pod.request.uid, node=name))
    return ledger


def test_a_pod_does_not_move_onto_its_own_card() -> None:
    a, b = _filling("a", ["n"]), _filling("b", ["n"])
    found = places(_cards((a, "n-0"), (b, "n-0")), movable=[b])

    plan = make_room([_filling("w", ["n"], compute=0)], found, FAR)

    assert (plan.proof, plan.moves) == (Proof.IMPOSSIBLE, ())


def test_no_pod_moves_onto_the_card_that_a_target_needs_after_it() -> None:
    """``c`` could fill the card of ``n`` once ``w`` is there, and ``w`` comes last."""
    a, b, c = _filling("a", ["n"]), _filling("b", ["n", "m"]), _filling("c", ["n", "m"])
    found = places(
        _cards((a, "n-0"), (b, "n-0")),
        _cards((c, "m-0"), (_filling("d", ["m"]), "m-0"), name="m"),
        movable=[b, c],
    )

    plan = make_room([_filling("w", ["n"], compute=0)], found, FAR)

    assert not plan.found


def test_a_later_plan_does_not_fill_the_card_of_an_earlier_target() -> None:
    a, b = _filling("a", ["n"]), _filling("b", ["m", "n"], compute=50)
    found = places(_cards((a, "n-0")), _cards((b, "m-0"), name="m"), movable=[b])
    first = make_room([_filling("v", ["n"], compute=0)], found, FAR)

    second = make_room([_filling("w", ["m"], compute=100)], found, FAR)

    assert (first.found, second.found) == (True, False)
