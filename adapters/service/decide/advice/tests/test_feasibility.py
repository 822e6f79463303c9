"""Evaluations by name, while ledgers change and nodes come and go."""

import asyncio
from dataclasses import replace

import pytest

from adapters.accounting.pod_requests import CACHED_BYTES, LARGEST_POD, PodRequest
from adapters.service.decide.advice import feasibility as feasibility_module
from adapters.service.tests.builders import Bench, a_node, a_pod, a_service, read_pod, run
from adapters.stores.store import Change
from core.feasibility.inventory import NodeNames
from core.hardware.quantity import MIB


def a_request_of(bench: Bench, memory: int = 1000) -> PodRequest:
    found = bench.service.pod_requests.read(read_pod(a_pod("p", memory=memory)))
    assert found is not None
    return found


def test_names_are_answered_in_their_order_and_unknown_ones_do_not_fit() -> None:
    async def work() -> list[bool]:
        bench = await a_service(a_node("n1"), a_node("small", memory=500 * MIB))
        names = NodeNames(["unknown", "n1", "small", "n1"])
        fits = await bench.service.feasibility.fitting(a_request_of(bench), names)
        return list(fits.tolist())

    assert run(work()) == [False, True, False, True]


def test_ranks_are_in_the_order_of_the_names() -> None:
    async def work() -> list[int]:
        bench = await a_service(a_node("n1"), a_node("small", memory=500 * MIB))
        names = NodeNames(["small", "n1"])
        ranks = bench.service.feasibility.ranks(a_request_of(bench), names)
        assert ranks is not None
        return list(ranks.tolist())

    assert run(work()) == [0, 1]


def test_the_rows_of_one_question_follow_the_nodes_that_are_removed() -> None:
    async def work() -> tuple[list[int], list[int], bool]:
        bench = await a_service(a_node("n1"), a_node("n2"))
        ledgers, names = bench.service.ledgers, NodeNames(["n1", "n2"])
        before = names.rows(ledgers.inventory)
        same = names.rows(ledgers.inventory) is before
        ledgers.apply(Change("n1", None))
        return before.tolist(), names.rows(ledgers.inventory).tolist(), same

    before, after, same = run(work())
    assert (before, after, same) == ([0, 1], [1, 0], True)


def test_nodes_may_be_removed_while_a_filter_lets_other_calls_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> list[bool]:
        bench = await a_service(*(a_node(f"n{number}", cards=number) for number in range(1, 5)))
        pod = a_request_of(bench)
        linked = tuple(replace(each, linked=True) for each in pod.request.containers)
        pod = replace(pod, request=replace(pod.request, containers=linked))
        names = NodeNames(["n1", "n2", "n3", "n4"])
        request = asyncio.ensure_future(bench.service.feasibility.fitting(pod, names))
        await asyncio.sleep(0)
        assert not request.done()
        bench.service.ledgers.apply(Change("n2", None))
        return list((await request).tolist())

    monkeypatch.setattr(feasibility_module, "STEP", 1)
    assert run(work()) == [True, False, True, True]


def test_a_node_whose_ledger_cannot_be_read_is_rejected_for_that() -> None:
    async def work() -> tuple[bool, str, bool]:
        bench = await a_service(a_node("n1"))
        bench.service.ledgers.apply(Change("n1", None, "not JSON"))
        evaluation = bench.service.feasibility.evaluate(a_request_of(bench))
        rejection = evaluation.rejection("n1")
        assert rejection is not None
        return evaluation.fits("n1"), rejection.reason.text(), rejection.unresolvable

    fits, text, unresolvable = run(work())
    assert (fits, text, unresolvable) == (
        False,
        "held by an allocation that cannot be read",
        False,
    )


def test_evaluations_of_large_pods_are_not_kept() -> None:
    async def work() -> int:
        bench = await a_service(a_node("n1"))
        text = "x" * (LARGEST_POD - 1000)
        for number in range(2 * CACHED_BYTES // LARGEST_POD):
            plain = {**a_pod(f"p{number}"), "status": {"containerStatuses": [{"name": text}]}}
            found = bench.service.pod_requests.read(read_pod(plain))
            assert found is not None
            bench.service.feasibility.evaluate(found)
        return len(bench.service.feasibility._evaluations)

    assert run(work()) <= CACHED_BYTES // LARGEST_POD + 2
