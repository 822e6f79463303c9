"""Plans for pods that differ beside all plans that there are."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from core.feasibility import gang_search
from core.feasibility.cache import FeasibilityCache, request_signature
from core.feasibility.fit import placements
from core.feasibility.gang_plan import GangPlan, place_together
from core.feasibility.gang_search import Candidate, LeastNumber
from core.feasibility.inventory import Inventory, NodeNames
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.request import ContainerRequest, NodeKey, Ranking, Request
from core.tests.builders import DIALECT, a_container, a_grant, a_request, empty, held, like_cards
from core.tests.strategies import OTHER, clusters, requests


def plan(
    ledgers: Sequence[NodeLedger], pods: Sequence[Request], needs: Sequence[LeastNumber]
) -> GangPlan:
    inventory, cache = Inventory(ledgers), FeasibilityCache()
    names = NodeNames(inventory.names())
    evaluated = {request_signature(pod): cache.evaluate(pod, inventory) for pod in pods}
    found = [Candidate(pod, evaluated[request_signature(pod)], names) for pod in pods]
    return place_together(found, needs)


def most(ledgers: Sequence[NodeLedger], pods: Sequence[Request]) -> int:
    """How many of some pods fit together, in any order and on any cards."""

    def cards(ledger: NodeLedger) -> Hashable:
        return tuple(frozenset(use.shares) for use in ledger.usages)

    seen = set[Hashable]()
    best = 0

    def place(nodes: Mapping[str, NodeLedger], waiting: Sequence[Request]) -> None:
        nonlocal best
        best = max(best, len(pods) - len(waiting))
        state = frozenset((name, cards(ledger)) for name, ledger in nodes.items())
        if state in seen or best == len(pods):
            return
        seen.add(state)
        for pod in waiting:
            others = [each for each in waiting if each is not pod]
            for name, ledger in nodes.items():
                for placement in placements(pod, ledger):
                    after = ledger.reserve(Allocation.of(pod, placement))
                    place({**nodes, name: after}, others)

    place({each.node.name: each for each in ledgers}, pods)
    return best


def a_card(seed: Random, node: str, index: int) -> Card:
    dialects = seed.choice(({DIALECT}, {OTHER}, {DIALECT, OTHER}, {DIALECT, OTHER}))
    memory = seed.choice((2, 4, 4)) * GIB
    return Card(
        f"{node}-{index}", node, index, "nvidia", "A100", memory, 4, dialects=frozenset(dialects)
    )


def a_gang(seed: Random, nodes: int, pods: int) -> tuple[list[NodeLedger], list[Request]]:
    """Pods of two dialects that fill most of some nodes, whose cards one dialect or both know."""
    ledgers: list[NodeLedger] = []
    for number in range(seed.randint(1, nodes)):
        name = f"n{number}"
        cards = tuple(a_card(seed, name, index) for index in range(seed.randint(1, 2)))
        ledgers.append(NodeLedger.of(Node(name, cards)))
    kinds: list[Request] = []
    for _ in range(seed.randint(2, 3)):
        memory, compute = seed.choice((1, 2, 3, 4)) * GIB, seed.choice((0, 0, 30, 60))
        asked = ContainerRequest("main", seed.choice((1, 1, 2)), memory, compute=compute)
        ranking = Ranking(nodes=seed.choice(((), (NodeKey.FULLEST,), (NodeKey.EMPTIEST,))))
        dialect = seed.choice((DIALECT, OTHER))
        kinds.append(Request("", "", dialect, (asked,), ranking=ranking))
    chosen = [seed.choice(kinds) for _ in range(seed.randint(2, pods))]
    return ledgers, [replace(each, uid=f"u{n}", pod=f"d/p{n}") for n, each in enumerate(chosen)]


def check(seed: Random, nodes: int, pods: int) -> tuple[int, int, int, bool]:
    """How many pods there are, fit together and were placed, and whether the plan says so."""
    ledgers, gang = a_gang(seed, nodes, pods)
    found = plan(ledgers, gang, [of(gang)])
    return len(gang), most(ledgers, gang), len(found.placed), found.is_best


@given(st.randoms(use_true_random=True))
def test_small_gangs_of_two_dialects_get_the_best_plan(seed: Random) -> None:
    number, possible, placed, is_best = check(seed, 4, 5)

    event("all fit" if possible == number else "some do not fit")
    assert placed == possible
    assert is_best


@pytest.mark.parametrize("seed", [104, 175], ids=["a pod is left out", "a state comes again"])
def test_a_gang_of_which_some_fit_gets_the_best_plan(seed: int) -> None:
    _, possible, placed, is_best = check(Random(seed), 4, 5)  # noqa: S311

    assert placed == possible
    assert is_best


@given(clusters(nodes=3), st.lists(requests(), min_size=2, max_size=3))
def test_a_plan_that_says_so_is_the_best_one_under_any_rule(
    ledgers: list[NodeLedger], asked: list[Request]
) -> None:
    pods = [replace(each, uid=f"u{n}", pod=f"d/p{n}") for n, each in enumerate(asked)]

    found = plan(ledgers, pods, [of(pods)])

    event("proven" if found.is_best else "not proven")
    assert not found.is_best or len(found.placed) == most(ledgers, pods)


def of(pods: Sequence[Request]) -> LeastNumber:
    """All of some pods are needed."""
    return LeastNumber(frozenset(each.uid for each in pods), len(pods))


def test_pods_with_a_node_each_whatever_others_get_are_placed_last() -> None:
    """All choices are tried for the others only, which are few enough then."""
    first, second = (a_request(a_container(10 * GIB, count=n), uid="") for n in (1, 2))
    many = [replace(first, uid=f"u{n}", pod=f"d/u{n}") for n in range(gang_search.PODS)]
    few = replace(second, uid="few", pod="d/few")
    ledgers = [empty(*like_cards(1, name), name=name) for name in map(str, range(13))]
    ledgers.append(empty(*like_cards(1, "x"), name="x"))

    found = plan(ledgers, [*many, few], [of([*many, few])])

    assert len(found.placed) == len(many)
    assert found.short == "d/few"
    assert found.is_best


@pytest.mark.parametrize(("pods", "steps"), [(13, 1000), (6, 3)])
def test_a_plan_of_a_search_that_was_cut_does_not_say_that_it_is_the_best(
    pods: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_search, "STEPS", steps)
    ask = a_request(a_container(9 * GIB)), a_request(a_container(10 * GIB))
    gang = [replace(ask[n % 2], uid=f"u{n}", pod=f"d/u{n}") for n in range(pods)]

    found = plan([empty(*like_cards(2))], gang, [of(gang)])

    assert len(found.placed) == 2
    assert not found.is_best


def test_many_pods_that_request_one_share_alike_need_no_search() -> None:
    ask = a_request(a_container(9 * GIB))
    gang = [replace(ask, uid=f"u{n}", pod=f"d/u{n}") for n in range(40)]

    found = plan([empty(*like_cards(30))], gang, [of(gang)])

    assert len(found.placed) == 30
    assert found.is_best


def test_what_a_pod_has_already_proves_nothing() -> None:
    asks = [replace(a_request(a_container(n * GIB)), uid=f"u{n}", pod=f"d/u{n}") for n in (9, 10)]
    ledger = empty(*like_cards(1))
    ledger = ledger.allocate(held(a_grant("c0", 9 * GIB), uid="u9"))

    assert not plan([ledger], asks, [of(asks)]).is_best


@pytest.mark.parametrize("cards", [None, frozenset({"c0", "c1"})])
def test_a_pod_of_two_dialects_cards_leaves_those_that_others_need(
    cards: frozenset[str] | None,
) -> None:
    """Neither order finds the plan; a pod with many nodes has its place in it too."""
    shared = replace(like_cards(1)[0], memory=4 * GIB, dialects=frozenset({DIALECT, OTHER}))
    node = empty(shared, replace(like_cards(2)[1], memory=2 * GIB))
    large = a_request(a_container(2 * GIB))
    large = replace(large, vendor="nvidia", allow_uuids=cards)
    small = replace(a_request(a_container(GIB)), dialect=OTHER)
    vendor = [replace(like_cards(1, name)[0], vendor="metax") for name in "defgh"]
    others = [empty(card, name=card.uuid) for card in vendor]
    asks = [large, small, small, small, replace(large, vendor="metax", allow_uuids=None)]
    pods = [replace(each, uid=f"u{n}", pod=f"d/u{n}") for n, each in enumerate(asks)]

    found = plan([node, *others], pods, [of(pods)])

    assert len(found.placed) == 5
    assert found.short == ""
