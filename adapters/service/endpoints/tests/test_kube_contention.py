"""Concurrent binds of kube-scheduler, and a store that conflicts or fails."""

import asyncio
import json
from typing import Any

import pytest

from adapters.service.endpoints.kube_extender import CONCURRENT_BINDS, KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_node,
    a_pod,
    a_service,
    decoded,
    run,
)
from adapters.service.tests.settling import run_settling, settled
from adapters.stores.store import StoreError


def test_a_write_conflict_is_retried_and_counted() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        bench.store.races = 3
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert found == {"Error": ""}
    assert bench.decision_log.conflicts == 3


def test_endless_write_conflicts_are_an_error() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        bench.store.races = 1000
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert "each time" in found["Error"]
    assert bench.cluster.bindings == 0


def test_a_store_without_an_answer_is_an_error_and_nothing_is_bound() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        bench.store.failures = [StoreError("no answer in 5 s")]
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert "no answer in 5 s" in found["Error"]
    assert bench.cluster.bindings == 0


def test_a_hundred_pods_of_eight_clients_get_each_their_own_share_of_one_node() -> None:
    async def work() -> Bench:
        pods = [a_pod(f"p{number}", memory=1000) for number in range(100)]
        bench = await a_service(a_node("n1", cards=16), pods=pods)
        kube = KubeExtender(bench.service)
        turn = asyncio.Semaphore(8)

        async def one(pod: Json) -> None:
            async with turn:
                answer = await decoded(kube.bind(bind(pod["metadata"]["name"], "n1")))
                assert answer == {"Error": ""}

        await asyncio.gather(*map(one, pods))
        return bench

    bench = run(work())

    ledger = bench.service.ledgers.inventory.ledger("n1")
    assert len(ledger.allocations) == 100
    assert not ledger.problems()
    assert bench.store.writes <= bench.cluster.bindings == 100


def test_binds_that_arrive_while_a_ledger_is_written_share_the_next_write() -> None:
    async def work() -> tuple[Bench, list[Json]]:
        pods = [a_pod(f"p{number}", memory=3000) for number in range(9)]
        bench = await a_service(a_node("n1", cards=4), pods=pods)
        kube, write_now = KubeExtender(bench.service), bench.store.write
        is_writing, others_wait = asyncio.Event(), asyncio.Event()

        async def write_later(*args: Any) -> str:
            is_writing.set()
            await others_wait.wait()
            return await write_now(*args)

        bench.store.write = write_later  # type: ignore[method-assign,assignment]
        binds = [decoded(kube.bind(bind(pod["metadata"]["name"], "n1"))) for pod in pods]
        first = asyncio.create_task(binds[0])
        await is_writing.wait()
        others = [asyncio.ensure_future(each) for each in binds[1:]]
        await asyncio.sleep(0)
        others_wait.set()
        return bench, await asyncio.gather(first, *others)

    bench, answers = run(work())

    refused = [answer["Error"] for answer in answers if answer["Error"]]
    ledger = bench.service.ledgers.inventory.ledger("n1")
    assert len(ledger.allocations) == bench.cluster.bindings == 8
    assert not ledger.problems()
    assert len(refused) == 1
    assert "memory" in refused[0]
    assert bench.store.writes == 2


def test_a_caller_that_is_cancelled_does_not_stop_the_writes_of_the_others() -> None:
    async def work() -> Bench:
        pods = [a_pod(f"p{number}", memory=1000) for number in range(3)]
        bench = await a_service(a_node("n1"), pods=pods)
        kube, writing, go = KubeExtender(bench.service), bench.store.write, asyncio.Event()

        async def later(*args: Any) -> str:
            await go.wait()
            return await writing(*args)

        bench.store.write = later  # type: ignore[method-assign,assignment]
        first, second, third = (
            asyncio.create_task(kube.bind(bind(f"p{number}", "n1"))) for number in range(3)
        )
        await settled()
        first.cancel()
        second.cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait({first, second, third})
        assert json.loads(third.result()) == {"Error": ""}
        return bench

    bench = run_settling(work())

    assert "uid-p2" in bench.service.ledgers.inventory.ledger("n1").allocations
    assert bench.cluster.bindings == 1


def a_slow_api(bench: Bench, ended: asyncio.Event) -> None:
    bind_now = bench.cluster.bind

    async def bind_later(*args: Any) -> None:
        await ended.wait()
        await bind_now(*args)

    bench.cluster.bind = bind_later  # type: ignore[method-assign,assignment]


def test_with_many_binds_in_progress_the_next_filter_waits_for_one_of_them() -> None:
    async def work() -> list[bool]:
        pods = [a_pod(f"p{number}", memory=100) for number in range(CONCURRENT_BINDS)]
        bench = await a_service(*(a_node(f"n{number}", cards=8) for number in range(4)), pods=pods)
        ended, kube = asyncio.Event(), KubeExtender(bench.service)
        a_slow_api(bench, ended)
        binds = [
            asyncio.create_task(kube.bind(bind(f"p{number}", f"n{number % 4}")))
            for number in range(CONCURRENT_BINDS)
        ]
        await settled()
        asked_now = asyncio.create_task(kube.filter(names(a_pod("next"), "n1")))
        await settled()
        before = asked_now.done()
        ended.set()
        await asyncio.gather(*binds, asked_now)
        return [before, asked_now.done()]

    assert run_settling(work()) == [False, True]


def test_a_filter_waits_for_binds_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.service.endpoints.kube_extender.FILTER_WAIT", 0.01)
    monkeypatch.setattr("adapters.service.endpoints.kube_extender.CONCURRENT_BINDS", 1)

    async def work() -> Json:
        bench = await a_service(pods=[a_pod("first")])
        ended, kube = asyncio.Event(), KubeExtender(bench.service)
        a_slow_api(bench, ended)
        binding = asyncio.create_task(kube.bind(bind("first", "n1")))
        await asyncio.sleep(0)
        found = await decoded(kube.filter(names(a_pod("next"), "n1")))
        ended.set()
        await binding
        return found

    assert run(work())["NodeNames"] == ["n1"]
