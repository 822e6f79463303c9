"""Every answer of the evaluation against ``fit`` on every node."""

from collections.abc import Iterable
from dataclasses import fields, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.feasibility import cache as cache_module
from core.feasibility import evaluation as evaluation_module
from core.feasibility import inventory as table_module
from core.feasibility.cache import FeasibilityCache
from core.feasibility.evaluation import NodeEvaluation, Rejection
from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory, NodeNames
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import node_value
from core.requests.decision import NodeReasons
from core.requests.grant import Placement
from core.requests.reason import Cause, Reason
from core.requests.request import NodeKey, Ranking, Request
from core.tests.builders import a_container, a_grant, a_ledger, a_request, empty, held, like_cards
from core.tests.strategies import clusters, requests

UNKNOWN = "unknown"

USED = [
    a_ledger("n0", 2).adopt(held(a_grant("n0-0", 12 * GIB), uid="n0.0", node="n0")),
    a_ledger("n1", 2).adopt(held(a_grant("n1-0", 12 * GIB), node="n1")),
    a_ledger("n2", 1).adopt(held(a_grant("n2-0", 12 * GIB), node="n2")),
    a_ledger("n3", 1, GIB),
]
"""The pod of the request holds a card, another pod does, no card is left, a card is too small."""

TWO = a_request(a_container(8 * GIB, name="a"), a_container(7 * GIB, name="b"), uid="n0.0")
BY_UUID = replace(TWO, allow_uuids=frozenset({"n0-0", "n1-0", "n3-0"}))


def obvious(request: Request, ledgers: Iterable[NodeLedger]) -> dict[str, tuple[int, ...] | Reason]:
    """By node, its values by each criterion, or why the request does not fit it."""
    results: dict[str, tuple[int, ...] | Reason] = {}
    for ledger in ledgers:
        alone = ledger.release(request.uid)
        result = fit(request, alone)
        results[ledger.node.name] = (
            result
            if isinstance(result, Reason)
            else tuple(node_value(key, request, alone, result) for key in request.ranking.nodes)
        )
    return results


def check(evaluation: NodeEvaluation, ledgers: Iterable[NodeLedger]) -> None:
    """Every answer of an evaluation is the obvious one."""
    request, inventory = evaluation.request, evaluation.inventory
    truth = obvious(request, ledgers)
    values = {name: found for name, found in truth.items() if not isinstance(found, Reason)}
    asked = [*reversed(inventory.names()), UNKNOWN]
    rows = inventory.rows(asked)

    assert evaluation.fitting(rows).tolist() == [name in values for name in asked]
    assert [name for name in asked if evaluation.fits(name)] == [n for n in asked if n in values]
    assert {name: evaluation.values(name) for name in asked} == {n: values.get(n) for n in asked}
    ranks = dict(zip(asked, evaluation.ranks(rows).tolist(), strict=True))
    order = {value: rank for rank, value in enumerate(sorted(set(values.values())), 1)}
    assert ranks == {name: order[values[name]] if name in values else 0 for name in asked}
    reasons = evaluation.reasons(asked)
    assert reasons.pop(UNKNOWN) == Reason(UNKNOWN, 0, cause=Cause.NO_CARDS)
    assert reasons == {n: found for n, found in truth.items() if isinstance(found, Reason)}
    assert dict(evaluation.explain(NodeNames(asked))) == evaluation.reasons(asked)
    best = evaluation.best(NodeNames(asked))
    first = max((n for n in asked if n in values), key=lambda name: values[name], default=None)
    assert (None if best is None else best.node) == first


keys = st.lists(st.sampled_from(NodeKey), max_size=3, unique=True).map(tuple)


@given(clusters(), requests(uid="n0.0"), keys)
@example(USED, TWO, (NodeKey.FULLEST,))
@example(USED, BY_UUID, ())
def test_every_answer_is_that_of_asking_each_node(
    ledgers: list[NodeLedger], request: Request, keys: tuple[NodeKey, ...]
) -> None:
    cache, inventory = FeasibilityCache(), Inventory(ledgers)
    request = replace(request, ranking=replace(request.ranking, nodes=keys))

    check(cache.evaluate(request, inventory), inventory)
    check(cache.evaluate(request, inventory), inventory)  # with the results of the first
    other = replace(request, uid="other", pod="default/other")
    check(cache.evaluate(other, inventory), inventory)


CONSTRAINTS = [
    field.name
    for field in fields(Request)
    if field.name not in {"uid", "pod", "dialect", "containers", "ranking", "plugin", "notes"}
]
"""Fields of a request that can exclude a node; a new field is one of them."""


@given(clusters(), requests(containers=1, plain=0))
def test_each_constraint_counts_where_it_is_the_only_one(
    ledgers: list[NodeLedger], request: Request
) -> None:
    cache, inventory = FeasibilityCache(), Inventory(ledgers)
    small = a_container(memory=GIB // 2)
    bare = Request(request.uid, request.pod, request.dialect, (small,))

    for field in CONSTRAINTS:
        alone = replace(bare, **{field: getattr(request, field)})
        check(cache.evaluate(alone, inventory), inventory)


@given(clusters(), clusters(), requests(uid="n0.0"), st.sampled_from([f"n{n}" for n in range(6)]))
def test_results_follow_the_ledgers(
    before: list[NodeLedger], after: list[NodeLedger], request: Request, gone: str
) -> None:
    cache, inventory = FeasibilityCache(), Inventory(before)
    check(cache.evaluate(request, inventory), inventory)

    for ledger in after:
        inventory.put(ledger)
        check(cache.evaluate(request, inventory), inventory)
    inventory.remove(gone)

    check(cache.evaluate(request, inventory), inventory)


@given(clusters(), clusters(), requests())
def test_results_of_one_inventory_are_not_given_for_another(
    ledgers: list[NodeLedger], others: list[NodeLedger], request: Request
) -> None:
    cache, first, second = FeasibilityCache(), Inventory(ledgers), Inventory(others)

    check(cache.evaluate(request, first), first)
    check(cache.evaluate(request, second), second)


@given(clusters(), requests(), st.integers(1, 3))
@example(USED, TWO, 1)
@example(USED, replace(TWO, uid="new"), 9)
@example(USED, BY_UUID, 1)
def test_warming_in_steps_changes_no_answer(
    ledgers: list[NodeLedger], request: Request, step: int
) -> None:
    cache, inventory = FeasibilityCache(), Inventory(ledgers)
    rows = inventory.rows()

    turns = 1
    while not cache.evaluate(request, inventory).warm(rows, step):
        turns += 1

    assert turns <= 1 + len(inventory)
    check(cache.evaluate(request, inventory), inventory)


@given(clusters(), requests(uid="n0.0"))
@example(USED, TWO)
@example(USED, BY_UUID)
def test_unresolvable_means_that_the_empty_node_is_too_small(
    ledgers: list[NodeLedger], request: Request
) -> None:
    inventory = Inventory(ledgers)
    nodes = {ledger.node.name: ledger.node for ledger in ledgers}

    rejections = FeasibilityCache().evaluate(request, inventory).rejections(nodes)

    truth = obvious(request, ledgers)
    assert set(rejections) == {n for n, found in truth.items() if isinstance(found, Reason)}
    for name, rejection in rejections.items():
        alone = fit(request, NodeLedger.of(nodes[name]))
        assert rejection.reason.node == name
        assert rejection.unresolvable == isinstance(alone, Reason)


@given(clusters(), requests(uid="n0.0"), st.sampled_from([1, 100]))
@example(USED, TWO, 1)
@example(USED, BY_UUID, 1)
def test_nodes_of_one_group_are_rejected_alike(
    ledgers: list[NodeLedger], request: Request, step: int
) -> None:
    inventory = Inventory(ledgers)
    evaluation = FeasibilityCache().evaluate(request, inventory, {"broken"})
    names = [*inventory.names(), UNKNOWN, "broken", UNKNOWN]
    rows = inventory.rows(names)

    while not evaluation.classify(rows, step):
        pass

    by_group: dict[int, set[Rejection | None]] = {}
    rejections = evaluation.rejections(names)
    for name, group in zip(names, evaluation.groups(rows).tolist(), strict=True):
        found = rejections.get(name)
        bare = found and replace(found, reason=replace(found.reason, node=""))
        by_group.setdefault(group, set()).add(bare)
    assert all(len(alike) == 1 for alike in by_group.values())


def test_unknown_nodes_are_one_group() -> None:
    evaluation = FeasibilityCache().evaluate(a_request(), Inventory())
    rows = evaluation.inventory.rows(["a", "b"])

    assert evaluation.classify(rows, 0)
    assert len(set(evaluation.groups(rows).tolist())) == 1


def test_two_containers_are_evaluated_together() -> None:
    request = a_request(a_container(name="a"), a_container(name="b"))
    inventory = Inventory([empty(*like_cards(1))])

    evaluation = FeasibilityCache().evaluate(request, inventory)

    assert evaluation.fitting(inventory.rows(["n"])).tolist() == [True]


def test_a_node_whose_ledger_cannot_be_read_may_fit_once_it_can() -> None:
    evaluation = FeasibilityCache().evaluate(a_request(), Inventory(), {"broken"})

    rejections = evaluation.rejections(["broken", UNKNOWN])

    assert not evaluation.fits("broken")
    assert evaluation.fitting(evaluation.inventory.rows(["broken"])).tolist() == [False]
    assert rejections["broken"].reason == Reason("broken", 0, cause=Cause.BLOCKED)
    assert not rejections["broken"].unresolvable
    assert rejections[UNKNOWN].unresolvable
    assert evaluation.rejection("broken") == rejections["broken"]


def test_a_node_that_fits_has_no_rejection() -> None:
    inventory = Inventory([empty(*like_cards(1))])

    assert FeasibilityCache().evaluate(a_request(), inventory).rejection("n") is None


def full(name: str, holders: int) -> NodeLedger:
    """A node with one card that is full; the holders make it a class of its own."""
    ledger = empty(*like_cards(1, f"{name}-"), name=name)
    for number in range(holders):
        share = a_grant(f"{name}-0", 16 * GIB // holders)
        ledger = ledger.adopt(held(share, uid=f"{name}.{number}", node=name))
    return ledger


def test_reasons_of_all_nodes_share_the_names_of_the_selection() -> None:
    """A run keeps reasons of thousands of pods; the names of its nodes are most of their memory."""
    ledgers = [empty(*like_cards(1), name=name) for name in "ab"]
    selection = NodeNames(("b", "a"))

    def reasons(memory: int) -> NodeReasons:
        request = a_request(a_container(memory))
        return FeasibilityCache().evaluate(request, Inventory(ledgers)).explain(selection)

    first, second = reasons(1 << 60), reasons(1 << 50)
    assert first.names is selection.names
    assert second.names is first.names


def test_past_a_number_of_classes_a_reason_has_no_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_module, "EXPLAINED", 1)
    inventory = Inventory([full("n0", 1), full("n1", 2), full("n2", 1)])
    cache = FeasibilityCache()

    rejections = cache.evaluate(a_request(), inventory).rejections(inventory.names())

    bare = Reason("n1", 1, cause=Cause.TOO_FEW_FIT)
    assert rejections["n1"].reason == bare
    assert rejections["n0"].reason.counts == rejections["n2"].reason.counts != ()
    cache.evaluate(a_request(), inventory).rejection("n1")
    again = cache.evaluate(a_request(), inventory).rejections(inventory.names())
    assert again["n1"].reason.counts != ()


def test_pods_that_ask_for_the_same_share_their_results() -> None:
    inventory = Inventory([full(f"n{number}", 1) for number in range(3)])
    cache = FeasibilityCache()
    request = a_request(replace(a_container(), linked=True))
    first = cache.evaluate(replace(request, uid="a", pod="x/a", priority=5), inventory)
    first.warm(inventory.rows(), 1)

    second = cache.evaluate(replace(request, uid="b", notes=("noted",)), inventory)

    assert second.warm(inventory.rows(), 0)


@pytest.mark.parametrize(("module", "name"), [("cache", "SIGNATURES"), ("table", "CLASSES")])
def test_what_is_kept_is_bounded_and_answers_stay_right(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    monkeypatch.setattr({"cache": cache_module, "table": table_module}[module], name, 1)
    two_cards = empty(*like_cards(2, "two-"), name="two")
    inventory = Inventory([two_cards, *(full(f"n{number}", number % 4) for number in range(1, 8))])
    cache = FeasibilityCache()

    for memory in (GIB, 17 * GIB, GIB, 17 * GIB):
        for ranking in (Ranking(), Ranking(nodes=(NodeKey.CHOSEN_FULLEST,))):
            container = replace(a_container(memory), linked=True)
            request = replace(a_request(container), ranking=ranking)
            check(cache.evaluate(request, inventory), inventory)
            rejections = cache.evaluate(request, inventory).rejections(inventory.names())
            forever = {name for name, one in rejections.items() if one.unresolvable}
            assert forever == (set(inventory.names()) if memory > 16 * GIB else set())


def test_past_a_number_of_results_only_the_newest_signature_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache_module, "RESULTS", 0)
    inventory = Inventory([empty(*like_cards(1))])
    cache = FeasibilityCache()
    containers = [replace(a_container(memory), linked=True) for memory in (GIB, 2 * GIB)]
    one, other = (cache.evaluate(a_request(container), inventory) for container in containers)
    assert one.fits("n")
    assert other.fits("n")

    cache.evaluate(a_request(containers[1]), inventory)

    assert not cache.evaluate(a_request(containers[0]), inventory).warm(inventory.rows(), 0)


def test_the_best_of_a_pod_with_cards_is_where_it_fits_without_them() -> None:
    mine = held(a_grant("n0-0", 16 * GIB), uid="p", node="n0")
    inventory = Inventory([empty(*like_cards(1, "n0-"), name="n0").adopt(mine), full("n1", 1)])
    request = a_request(uid="p")

    best = FeasibilityCache().evaluate(request, inventory).best()

    assert isinstance(best, Placement)
    assert best.node == "n0"


@pytest.mark.parametrize("key", [NodeKey.FULLEST, NodeKey.EMPTIEST])
def test_free_capacity_alone_ranks_nodes_by_their_load(key: NodeKey) -> None:
    idle, busy = (empty(*like_cards(2, f"{name}-"), name=name) for name in ("idle", "busy"))
    ledgers = [idle, busy.adopt(held(a_grant("busy-0"), node="busy"))]
    request = replace(a_request(), ranking=Ranking(nodes=(key,)))

    check(FeasibilityCache().evaluate(request, Inventory(ledgers)), ledgers)


def test_warming_leaves_out_the_nodes_where_the_pod_holds_cards() -> None:
    mine = held(a_grant("n0-0", 16 * GIB), uid="p", node="n0")
    inventory = Inventory([empty(*like_cards(1, "n0-"), name="n0").adopt(mine), full("n1", 1)])
    request = a_request(replace(a_container(), linked=True), uid="p")
    evaluation = FeasibilityCache().evaluate(request, inventory)

    assert evaluation.warm(inventory.rows(), 0)
    check(evaluation, inventory)
