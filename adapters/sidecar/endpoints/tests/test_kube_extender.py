"""The answers to kube-scheduler and koord-scheduler."""

import asyncio
import json
import tracemalloc
from typing import Any

import pytest

from adapters.sidecar.decide.ports import BindError, Outcome
from adapters.sidecar.decide.readiness import NotReady
from adapters.sidecar.endpoints.kube_extender import CONCURRENT_BINDS, KubeExtender
from adapters.sidecar.tests.builders import (
    Bench,
    Json,
    a_metax_node,
    a_node,
    a_pod,
    a_service,
    body,
    capture,
    decoded,
    read_pod,
    run,
)
from adapters.stores.store import StoreError
from adapters.wire.body import BodyError


def names(pod: Json, *nodes: str) -> bytes:
    return body({"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})


def bind(pod: str, node: str, uid: str | None = None) -> bytes:
    return body(
        {"PodName": pod, "PodNamespace": "default", "PodUID": uid or f"uid-{pod}", "Node": node}
    )


def used(bench: Bench, node: str) -> list[str]:
    return list(bench.service.ledgers.inventory.ledger(node).allocations)


@pytest.mark.parametrize("name", ["filter-names", "filter-nodes"])
def test_a_captured_filter_is_answered_in_the_form_of_its_request(name: str) -> None:
    async def work() -> tuple[Json, Json]:
        request = capture(f"kube-scheduler/v1.37.1/{name}.json")
        bench = await a_service(a_node("gpu-1"), a_node("gpu-2", memory=1024))
        return await decoded(KubeExtender(bench.service).filter(request)), request

    found, _ = run(work())

    if name == "filter-names":
        assert found["NodeNames"] == ["gpu-1"]
        assert found["Nodes"] is None
    else:
        assert found["NodeNames"] is None
        assert [node["metadata"]["name"] for node in found["Nodes"]["items"]] == ["gpu-1"]
        assert "status" in found["Nodes"]["items"][0]
    assert found["Error"] == ""
    assert found["FailedNodes"] is None


def test_filter_writes_nothing() -> None:
    async def work() -> tuple[int, int]:
        bench = await a_service()
        await KubeExtender(bench.service).filter(names(a_pod(), "n1", "n2"))
        return bench.store.writes, bench.service.ledgers.reservation_count()

    assert run(work()) == (0, 0)


def test_where_nothing_fits_each_node_says_why_and_whether_preemption_may_help() -> None:
    async def work() -> Json:
        full, small = a_node("full", cards=1), a_node("small", cards=1, memory=2000)
        bench = await a_service(full, small, pods=[a_pod("first", memory=8000)])
        kube = KubeExtender(bench.service)
        await kube.bind(bind("first", "full"))
        return await decoded(kube.filter(names(a_pod(memory=4000), "full", "small", "stranger")))

    found = run(work())

    assert found["NodeNames"] == []
    assert found["FailedAndUnresolvableNodes"] == {
        "small": "1 of 1 cards: memory 2000 MiB short",
        "stranger": "no cards",
    }
    assert found["FailedNodes"] == {"full": "1 of 1 cards: memory 3808 MiB short"}


def test_an_invalid_request_is_unresolvable_on_every_node() -> None:
    async def work() -> Json:
        bench = await a_service()
        return await decoded(KubeExtender(bench.service).filter(names(a_pod(cores=150), "n1")))

    found = run(work())

    assert found["NodeNames"] == []
    assert "vgpu-cores" in found["FailedAndUnresolvableNodes"]["n1"]


def test_a_pod_without_a_share_may_go_anywhere() -> None:
    async def work() -> Json:
        bench = await a_service()
        plain = a_pod(limits={"cpu": 1})
        return await decoded(KubeExtender(bench.service).filter(names(plain, "x", "n1")))

    assert run(work())["NodeNames"] == ["x", "n1"]


def test_full_nodes_without_any_ledger_are_an_error() -> None:
    async def work() -> Json:
        bench = await a_service()
        request = {"Pod": a_pod(), "Nodes": {"items": [{"metadata": {"name": "x"}}]}}
        return await decoded(KubeExtender(bench.service).filter(body(request)))

    found = run(work())

    assert "ledger" in found["Error"]
    assert found["NodeNames"] is None


def test_keys_are_read_in_any_case() -> None:
    async def work() -> Json:
        bench = await a_service()
        request = body({"pod": a_pod(), "nodenames": ["n1"]})
        return await decoded(KubeExtender(bench.service).filter(request))

    assert run(work())["NodeNames"] == ["n1"]


def test_nothing_is_decided_before_the_ledgers_are_synced() -> None:
    async def work() -> None:
        bench = await a_service()
        bench.service.readiness.mark_unsynced("ledgers")
        await KubeExtender(bench.service).filter(names(a_pod(), "n1"))

    with pytest.raises(NotReady, match="ledgers"):
        run(work())


def test_scores_are_whole_numbers_to_ten_and_the_fuller_node_is_better_for_metax() -> None:
    async def work() -> dict[str, int]:
        limits = {
            "metax-tech.com/sgpu": 1,
            "metax-tech.com/vcore": 10,
            "metax-tech.com/vmemory": 4,
        }
        first = a_pod("first", limits=limits)
        bench = await a_service(a_metax_node("empty"), a_metax_node("used"), pods=[first])
        kube = KubeExtender(bench.service)
        await kube.bind(bind("first", "used"))
        request = names(a_pod("next", limits=limits), "empty", "used", "stranger")
        found = await decoded(kube.prioritize(request))
        return {one["Host"]: one["Score"] for one in found}

    assert run(work()) == {"empty": 5, "used": 10, "stranger": 0}


def test_a_bind_is_two_writes_and_allocates_the_cards() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert found == {"Error": ""}
    assert (bench.store.writes, bench.cluster.bindings) == (1, 1)
    bound = bench.cluster.pods()[0]
    assert bound.spec.node_name == "n1"
    assert "GPU-n1-1" in (bound.metadata.annotations or {})["volcano.sh/vgpu-ids-new"]
    assert bench.decision_log.decisions[-1].outcome is Outcome.BOUND


def test_a_second_bind_of_a_pod_allocates_no_second_card() -> None:
    async def work() -> Bench:
        bench = await a_service(pods=[a_pod()])
        kube = KubeExtender(bench.service)
        await kube.bind(bind("p", "n1"))
        await kube.bind(bind("p", "n1"))
        return bench

    bench = run(work())

    ledger = bench.service.ledgers.inventory.ledger("n1")
    assert len(ledger.allocations["uid-p"].grants) == 1
    assert used(bench, "n1") == ["uid-p"]


def test_a_bind_is_refused_only_by_the_newest_ledger() -> None:
    async def work() -> tuple[Json, Json]:
        pods = [a_pod("earlier", memory=8000), a_pod("p", memory=8000)]
        bench = await a_service(a_node("n1", cards=1), pods=pods)
        kube = KubeExtender(bench.service)
        await kube.bind(bind("earlier", "n1"))
        full = await decoded(kube.bind(bind("p", "n1")))
        stored = await bench.store.read("n1")
        assert stored is not None
        await bench.store.write(stored.ledger.release("uid-earlier"), stored.version)
        return full, await decoded(kube.bind(bind("p", "n1")))

    full, free = run(work())

    assert "short" in full["Error"]
    assert free == {"Error": ""}


def test_a_bind_that_does_not_fit_is_refused_with_the_reason() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(a_node("n1", cards=1), pods=[a_pod(memory=9000)])
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert found["Error"] == "n1: 1 of 1 cards: memory 808 MiB short"
    assert (bench.store.writes, bench.cluster.bindings) == (0, 0)


def test_an_unknown_pod_and_one_of_another_uid_are_not_bound() -> None:
    async def work() -> list[str]:
        bench = await a_service(pods=[a_pod()])
        kube = KubeExtender(bench.service)
        bodies = [bind("x", "n1"), bind("p", "n1", uid="other")]
        return [(await decoded(kube.bind(one)))["Error"] for one in bodies]

    unknown, other = run(work())

    assert "not known" in unknown
    assert "has uid uid-p, not other" in other


def test_a_recreated_pod_is_bound_while_the_watch_shows_the_earlier_one() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        earlier = a_pod()
        earlier["metadata"]["uid"] = "uid-earlier"
        bench.cluster.late["default/p"] = read_pod(earlier)
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert found == {"Error": ""}
    assert used(bench, "n1") == ["uid-p"]


def test_a_refused_binding_releases_the_cards() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        bench.cluster.answers = [BindError(403, "not allowed")]
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert "not allowed" in found["Error"]
    assert used(bench, "n1") == []


def test_a_binding_without_an_answer_keeps_the_cards_until_it_is_resolved() -> None:
    async def work() -> tuple[list[Json], Bench]:
        bench = await a_service(pods=[a_pod()])
        kube = KubeExtender(bench.service)
        bench.cluster.lost = [BindError(0, "no answer")]
        bench.cluster.unread = [OSError("no answer")]
        first = await decoded(kube.bind(bind("p", "n1")))
        kept = used(bench, "n1")
        again = await decoded(kube.bind(bind("p", "n1")))
        return [first, kept, again], bench

    (first, kept, again), _ = run(work())

    assert (
        first["Error"] == "no good answer to the Binding, so that the pod may be bound: no answer"
    )
    assert kept == ["uid-p"]
    assert again == {"Error": ""}


def test_a_pod_that_is_bound_elsewhere_after_a_lost_answer_has_cards_of_one_node() -> None:
    async def work() -> Bench:
        bench = await a_service(pods=[a_pod()])
        kube = KubeExtender(bench.service)
        bench.cluster.answers = [BindError(0, "no answer"), None]
        await kube.bind(bind("p", "n1"))
        await kube.bind(bind("p", "n2"))
        return bench

    bench = run(work())

    assert (used(bench, "n1"), used(bench, "n2")) == ([], ["uid-p"])


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
        await asyncio.sleep(0.01)
        first.cancel()
        second.cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait({first, second, third})
        assert json.loads(third.result()) == {"Error": ""}
        return bench

    bench = run(work())

    assert "uid-p2" in bench.service.ledgers.inventory.ledger("n1").allocations
    assert bench.cluster.bindings == 1


def test_preemption_finds_the_fewest_victims_even_where_the_scheduler_proposes_none() -> None:
    async def work() -> Json:
        pods = [a_pod("low", memory=8000), a_pod("lower", memory=3000, priority=-5)]
        bench = await a_service(a_node("n1", cards=2), a_node("n2", cards=1), pods=pods)
        kube = KubeExtender(bench.service)
        await kube.bind(bind("low", "n1"))
        await kube.bind(bind("lower", "n1"))
        urgent = a_pod("urgent", memory=8000, priority=10)
        request = {
            "Pod": urgent,
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": {
                "n1": {"Pods": [], "NumPDBViolations": 0},
                "n2": {"Pods": None, "NumPDBViolations": 0},
                "stranger": {"Pods": [], "NumPDBViolations": 0},
            },
        }
        return await decoded(kube.preempt(body(request)))

    found = run(work())["NodeNameToMetaVictims"]

    # On n2 no eviction is needed, so it is left out; an unknown node cannot help.
    assert found == {"n1": {"Pods": [{"UID": "uid-lower"}], "NumPDBViolations": 0}}


def test_victims_without_cards_stay_and_unneeded_ones_are_spared() -> None:
    async def work() -> Json:
        pods = [a_pod("a", memory=8000), a_pod("b", memory=8000)]
        bench = await a_service(a_node("n1", cards=2), pods=pods)
        kube = KubeExtender(bench.service)
        for name in ("a", "b"):
            await kube.bind(bind(name, "n1"))
        victims = [{"metadata": {"uid": uid}} for uid in ("cpu-only", "uid-a", "uid-b")]
        request = {
            "Pod": a_pod("urgent", memory=8000, priority=10),
            "NodeNameToVictims": {"n1": {"Pods": victims, "NumPDBViolations": 0}},
        }
        return await decoded(kube.preempt(body(request)))

    found = run(work())["NodeNameToMetaVictims"]

    assert [pod["UID"] for pod in found["n1"]["Pods"]] == ["cpu-only", "uid-b"]


@pytest.mark.parametrize(
    "name",
    [
        "kube-scheduler/v1.37.1/preempt-pods.json",
        "kube-scheduler/v1.37.1/preempt-uids.json",
        "koordinator/v1.8.0/preempt.json",
    ],
)
def test_captured_preemptions_are_answered(name: str) -> None:
    async def work() -> Json:
        bench = await a_service(a_node("gpu-0"), a_node("gpu-1"), a_node("gpu-2"))
        return await decoded(KubeExtender(bench.service).preempt(capture(name)))

    assert "NodeNameToMetaVictims" in run(work())


@pytest.mark.parametrize("name", ["kube-scheduler/v1.37.1", "koordinator/v1.8.0"])
def test_captured_binds_are_answered(name: str) -> None:
    async def work() -> Json:
        bench = await a_service(a_node("gpu-0"), a_node("gpu-1"))
        return await decoded(KubeExtender(bench.service).bind(capture(f"{name}/bind.json")))

    assert "is not known" in run(work())["Error"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"{", "truncated"),
        (b"\xff\xfe", "read"),
        (b"{}", "Pod is missing"),
        (b"[]", "object"),
        (body({"Pod": a_pod()}), "NodeNames"),
        (body({"Pod": {"metadata": {}}, "NodeNames": []}), "name is missing"),
        (body({"Pod": 3, "NodeNames": []}), "Pod"),
    ],
)
def test_an_invalid_body_is_rejected_with_a_sentence(content: bytes, problem: str) -> None:
    async def work() -> None:
        bench = await a_service()
        await KubeExtender(bench.service).filter(content)

    with pytest.raises(BodyError, match=problem):
        run(work())


@pytest.mark.parametrize("limits", [{"cpu": 1}, None])
@pytest.mark.parametrize("asked_about", [(), ("n1",), ("stranger", "n1", "n2", "n1")])
def test_a_score_is_given_for_every_name_in_its_place(
    limits: Json, asked_about: tuple[str, ...]
) -> None:
    async def work() -> Json:
        bench = await a_service()
        request = names(a_pod(limits=limits), *asked_about)
        return await decoded(KubeExtender(bench.service).prioritize(request))

    assert [one["Host"] for one in run(work())] == list(asked_about)


def test_other_calls_are_answered_while_many_new_nodes_are_evaluated() -> None:
    async def work() -> list[str]:
        nodes = [a_node(f"n{number}", cards=number % 60 + 2) for number in range(60)]
        bench = await a_service(*nodes)
        kube = KubeExtender(bench.service)
        two = a_pod()
        two["spec"]["containers"].append({**two["spec"]["containers"][0], "name": "other"})
        order: list[str] = []

        async def ask(what: str, pod: Json) -> None:
            await kube.filter(names(pod, *(f"n{number}" for number in range(60))))
            order.append(what)

        await asyncio.gather(ask("new", two), ask("plain", a_pod("q", limits={"cpu": 1})))
        return order

    assert run(work()) == ["plain", "new"]


def test_repeated_filters_of_full_nodes_leak_no_memory() -> None:
    filler = {"managedFields": [{"fieldsV1": "x" * 4000}]}

    async def work() -> tuple[int, int]:
        nodes = [f"n{number}" for number in range(100)]
        bench = await a_service(*map(a_node, nodes))
        items = [{"metadata": {"name": name, **filler}} for name in nodes]
        kube, request = (
            KubeExtender(bench.service),
            body({"Pod": a_pod(), "Nodes": {"items": items}}),
        )
        tracemalloc.start()
        for _ in range(5):
            await kube.filter(request)
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20):
            await kube.filter(request)
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return after - before, len(request)

    grown, size = run(work())

    assert size > 400_000
    assert grown < size // 10


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
        await asyncio.sleep(0.01)
        asked_now = asyncio.create_task(kube.filter(names(a_pod("next"), "n1")))
        await asyncio.sleep(0.01)
        before = asked_now.done()
        ended.set()
        await asyncio.gather(*binds, asked_now)
        return [before, asked_now.done()]

    assert run(work()) == [False, True]


def test_a_filter_waits_for_binds_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.sidecar.endpoints.kube_extender.FILTER_WAIT", 0.01)
    monkeypatch.setattr("adapters.sidecar.endpoints.kube_extender.CONCURRENT_BINDS", 1)

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
