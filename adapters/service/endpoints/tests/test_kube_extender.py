"""Filter and prioritize of kube-scheduler and koord-scheduler."""

import asyncio
import json
import tracemalloc
from collections import Counter

import pytest

from adapters.answer.answer import OTHER_REASONS
from adapters.service.decide.ports import NotReady
from adapters.service.endpoints.kube_extender import REASONS, KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names
from adapters.service.tests.builders import (
    Json,
    a_metax_node,
    a_node,
    a_pod,
    a_service,
    body,
    capture,
    decoded,
    run,
)
from adapters.wire.body import BodyError
from core.hardware.quantity import GIB, MIB


@pytest.mark.parametrize("name", ["filter-names", "filter-nodes"])
def test_a_captured_filter_is_answered_in_the_form_of_its_request(name: str) -> None:
    async def work() -> tuple[Json, Json]:
        request = capture(f"kube-scheduler/v1.37.1/{name}.json")
        bench = await a_service(a_node("gpu-1"), a_node("gpu-2", memory=1 * GIB))
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


async def a_full_and_a_small_node() -> KubeExtender:
    full, small = a_node("full", cards=1), a_node("small", cards=1, memory=2000 * MIB)
    bench = await a_service(full, small, pods=[a_pod("first", memory=8000)])
    kube = KubeExtender(bench.service)
    await kube.bind(bind("first", "full"))
    return kube


def test_no_rejection_is_one_that_the_preemption_of_a_scheduler_up_to_1_37_may_resolve() -> None:
    """It finds no victim on a node that passed its own filters, and tries the pod again at once."""

    async def work() -> Json:
        kube = await a_full_and_a_small_node()
        return await decoded(kube.filter(names(a_pod(memory=4000), "full", "small", "stranger")))

    found = run(work())

    assert found["NodeNames"] == []
    assert found["FailedNodes"] is None
    assert found["FailedAndUnresolvableNodes"] == {
        "full": "1 of 1 cards: memory 3808 MiB short",
        "small": "1 of 1 cards: memory 2000 MiB short",
        "stranger": "no cards",
    }


def test_of_1_38_each_node_says_why_and_whether_preemption_may_help() -> None:
    async def work() -> Json:
        kube = await a_full_and_a_small_node()
        asked = names(a_pod(memory=4000), "full", "small", "stranger")
        return await decoded(kube.filter(asked, proposes_none=True))

    found = run(work())

    assert found["NodeNames"] == []
    assert found["FailedAndUnresolvableNodes"] == {
        "small": "1 of 1 cards: memory 2000 MiB short",
        "stranger": "no cards",
    }
    assert found["FailedNodes"] == {"full": "1 of 1 cards: memory 3808 MiB short"}


def test_an_answer_about_nodes_that_all_differ_has_few_reasons() -> None:
    """A scheduler writes each of them into the condition of the pod and into its Events."""
    sizes = [1000, 1000, 1000, *range(2000, 2040)]

    async def work() -> Json:
        nodes = [a_node(f"n{n}", cards=1, memory=size * MIB) for n, size in enumerate(sizes)]
        bench = await a_service(*nodes)
        asked = names(a_pod(memory=8000), *(node.metadata.name for node in nodes))
        return await decoded(KubeExtender(bench.service).filter(asked))

    found = run(work())["FailedAndUnresolvableNodes"]

    assert len(found) == len(sizes)
    texts = Counter(found.values())
    assert len(texts) == REASONS + 1
    assert texts["1 of 1 cards: memory 7000 MiB short"] == 3
    assert texts[OTHER_REASONS] == len(sizes) - 3 - (REASONS - 1)


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


def test_prioritize_does_not_depend_on_the_filter_before_it() -> None:
    async def work() -> list[bytes]:
        bench = await a_service(a_node("n1"), a_node("none", cards=0), a_node("n2"))
        kube = KubeExtender(bench.service)
        asked = json.dumps(["n2", "none", "n1"], separators=(",", ":"))
        pod = json.dumps(a_pod(), separators=(",", ":"))
        fitting = await decoded(kube.filter(f'{{"Pod":{pod},"NodeNames":{asked}}}'.encode()))
        again = json.dumps(fitting["NodeNames"], separators=(",", ":"))
        request = f'{{"Pod":{pod},"NodeNames":{again}}}'.encode()
        assert fitting["NodeNames"] == ["n2", "n1"]
        return [
            await kube.prioritize(request),
            await KubeExtender(bench.service).prioritize(request),
        ]

    known, other = run(work())
    assert known == other


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
