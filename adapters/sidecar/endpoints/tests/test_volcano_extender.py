"""What vc-scheduler is answered."""

import json

import pytest

from adapters.sidecar.decide.ports import SECOND, Outcome
from adapters.sidecar.endpoints.volcano_extender import VolcanoExtender
from adapters.sidecar.tests.builders import (
    Bench,
    Json,
    a_node,
    a_pod,
    a_service,
    asked,
    body,
    capture,
    run,
)
from adapters.wire.body import BodyError

V = "volcano/v1.14.1"


def task(pod: Json, node: str = "", status: int = 1) -> Json:
    meta = pod["metadata"]
    return {
        "UID": meta["uid"],
        "Name": meta["name"],
        "Namespace": "default",
        "NodeName": node,
        "Status": status,
        "Pod": pod,
    }


def predicate(pod: Json, node: str) -> bytes:
    return body({"task": task(pod), "node": {"Name": node, "Tasks": {"x": [1, {"y": None}]}}})


def event(pod: Json, node: str, status: int) -> bytes:
    return body({"task": task(pod, node, status)})


def held(bench: Bench) -> int:
    return bench.service.ledgers.reservation_count()


def test_the_captured_questions_are_understood() -> None:
    async def work() -> list[Json]:
        bench = await a_service(a_node("gpu-0"), a_node("gpu-1"), a_node("gpu-2"))
        flow = VolcanoExtender(bench.service)
        return [
            await asked(flow.predicate(capture(f"{V}/predicate.json"))),
            await asked(flow.predicate(capture(f"{V}/predicate-node-with-pod.json"))),
            await asked(flow.predicate(capture(f"{V}/predicate-deviceshare.json"))),
            await asked(flow.prioritize(capture(f"{V}/prioritize.json"))),
            await asked(flow.allocate(capture(f"{V}/allocate.json"))),
            await asked(flow.deallocate(capture(f"{V}/deallocate.json"))),
            await asked(flow.preemptable(capture(f"{V}/preemptable.json"))),
            await asked(flow.reclaimable(capture(f"{V}/reclaimable.json"))),
        ]

    fits, beside, known, scores, *events, preempt, reclaim = run(work())

    assert fits == beside == {"status": "", "code": 0}
    assert known == {"status": "no cards", "code": 3}
    assert set(scores["nodeScore"]) == {"gpu-0", "gpu-1", "gpu-2"}
    assert events == [{"errorMessage": ""}] * 2
    assert preempt["status"] in (-1, 0, 1)
    assert reclaim["status"] in (-1, 0, 1)


@pytest.mark.parametrize(
    ("pod", "node", "code"),
    [
        (a_pod(memory=4000), "full", 2),
        (a_pod(memory=9000), "full", 3),
        (a_pod(memory=4000), "stranger", 3),
        (a_pod(cores=150), "full", 3),
    ],
)
def test_a_refusal_has_a_text_and_a_code_that_says_whether_preemption_may_help(
    pod: Json, node: str, code: int
) -> None:
    async def work() -> Json:
        bench = await a_service(a_node("full", cards=1))
        flow = VolcanoExtender(bench.service)
        await flow.allocate(event(a_pod("first", memory=8000), "full", 2))
        return await asked(flow.predicate(predicate(pod, node)))

    found = run(work())

    assert found["status"]
    assert found["code"] == code


def test_an_allocate_event_holds_and_repeating_it_elsewhere_moves_the_hold() -> None:
    async def work() -> tuple[list[Json], Bench]:
        bench = await a_service()
        flow = VolcanoExtender(bench.service)
        pod = a_pod()
        told = [await asked(flow.allocate(event(pod, node, 2))) for node in ("n1", "n1", "n2")]
        return told, bench

    told, bench = run(work())

    assert told == [{"errorMessage": ""}] * 3
    assert held(bench) == 1
    assert bench.service.ledgers.inventory.nodes_of("uid-p") == ("n2",)
    assert bench.store.writes == 0


def test_a_hold_ends_by_its_deallocate_or_by_its_time() -> None:
    async def work() -> tuple[int, int, int]:
        bench = await a_service()
        flow = VolcanoExtender(bench.service)
        pod = a_pod()
        await flow.allocate(event(pod, "n1", 2))
        await flow.deallocate(event(pod, "n1", 1))
        undone = held(bench)
        await flow.allocate(event(pod, "n1", 2))
        before = held(bench)
        bench.clock.time += 31 * SECOND
        await flow.predicate(predicate(a_pod("other"), "n1"))
        return undone, before, held(bench)

    assert run(work()) == (0, 1, 0)


def test_two_tasks_planned_onto_one_last_card_are_not_both_held() -> None:
    async def work() -> list[str]:
        bench = await a_service(a_node("n1", cards=1))
        flow = VolcanoExtender(bench.service)
        pods = [a_pod("a", memory=8000), a_pod("b", memory=8000)]
        fits = [(await asked(flow.predicate(predicate(pod, "n1"))))["status"] for pod in pods]
        assert fits == ["", ""]
        return [(await asked(flow.allocate(event(pod, "n1", 2))))["errorMessage"] for pod in pods]

    first, second = run(work())

    assert first == ""
    assert "memory" in second


def test_an_evicted_task_keeps_its_cards_but_others_may_plan_with_them() -> None:
    async def work() -> tuple[list[str], Bench]:
        bench = await a_service(a_node("n1", cards=1))
        flow = VolcanoExtender(bench.service)
        victim, urgent = a_pod("victim", memory=8000), a_pod("urgent", memory=8000)
        await flow.allocate(event(victim, "n1", 2))
        said = []
        for status in (4, 64, 4, 32, 4):
            pod = victim if status in (64, 32) else urgent
            ask = flow.deallocate if status == 64 else flow.allocate
            said.append((await asked(ask(event(pod, "n1", status))))["errorMessage"])
        return said, bench

    (before, evicted, planned, spared, after), bench = run(work())

    assert "memory" in before
    assert (evicted, planned, spared) == ("", "", "")
    assert "memory" in after
    assert bench.service.ledgers.inventory.nodes_of("uid-victim") == ("n1",)
    assert bench.service.ledgers.inventory.nodes_of("uid-urgent") == ()


def test_victims_go_back_as_they_came_and_are_the_least() -> None:
    async def work() -> Json:
        bench = await a_service(a_node("n1", cards=2))
        flow = VolcanoExtender(bench.service)
        small, large = a_pod("small", memory=3000), a_pod("large", memory=8000)
        for pod in (small, large):
            await flow.allocate(event(pod, "n1", 2))
        evictees = [
            {**task(pod, "n1", 16), "Extra": {"kept": [1, 2]}}
            for pod in (large, small, a_pod("plain", limits={"cpu": 1}))
        ]
        question = {"evictor": task(a_pod("urgent", memory=8000)), "evictees": evictees}
        return await asked(flow.preemptable(body(question)))

    found = run(work())

    assert found["status"] == 1
    assert [one["Name"] for one in found["victims"]] == ["large", "plain"]
    assert all(one["Extra"] == {"kept": [1, 2]} for one in found["victims"])


def test_where_cards_are_not_what_is_short_others_decide_who_goes() -> None:
    async def work() -> Json:
        bench = await a_service()
        evictees = [task(a_pod("plain", limits={"cpu": 1}), "n1", 16)]
        question = {"evictor": task(a_pod("urgent")), "evictees": evictees}
        return await asked(VolcanoExtender(bench.service).reclaimable(body(question)))

    assert run(work()) == {"status": 0, "victims": []}


def test_where_nobodys_going_helps_eviction_is_rejected() -> None:
    async def work() -> Json:
        bench = await a_service(a_node("n1", cards=1))
        evictees = [task(a_pod("plain", limits={"cpu": 1}), "n1", 16)]
        question = {"evictor": task(a_pod("huge", memory=90_000)), "evictees": evictees}
        return await asked(VolcanoExtender(bench.service).preemptable(body(question)))

    assert run(work()) == {"status": -1, "victims": []}


def test_a_task_is_decided_once_as_long_as_no_ledger_changes() -> None:
    async def work() -> bool:
        bench = await a_service()
        flow = VolcanoExtender(bench.service)
        pod = a_pod()
        await flow.predicate(predicate(pod, "n1"))
        asking = bench.service.pod_requests.get("uid-p")
        assert asking is not None
        first = bench.service.evaluate(asking)
        await flow.predicate(predicate(pod, "n2"))
        same = bench.service.evaluate(asking) is first
        await flow.allocate(event(a_pod("other"), "n1", 2))
        return same and bench.service.evaluate(asking) is not first

    assert run(work())


def test_prioritize_with_no_nodes_is_answered() -> None:
    async def work() -> Json:
        bench = await a_service()
        question = {"task": task(a_pod()), "nodes": None}
        return await asked(VolcanoExtender(bench.service).prioritize(body(question)))

    assert run(work()) == {"nodeScore": {}, "errorMessage": ""}


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t["task"].pop("Pod"),
        lambda t: t["task"]["Pod"]["metadata"].pop("uid"),
        lambda t: t["task"].update(UID="another"),
        lambda t: t["node"].pop("Name"),
        lambda t: t.pop("node"),
    ],
)
def test_a_question_without_what_is_needed_is_refused(change: object) -> None:
    async def work() -> None:
        bench = await a_service()
        question = json.loads(predicate(a_pod(), "n1"))
        change(question)  # type: ignore[operator]
        await VolcanoExtender(bench.service).predicate(body(question))

    with pytest.raises(BodyError):
        run(work())


def test_what_is_held_is_told() -> None:
    async def work() -> Bench:
        bench = await a_service()
        await VolcanoExtender(bench.service).allocate(event(a_pod(), "n1", 2))
        return bench

    told = run(work()).decision_log.decisions[-1]

    assert (told.verb, told.outcome, told.node) == ("allocate", Outcome.HELD, "n1")
