"""Many pods, one after another: results that are kept must decide as if nothing were kept."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given

from core.feasibility.cache import FeasibilityCache
from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory, NodeNames
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import node_value
from core.requests.grant import Allocation, Placement
from core.requests.reason import Cause, Reason
from core.requests.request import Request
from core.tests.builders import a_request, cards_of, empty, like_cards
from core.tests.strategies import a_random_ledger, a_random_request, clusters, requests, seeds

UNKNOWN = "unknown"


def obvious(
    request: Request, names: Sequence[str], ledgers: dict[str, NodeLedger]
) -> tuple[Placement | None, dict[str, Reason]]:
    """The oracle: fit every node, keep the first of the best, and every reason."""
    best: tuple[tuple[int, ...], Placement] | None = None
    reasons: dict[str, Reason] = {}
    for name in names:
        ledger = ledgers.get(name)
        if ledger is None:
            reasons[name] = Reason(name, 0, cause=Cause.NO_CARDS)
            continue
        result = fit(request, ledger)
        if isinstance(result, Reason):
            reasons[name] = result
            continue
        values = tuple(node_value(key, request, ledger, result) for key in request.ranking.nodes)
        if best is None or values > best[0]:
            best = (values, result)
    return (None if best is None else best[1]), reasons


def some_workloads(seed: Random) -> list[Request]:
    """Pods of a few workloads in any order: those of one workload ask for the same."""
    templates = [a_random_request(seed, f"w{number}", 2) for number in range(seed.randint(1, 4))]
    pods = [(number, seed.choice(templates)) for number in range(20)]
    return [
        replace(template, uid=f"p{number}", pod=f"default/p{number}") for number, template in pods
    ]


@given(seeds)
def test_each_pod_gets_the_node_the_cards_and_the_reasons_of_an_evaluation_without_memory(
    seed: Random,
) -> None:
    ledgers = {f"n{n}": a_random_ledger(seed, f"n{n}", 3, 3) for n in range(seed.randint(1, 6))}
    inventory, cache = Inventory(ledgers.values()), FeasibilityCache()
    orders = [[*ledgers, UNKNOWN], [*reversed(ledgers)]]
    selections = [NodeNames(order) for order in orders]

    for request in some_workloads(seed):
        which = seed.randrange(2)
        explain = seed.random() < 0.5
        decision = cache.evaluate(request, inventory).decide(selections[which], explain=explain)
        placement, reasons = obvious(request, orders[which], ledgers)

        assert decision.placement == placement
        assert dict(decision.reasons) == ({} if placement and not explain else reasons)
        if placement is not None:
            ledger = ledgers[placement.node].reserve(Allocation.of(request, placement))
            ledgers[placement.node] = ledger
            inventory.put(ledger)


def test_a_selection_follows_the_nodes_that_come_and_go() -> None:
    inventory, cache = Inventory([empty(*like_cards(1, "b"), name="b")]), FeasibilityCache()
    selection = NodeNames(["a", "b"])

    first = cache.evaluate(a_request(), inventory).best(selection)
    inventory.put(empty(*like_cards(1, "a"), name="a"))
    second = cache.evaluate(a_request(uid="second"), inventory).best(selection)
    inventory.remove("b")
    other = Inventory([empty(*like_cards(1, "z"), name="z")])
    third = cache.evaluate(a_request(uid="third"), inventory).best(selection)

    assert (cards_of(first), cards_of(second), cards_of(third)) == (["b0"], ["a0"], ["a0"])
    assert cache.evaluate(a_request(uid="fourth"), other).best(selection) is None


@given(clusters(), requests())
def test_an_explanation_without_a_selection_is_of_all_nodes(
    ledgers: list[NodeLedger], request: Request
) -> None:
    inventory = Inventory(ledgers)

    reasons = FeasibilityCache().evaluate(request, inventory).explain()

    by_name = {ledger.node.name: ledger for ledger in ledgers}
    assert dict(reasons) == obvious(request, [*by_name], by_name)[1]
    assert len(reasons) == len(list(reasons))
