from dataclasses import replace

from hypothesis import given

from core.feasibility.cache import FeasibilityCache
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory, NodeNames
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import node_value
from core.requests.decision import Decision, NodeReasons
from core.requests.grant import Placement
from core.requests.reason import Cause, Reason
from core.requests.request import NodeKey, Ranking, Request
from core.tests.builders import (
    a_container,
    a_grant,
    a_ledger,
    a_request,
    cards_of,
    held,
    placed,
)
from core.tests.strategies import clusters, requests


def obvious(request: Request, ledgers: list[NodeLedger]) -> Decision:
    """The oracle: fit every node, keep the first of the best."""
    best: tuple[tuple[int, ...], Placement] | None = None
    reasons: dict[str, Reason] = {}
    for ledger in ledgers:
        alone = ledger.release(request.uid)
        result = fit(request, alone)
        if isinstance(result, Reason):
            reasons[ledger.node.name] = result
            continue
        values = tuple(node_value(key, request, alone, result) for key in request.ranking.nodes)
        if best is None or values > best[0]:
            best = (values, result)
    return Decision(None if best is None else best[1], NodeReasons.of(reasons))


def evaluated(request: Request, inventory: Inventory) -> NodeEvaluation:
    return FeasibilityCache().evaluate(request, inventory)


@given(clusters(), requests(uid="n0.0"))
def test_the_decision_is_the_obvious_one(ledgers: list[NodeLedger], request: Request) -> None:
    decision = evaluated(request, Inventory(ledgers)).decide(explain=True)

    assert decision == obvious(request, ledgers)


@given(clusters(), requests())
def test_the_order_of_the_names_breaks_ties(ledgers: list[NodeLedger], request: Request) -> None:
    names = [ledger.node.name for ledger in reversed(ledgers)]

    decision = evaluated(request, Inventory(ledgers)).decide(NodeNames(names), explain=True)

    assert decision == obvious(request, ledgers[::-1])


@given(clusters(), requests())
def test_reasons_come_unasked_only_when_nothing_fits(
    ledgers: list[NodeLedger], request: Request
) -> None:
    decision = evaluated(request, Inventory(ledgers)).decide()

    expected = obvious(request, ledgers)
    assert decision.placement == expected.placement
    assert decision.reasons == ({} if expected.placement else expected.reasons)


def test_binpack_prefers_a_full_node_and_spread_an_empty_one() -> None:
    inventory = Inventory([a_ledger("n0"), a_ledger("n1").adopt(held(a_grant("n1-0"), node="n1"))])
    pack = replace(a_request(), ranking=Ranking(nodes=(NodeKey.FULLEST,)))
    spread = replace(a_request(), ranking=Ranking(nodes=(NodeKey.EMPTIEST,)))

    assert cards_of(evaluated(pack, inventory).decide().placement) == ["n1-0"]
    assert cards_of(evaluated(spread, inventory).decide().placement) == ["n0-0"]


def test_a_placement_moves_on_once_the_ledger_has_it() -> None:
    inventory = Inventory([a_ledger("n0"), a_ledger("n1")])
    request = replace(
        a_request(a_container(16 * GIB, count=2)), ranking=Ranking(nodes=(NodeKey.CHOSEN_FULLEST,))
    )
    first = evaluated(request, inventory).decide().placement
    inventory.put(placed(inventory.ledger("n0"), request, first))

    second = evaluated(replace(request, uid="next"), inventory).decide().placement

    assert cards_of(first) == ["n0-0", "n0-1"]
    assert cards_of(second) == ["n1-0", "n1-1"]


def test_among_nodes_of_equal_load_the_chosen_cards_decide() -> None:
    keys = (NodeKey.EMPTIEST, NodeKey.CHOSEN_FULLEST)
    inventory = Inventory([a_ledger("n0", memory=32 * GIB), a_ledger("n1")])
    request = replace(a_request(), ranking=Ranking(nodes=keys))

    assert cards_of(evaluated(request, inventory).decide().placement) == ["n1-0"]


def test_an_unknown_node_has_no_cards() -> None:
    decision = evaluated(a_request(), Inventory()).decide(NodeNames(["ghost"]))

    assert decision.placement is None
    assert decision.reasons == {"ghost": Reason("ghost", 0, cause=Cause.NO_CARDS)}


def test_every_refusing_node_gets_a_reason_under_its_own_name() -> None:
    inventory = Inventory([a_ledger("n0"), a_ledger("n1")])

    decision = evaluated(a_request(a_container(17 * GIB)), inventory).decide()

    assert {name: reason.node for name, reason in decision.reasons.items()} == {
        "n0": "n0",
        "n1": "n1",
    }


def test_denied_uuids_reject_one_node_and_not_another_of_its_class() -> None:
    inventory = Inventory([a_ledger("n0"), a_ledger("n1")])
    request = replace(a_request(), deny_uuids=frozenset({"n0-0", "n0-1"}))

    decision = evaluated(request, inventory).decide(explain=True)

    assert cards_of(decision.placement) == ["n1-0"]
    assert list(decision.reasons) == ["n0"]
