"""Plans for several pods beside what each node has room for."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.feasibility.cache import FeasibilityCache, request_signature
from core.feasibility.fit import fit
from core.feasibility.gang_plan import GangPlan, place_together
from core.feasibility.gang_search import Candidate, LeastNumber
from core.feasibility.inventory import Inventory, NodeNames
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.request import NodeKey, Ranking, Request
from core.tests.builders import a_container, a_request, empty, like_cards
from core.tests.strategies import clusters, requests


def plan(
    ledgers: Sequence[NodeLedger], *pods: Request, names: Sequence[str] | None = None
) -> GangPlan:
    inventory, cache = Inventory(ledgers), FeasibilityCache()
    named = NodeNames(inventory.names() if names is None else names)
    evaluated = {request_signature(pod): cache.evaluate(pod, inventory) for pod in pods}
    return place_together(
        [Candidate(pod, evaluated[request_signature(pod)], named) for pod in pods]
    )


def alike(request: Request, count: int) -> list[Request]:
    return [replace(request, uid=f"u{n}", pod=f"default/p{n}") for n in range(count)]


def room(ledger: NodeLedger, request: Request, most: int) -> int:
    """How many pods a node has room for, at most some."""
    for number, pod in enumerate(alike(request, most)):
        placement = fit(pod, ledger)
        if not isinstance(placement, Placement):
            return number
        ledger = ledger.reserve(Allocation.of(pod, placement))
    return most


@given(clusters(nodes=4, most=2), requests(), st.integers(1, 5))
def test_pods_that_request_alike_fill_every_node(
    ledgers: list[NodeLedger], request: Request, count: int
) -> None:
    found = plan(ledgers, *alike(request, count))

    assert len(found.placed) == min(count, sum(room(each, request, count) for each in ledgers))
    assert bool(found.short) == (len(found.placed) < count) == bool(found.reason)


@given(
    clusters(nodes=3, most=3),
    st.lists(requests(), min_size=1, max_size=4),
    st.sets(st.integers(0, 2)),
)
def test_all_pods_of_a_plan_fit_beside_each_other_where_they_may_go(
    ledgers: list[NodeLedger], asked: list[Request], allowed: set[int]
) -> None:
    pods = [replace(each, uid=f"u{n}", pod=f"default/p{n}") for n, each in enumerate(asked)]
    names = [each.node.name for n, each in enumerate(ledgers) if n in allowed]
    after = {each.node.name: each for each in ledgers}

    found = plan(ledgers, *pods, names=names)

    assert {to.node for to in found.placed.values()} <= {*names}
    for uid, to in found.placed.items():
        (pod,) = [each for each in pods if each.uid == uid]
        after[to.node] = after[to.node].reserve(Allocation.of(pod, to))


def test_a_pod_with_few_nodes_goes_first_where_it_would_find_no_room() -> None:
    """The larger pod fits both nodes, and takes the only card of the smaller one's vendor first."""
    only = a_request(a_container(memory=9 * GIB), uid="only")
    only = replace(only, allow_uuids=frozenset(("a0",)))
    large = a_request(a_container(memory=10 * GIB), uid="large")
    ledgers = [empty(*like_cards(1, "a"), name="a"), empty(*like_cards(1, "b"), name="b")]

    found = plan(ledgers, large, only)

    assert {uid: to.node for uid, to in found.placed.items()} == {"large": "b", "only": "a"}
    assert found.short == ""


def test_pods_that_spread_go_to_different_nodes() -> None:
    request = replace(
        a_request(a_container(memory=GIB)), ranking=Ranking(nodes=(NodeKey.EMPTIEST,))
    )
    ledgers = [empty(*like_cards(2, name), name=name) for name in "ab"]

    found = plan(ledgers, *alike(request, 3))

    assert sorted(to.node for to in found.placed.values()) == ["a", "a", "b"]


@pytest.mark.parametrize("key", [NodeKey.FULLEST, NodeKey.CHOSEN_FULLEST])
def test_pods_that_pack_go_to_one_node(key: NodeKey) -> None:
    request = replace(a_request(a_container(memory=GIB)), ranking=Ranking(nodes=(key,)))
    ledgers = [empty(*like_cards(2, name), name=name) for name in "ab"]

    found = plan(ledgers, *alike(request, 2))

    assert len({to.node for to in found.placed.values()}) == 1


def test_the_first_pod_without_room_is_named_with_what_is_short() -> None:
    request = a_request(a_container(memory=10 * GIB))
    found = plan([empty(*like_cards(1, "a"), name="a")], *alike(request, 2))
    nowhere = plan([empty(*like_cards(1, "a"), name="a")], *alike(request, 1), names=())

    assert found.short == "default/p1"
    assert found.reason == "a: 1 of 1 cards: memory 4 GiB short"
    assert nowhere.reason == "no node to choose from"


@pytest.mark.parametrize("memory", [9, 7, 3])
def test_the_node_that_is_named_is_the_one_that_lacks_least(memory: int) -> None:
    """It may be one that the plan did not change."""
    request = a_request(a_container(memory=10 * GIB))
    room = empty(*like_cards(1, "a"), name="a")
    near = empty(replace(like_cards(1, "b")[0], memory=memory * GIB), name="b")
    far = empty(replace(like_cards(1, "c")[0], memory=GIB), name="c")

    found = plan([room, far, near], *alike(request, 2))

    node, short = ("b", 10 - memory) if memory > 6 else ("a", 4)
    assert found.reason == f"{node}: 1 of 1 cards: memory {short} GiB short"


@given(st.permutations(["a0", "a1", "a2", "b0", "b1", "c0"]), st.integers(0, 6))
def test_least_numbers_are_placed_stage_by_stage_before_all_others(
    names: list[str], cards: int
) -> None:
    """Tasks a and b need one pod each, and three together; c has no least number."""
    pods = [
        replace(a_request(a_container(10 * GIB)), uid=f"{place}{name}", pod=f"default/{name}")
        for place, name in enumerate(names)
    ]
    of = {letter: frozenset(p.uid for p in pods if letter in p.pod[8:]) for letter in "abc"}
    tasks = LeastNumber(of["a"], 1), LeastNumber(of["b"], 1)
    three = LeastNumber(of["a"] | of["b"], 3)
    needs = (replace(three, within=tasks),)
    inventory, cache = Inventory([empty(*like_cards(cards))] if cards else []), FeasibilityCache()
    evaluated, named = cache.evaluate(pods[0], inventory), NodeNames(inventory.names())

    found = place_together([Candidate(pod, evaluated, named) for pod in pods], needs)

    placed = frozenset(found.placed)
    assert len(placed) == cards
    assert sum(each.lacks(placed) for each in tasks) == max(0, 2 - cards)
    assert three.lacks(placed) == max(0, 3 - cards)
