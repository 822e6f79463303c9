"""An explanation of all nodes, in time that grows with their number, between other calls."""

import asyncio
import sys
from collections.abc import Sequence

import pytest

from adapters.accounting.gang_cache import GangCache
from adapters.answer.judge import CLASSES
from adapters.dialects.gangs import MIN_AVAILABLE
from adapters.service.decide.advice import explain
from adapters.service.decide.advice.explain import Explanation
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import names
from adapters.service.tests.builders import Bench, a_node, a_pod, a_service, read_pod, run
from adapters.stores.store import Change
from adapters.wire.kube import Pod, annotations
from core.durations import SECOND
from core.feasibility.evaluation import NodeEvaluation
from core.hardware.quantity import GIB, MIB


async def explained(bench: Bench, memory: int) -> Explanation:
    pod_request = bench.service.pod_requests.read(read_pod(a_pod(memory=memory)))
    assert pod_request is not None
    return await bench.service.explain(pod_request.pod)


async def commit(bench: Bench, pod: Pod, node: str) -> None:
    found = bench.service.pod_requests.read(pod)
    assert found is not None
    await bench.service.committer.commit(found, node)


def test_every_node_is_fitting_or_rejected_and_the_best_one_fits() -> None:
    async def work() -> Explanation:
        bench = await a_service(a_node("large", memory=16 * GIB), a_node("small", memory=1 * GIB))
        bench.service.ledgers.put(Change("broken", None, "version: must be an integer"))
        return await explained(bench, 4000)

    found = run(work())

    assert found.answer.fitting == ("large",)
    assert found.answer.best == "large"
    assert found.answer.summary() == "cards fit on large"
    assert found.answer.texts() == {
        "small": "2 of 2 cards: memory 2976 MiB short",
        "broken": "version: must be an integer",
    }
    assert found.preemption_may_help == ()


def test_preemption_may_help_where_the_pod_fits_an_empty_node() -> None:
    async def work() -> Explanation:
        bench = await a_service(a_node("n1", cards=1))
        await commit(bench, read_pod(a_pod("first", memory=8000)), "n1")
        return await explained(bench, 8000)

    found = run(work())

    assert (found.answer.best, found.answer.fitting) == (None, ())
    assert found.preemption_may_help == ("n1",)
    assert found.answer.summary().startswith("0 of 1 nodes fit")


@pytest.mark.parametrize(
    ("more", "evicts", "said"),
    [
        ({}, False, "; evictions are off (preemption.enabled)"),
        ({}, True, "; the service does so, as budgets allow"),
        ({"preemptionPolicy": "Never"}, True, None),
        ({"priority": 0}, True, None),
    ],
)
def test_a_waiting_pod_of_high_priority_is_said_what_would_make_room(
    more: dict[str, object], said: str | None, *, evicts: bool
) -> None:
    async def work() -> tuple[str, ...]:
        bench = await a_service(*(a_node(f"n{number}", cards=4) for number in range(10)))
        bench.service.evicts = evicts
        for number in range(39):  # the last node has three of these, and a small one
            low = read_pod(a_pod(f"low-{number}", memory=8000, priority=1))
            await commit(bench, low, f"n{number // 4}")
        await commit(bench, read_pod(a_pod("small", memory=6000)), "n9")
        high = a_pod("high", memory=8000, priority=10)
        return (await bench.service.explain(read_pod({**high, "spec": high["spec"] | more}))).notes

    notes = run(work())

    text = f"evicting default/small (priority 0) would make room on n9{said}"
    assert notes == (() if said is None else (text,))


def test_a_node_that_goes_meanwhile_is_no_place_to_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explain, "NODES", 1)

    async def work() -> Explanation:
        bench = await a_service(a_node("n1", cards=1), a_node("n2", cards=1))
        for number in (1, 2):
            low = read_pod(a_pod(f"low-{number}", memory=8000))
            await commit(bench, low, f"n{number}")
        real = NodeEvaluation.resolvable

        def resolvable(evaluation: NodeEvaluation, asked: Sequence[str]) -> list[str]:
            asyncio.get_running_loop().call_soon(bench.service.ledgers.apply, Change("n1", None))
            return real(evaluation, asked)

        monkeypatch.setattr(NodeEvaluation, "resolvable", resolvable)
        high = read_pod(a_pod("high", memory=8000, priority=10))
        return await bench.service.explain(high)

    found = run(work())

    assert found.eviction is not None
    assert found.eviction.node == "n2"


def test_a_pod_that_has_cards_is_said_to_have_them() -> None:
    async def work() -> Explanation:
        bench = await a_service(a_node("n1", cards=1), a_node("n2", cards=1))
        pod_request = bench.service.pod_requests.read(read_pod(a_pod(memory=4000)))
        assert pod_request is not None
        await bench.service.committer.commit(pod_request, "n2")
        return await explained(bench, 4000)

    found = run(work())

    assert found.answer.summary() == "has cards of n2, and its Binding is not written yet"
    assert set(found.answer.fitting) == {"n1", "n2"}


async def a_large_service(nodes: int) -> Bench:
    """Half of the nodes are too small for a pod of 4,000 MiB."""
    return await a_service(
        *(a_node(f"n{number}", 1, 8 * GIB if number % 2 else 2 * GIB) for number in range(nodes))
    )


def work_of(nodes: int) -> int:
    """How many functions an explanation calls, those of C included."""
    bench = run(a_large_service(nodes))
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def work() -> Explanation:
        sys.setprofile(count)
        try:
            return await explained(bench, 4000)
        finally:
            sys.setprofile(None)

    found = run(work())
    assert len(found.answer.fitting) == len(found.answer.rejected) == nodes // 2
    return calls


def test_the_work_is_linear_in_the_nodes() -> None:
    few, many = work_of(500), work_of(5_000)

    assert many < 11 * few


@pytest.mark.parametrize("classes", [4 * CLASSES])
def test_other_calls_run_while_many_classes_of_nodes_are_evaluated(classes: int) -> None:
    async def work() -> int:
        nodes = (
            a_node(f"n{number}", 1 + number % 2, (8192 + number) * MIB) for number in range(classes)
        )
        bench = await a_service(*nodes)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        pod = a_pod(memory=1000)
        (container,) = pod["spec"]["containers"]
        # The free capacity of nodes does not suffice to decide for two containers.
        pod["spec"]["containers"] = [{**container, "name": name} for name in ("a", "b")]
        pod_request = bench.service.pod_requests.read(read_pod(pod))
        assert pod_request is not None
        await bench.service.explain(pod_request.pod)
        task.cancel()
        return turns

    assert run(work()) >= classes // CLASSES - 1


def member(name: str, memory: int = 6000) -> Pod:
    texts = {"gang.scheduling.koordinator.sh/name": "g", MIN_AVAILABLE: "3"}
    return read_pod(a_pod(name, memory=memory, annotations=texts))


async def a_bench_with_a_gang(cards: int, names: str = "abc") -> tuple[Bench, GangCache]:
    cache = GangCache()
    for name in names:
        cache.put(member(name))
    return await a_service(a_node("n1", cards=cards), a_node("n2", cards=1), gangs=cache), cache


def test_a_pod_of_a_gang_that_does_not_fit_has_the_reason_of_the_filter() -> None:
    async def work() -> tuple[Explanation, str]:
        bench, _ = await a_bench_with_a_gang(1)
        filtered = await KubeExtender(bench.service).filter(
            names(a_pod("a", memory=6000, annotations=dict(annotations(member("a")))), "n1", "n2")
        )
        return await bench.service.explain(member("a")), filtered.decode()

    found, filtered = run(work())

    assert found.answer.summary() == (
        "gang default/g of 3: 2 of 3 fit together; no room for default/c:"
        " n1: 1 of 1 cards: memory 3808 MiB short"
    )
    assert found.answer.summary() in filtered
    assert (found.answer.best, found.answer.placement) == (None, None)
    assert found.answer.fitting == ("n1", "n2")


def test_each_pod_of_a_gang_that_fits_has_its_own_node() -> None:
    async def work() -> list[Explanation]:
        bench, _ = await a_bench_with_a_gang(2)
        return [await bench.service.explain(member(name)) for name in "abc"]

    found = run(work())

    assert sorted(each.answer.best or "" for each in found) == ["n1", "n1", "n2"]
    assert {each.answer.summary() for each in found} == {"gang default/g of 3: 3 of 3 fit together"}


def test_an_answer_about_waiting_pods_is_made_again_when_their_gang_changes() -> None:
    async def work() -> list[set[str]]:
        bench, cache = await a_bench_with_a_gang(2, "ab")
        answers, clock = bench.service.waiting_answers, bench.service.ports.clock
        seen: list[set[str]] = []
        for pods in ("ab", "abc"):
            for name in pods:
                cache.put(member(name))
            await clock.sleep(5 * SECOND)
            await answers.round([member(name) for name in pods])
            found = [answers.get(member(name).metadata.uid) for name in pods]
            seen.append({each.summary for each in found if each is not None})
            seen.append({each.best or "" for each in found if each is not None})
        return seen

    few, nowhere, whole, somewhere = run(work())

    assert few == {"gang default/g: 2 of 3 pods exist"}
    assert nowhere == {""}
    assert whole == {"gang default/g of 3: 3 of 3 fit together"}
    assert somewhere == {"n1", "n2"}
