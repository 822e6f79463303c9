"""Rejections of many nodes: the same as those of each node, and little work for each node."""

import asyncio
import json
import sys
from typing import Any

from hypothesis import given

from adapters.service.decide.advice.feasibility import reject
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.tests.builders import a_node, a_pod, a_service, read_pod, run
from core.feasibility.cache import FeasibilityCache
from core.feasibility.inventory import Inventory, NodeNames
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.request import Request
from core.tests.strategies import clusters, requests


@given(clusters(), requests(uid="n0.0"))
def test_each_node_has_the_rejection_that_it_has_alone(
    ledgers: list[NodeLedger], request: Request
) -> None:
    inventory = Inventory(ledgers)
    evaluation = FeasibilityCache().evaluate(request, inventory, {"broken"})
    names = [*inventory.names(), "unknown", "broken", *inventory.names(), "unknown", "broken"]
    evaluation.classify(inventory.rows(names), len(names))

    found = reject(evaluation, NodeNames(names))

    alone = evaluation.rejections(names)
    assert list(found.names) == [name for name in names if name in alone]
    known = [(each.reason.text(), each.unresolvable) for each in found.distinct]
    expected = [(alone[name].reason.text(), alone[name].unresolvable) for name in found.names]
    assert found.by_node(known) == expected
    assert sum(nodes for _, nodes in found.counts()) == len(found.names)
    for unresolvable in (True, False):
        part = found.where(unresolvable=unresolvable)
        assert list(part.names) == [
            name for name in found.names if alone[name].unresolvable is unresolvable
        ]
        assert len(part.of_node) == len(part.names)


def calls_of_a_filter(nodes: int) -> int:
    """How many functions a filter that fits nowhere calls, those of C included."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def work() -> dict[str, Any]:
        names = [f"n{number}" for number in range(nodes)]
        bench = await a_service(*(a_node(name) for name in names))
        extender = KubeExtender(bench.service)
        pods = [a_pod(name, memory=99_999) for name in ("first", "second")]
        first, second = (json.dumps({"Pod": p, "NodeNames": names}).encode() for p in pods)
        await extender.filter(first)  # which finds the classes of the nodes
        sys.setprofile(count)
        try:
            answer: dict[str, Any] = json.loads(await extender.filter(second))
            return answer
        finally:
            sys.setprofile(None)

    found = asyncio.run(work())
    assert found["NodeNames"] == []
    assert len(found["FailedAndUnresolvableNodes"]) == nodes
    return calls


def test_a_filter_that_fits_nowhere_calls_at_most_two_functions_for_each_node() -> None:
    few, many = calls_of_a_filter(100), calls_of_a_filter(1_100)

    assert many - few < 2 * 1_000


def test_a_node_that_fits_meanwhile_has_no_rejection() -> None:
    async def work() -> list[str]:
        bench = await a_service(a_node("fits"), a_node("small", memory=100 * MIB))
        pod_request = bench.service.pod_requests.read(read_pod(a_pod(memory=1000)))
        assert pod_request is not None
        evaluation = bench.service.feasibility.evaluate(pod_request)
        names = NodeNames(["fits", "small", "fits"])
        evaluation.classify(names.rows(evaluation.inventory), len(names))
        return list(reject(evaluation, names).names)

    assert run(work()) == ["small"]
