"""The answers to vc-scheduler."""

import json

import pytest

from adapters.service.decide.ports import Outcome
from adapters.service.endpoints.volcano_extender import VolcanoExtender
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_node,
    a_pod,
    a_service,
    body,
    capture,
    decoded,
    run,
)
from adapters.stores.memory import MemoryQuotas
from adapters.wire.body import BodyError
from adapters.wire.volcano import PredicateStatus
from core.durations import SECOND
from core.hardware.quantity import GIB, MIB
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota

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
    asked = {"task": task(pod), "node": {"Name": node, "Tasks": {"x": [1, {"y": None}]}}}
    return json.dumps(asked, separators=(",", ":")).encode()  # as Go writes it


def event(pod: Json, node: str, status: int) -> bytes:
    return body({"task": task(pod, node, status)})


def held(bench: Bench) -> int:
    return bench.service.ledgers.reservation_count()


def test_the_captured_requests_are_answered() -> None:
    async def work() -> list[Json]:
        bench = await a_service(a_node("gpu-0"), a_node("gpu-1"), a_node("gpu-2"))
        extender = VolcanoExtender(bench.service)
        return [
            await decoded(extender.predicate(capture(f"{V}/predicate.json"))),
            await decoded(extender.predicate(capture(f"{V}/predicate-node-with-pod.json"))),
            await decoded(extender.predicate(capture(f"{V}/predicate-deviceshare.json"))),
            await decoded(extender.prioritize(capture(f"{V}/prioritize.json"))),
            await decoded(extender.allocate(capture(f"{V}/allocate.json"))),
            await decoded(extender.deallocate(capture(f"{V}/deallocate.json"))),
            await decoded(extender.preemptable(capture(f"{V}/preemptable.json"))),
            await decoded(extender.reclaimable(capture(f"{V}/reclaimable.json"))),
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
        extender = VolcanoExtender(bench.service)
        await extender.allocate(event(a_pod("first", memory=8000), "full", 2))
        return await decoded(extender.predicate(predicate(pod, node)))

    found = run(work())

    assert found["status"]
    assert found["code"] == code


def test_a_predicate_of_nodes_that_are_used_differently_has_one_text() -> None:
    """vc-scheduler lists each text in the condition of the pod, in each of its sessions."""

    async def work() -> list[str]:
        sizes = {"n1": 1000, "n2": 2000}
        bench = await a_service(*(a_node(name, memory=size * MIB) for name, size in sizes.items()))
        extender = VolcanoExtender(bench.service)
        asked = [predicate(a_pod(memory=4000), name) for name in sizes]
        return [(await decoded(extender.predicate(each)))["status"] for each in asked]

    assert run(work()) == ["2 of 2 cards: memory short"] * 2


def test_an_allocate_event_reserves_and_a_later_one_moves_the_reservation() -> None:
    async def work() -> tuple[list[Json], Bench]:
        bench = await a_service()
        extender = VolcanoExtender(bench.service)
        pod = a_pod()
        answers = [
            await decoded(extender.allocate(event(pod, node, 2))) for node in ("n1", "n1", "n2")
        ]
        return answers, bench

    answers, bench = run(work())

    assert answers == [{"errorMessage": ""}] * 3
    assert held(bench) == 1
    assert bench.service.ledgers.inventory.nodes_of("uid-p") == ("n2",)
    assert bench.store.writes == 0


def test_a_reservation_ends_by_deallocate_or_expires() -> None:
    async def work() -> tuple[int, int, int]:
        bench = await a_service()
        extender = VolcanoExtender(bench.service)
        pod = a_pod()
        await extender.allocate(event(pod, "n1", 2))
        await extender.deallocate(event(pod, "n1", 1))
        undone = held(bench)
        await extender.allocate(event(pod, "n1", 2))
        before = held(bench)
        bench.clock.time += 31 * SECOND
        await extender.predicate(predicate(a_pod("other"), "n1"))
        return undone, before, held(bench)

    assert run(work()) == (0, 1, 0)


def test_two_tasks_planned_onto_one_last_card_are_not_both_reserved() -> None:
    async def work() -> list[str]:
        bench = await a_service(a_node("n1", cards=1))
        extender = VolcanoExtender(bench.service)
        pods = [a_pod("a", memory=8000), a_pod("b", memory=8000)]
        fits = [(await decoded(extender.predicate(predicate(pod, "n1"))))["status"] for pod in pods]
        assert fits == ["", ""]
        return [
            (await decoded(extender.allocate(event(pod, "n1", 2))))["errorMessage"] for pod in pods
        ]

    first, second = run(work())

    assert first == ""
    assert "memory" in second


def test_an_evicted_task_keeps_its_cards_but_others_may_plan_with_them() -> None:
    async def work() -> tuple[list[str], Bench]:
        bench = await a_service(a_node("n1", cards=1))
        extender = VolcanoExtender(bench.service)
        victim, urgent = a_pod("victim", memory=8000), a_pod("urgent", memory=8000)
        await extender.allocate(event(victim, "n1", 2))
        said = []
        for status in (4, 64, 4, 32, 4):
            pod = victim if status in (64, 32) else urgent
            ask = extender.deallocate if status == 64 else extender.allocate
            said.append((await decoded(ask(event(pod, "n1", status))))["errorMessage"])
        return said, bench

    (before, evicted, planned, spared, after), bench = run(work())

    assert "memory" in before
    assert (evicted, planned, spared) == ("", "", "")
    assert "memory" in after
    assert bench.service.ledgers.inventory.nodes_of("uid-victim") == ("n1",)
    assert bench.service.ledgers.inventory.nodes_of("uid-urgent") == ()


def test_victims_are_the_fewest_and_returned_as_received() -> None:
    async def work() -> Json:
        bench = await a_service(a_node("n1", cards=2))
        extender = VolcanoExtender(bench.service)
        small, large = a_pod("small", memory=3000), a_pod("large", memory=8000)
        for pod in (small, large):
            await extender.allocate(event(pod, "n1", 2))
        evictees = [
            {**task(pod, "n1", 16), "Extra": {"kept": [1, 2]}}
            for pod in (large, small, a_pod("plain", limits={"cpu": 1}))
        ]
        request = {"evictor": task(a_pod("urgent", memory=8000)), "evictees": evictees}
        return await decoded(extender.preemptable(body(request)))

    found = run(work())

    assert found["status"] == 1
    assert [one["Name"] for one in found["victims"]] == ["large", "plain"]
    assert all(one["Extra"] == {"kept": [1, 2]} for one in found["victims"])


def test_the_plugin_abstains_where_the_pod_does_not_lack_cards() -> None:
    async def work() -> Json:
        bench = await a_service()
        evictees = [task(a_pod("plain", limits={"cpu": 1}), "n1", 16)]
        request = {"evictor": task(a_pod("urgent")), "evictees": evictees}
        return await decoded(VolcanoExtender(bench.service).reclaimable(body(request)))

    assert run(work()) == {"status": 0, "victims": []}


def test_eviction_is_rejected_where_no_victim_helps() -> None:
    async def work() -> Json:
        bench = await a_service(a_node("n1", cards=1))
        evictees = [task(a_pod("plain", limits={"cpu": 1}), "n1", 16)]
        request = {"evictor": task(a_pod("huge", memory=90_000)), "evictees": evictees}
        return await decoded(VolcanoExtender(bench.service).preemptable(body(request)))

    assert run(work()) == {"status": -1, "victims": []}


@pytest.mark.parametrize(("limit", "status"), [(4, -1), (8, 1)])
@pytest.mark.parametrize("victim", ["plain", "other"])
def test_a_task_without_quota_evicts_nothing(limit: int, status: int, victim: str) -> None:
    async def work() -> Json:
        quota = Quota("default", QuotaLimits(memory=limit * GIB), counted=True)
        bench = await a_service(a_node("n1", cards=1), quotas=MemoryQuotas((quota,)))
        extender = VolcanoExtender(bench.service)
        plain = a_pod("plain", limits={"cpu": 1})
        other = a_pod("other", memory=8000)
        other["metadata"]["namespace"] = "other"
        if victim == "other":
            await extender.allocate(event(other, "n1", 2))
        await bench.see_quota()
        evictees = [task(other if victim == "other" else plain, "n1", 16)]
        request = {"evictor": task(a_pod("urgent", memory=8000)), "evictees": evictees}
        return await decoded(extender.reclaimable(body(request)))

    found = run(work())

    # A task without cards makes room for something else: there the plugin has no vote.
    expected = 0 if (victim, status) == ("plain", 1) else status
    assert (found["status"], len(found["victims"])) == (expected, int(expected == 1))


def test_a_task_is_evaluated_once_while_no_ledger_changes() -> None:
    async def work() -> bool:
        bench = await a_service()
        extender = VolcanoExtender(bench.service)
        pod = a_pod()
        await extender.predicate(predicate(pod, "n1"))
        pod_request = bench.service.pod_requests.get("uid-p")
        assert pod_request is not None
        first = bench.service.feasibility.evaluate(pod_request)
        await extender.predicate(predicate(pod, "n2"))
        same = bench.service.feasibility.evaluate(pod_request) is first
        await extender.allocate(event(a_pod("other"), "n1", 2))
        return same and bench.service.feasibility.evaluate(pod_request) is not first

    assert run(work())


def test_prioritize_with_no_nodes_is_answered() -> None:
    async def work() -> Json:
        bench = await a_service()
        request = {"task": task(a_pod()), "nodes": None}
        return await decoded(VolcanoExtender(bench.service).prioritize(body(request)))

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
def test_an_incomplete_request_is_rejected(change: object) -> None:
    async def work() -> None:
        bench = await a_service()
        request = json.loads(predicate(a_pod(), "n1"))
        change(request)  # type: ignore[operator]
        await VolcanoExtender(bench.service).predicate(body(request))

    with pytest.raises(BodyError):
        run(work())


def test_the_log_records_reservations() -> None:
    async def work() -> Bench:
        bench = await a_service()
        await VolcanoExtender(bench.service).allocate(event(a_pod(), "n1", 2))
        return bench

    decision = run(work()).decision_log.decisions[-1]

    assert (decision.verb, decision.outcome, decision.node) == ("allocate", Outcome.HELD, "n1")


def test_tasks_that_are_asked_about_in_turns_are_answered_for_each_node() -> None:
    async def work() -> list[int]:
        bench = await a_service(a_node("n1"), a_node("n2", memory=500 * MIB), a_node("n3"))
        extender = VolcanoExtender(bench.service)
        first, second = a_pod("first", memory=1000), a_pod("second", memory=100)
        asked = [(pod, name) for name in ("n1", "n2", "unknown", "n3") for pod in (first, second)]
        return [
            (await decoded(extender.predicate(predicate(pod, name))))["code"] for pod, name in asked
        ]

    assert run(work()) == [0, 0, 3, 0, 3, 3, 0, 0]


def test_a_changed_pod_policy_or_ledger_is_not_answered_from_an_earlier_task() -> None:
    async def work() -> list[int]:
        bench = await a_service(a_node("n1", cards=1, memory=1000 * MIB), a_node("n2"))
        extender = VolcanoExtender(bench.service)
        codes: list[int] = []

        async def ask(pod: Json) -> None:
            codes.append((await decoded(extender.predicate(predicate(pod, "n1"))))["code"])

        await ask(a_pod("p", memory=800))
        await ask(a_pod("p", memory=2000))  # the same uid, another request
        await ask(a_pod("p", memory=800))
        await extender.allocate(event(a_pod("other", memory=800), "n1", PredicateStatus.ALLOCATED))
        await ask(a_pod("p", memory=800))
        bench.service.forget("p")
        await ask(a_pod("p", memory=800))
        return codes

    assert run(work()) == [0, 3, 0, 2, 2]


def test_a_body_that_go_would_not_write_is_answered_for_each_node() -> None:
    async def work() -> list[Json]:
        bench = await a_service(a_node("n1"), a_node("n2", memory=500 * MIB))
        extender = VolcanoExtender(bench.service)
        pod = a_pod(memory=1000)
        return [
            await decoded(
                extender.predicate(json.dumps({"node": {"Name": name}, "task": task(pod)}).encode())
            )
            for name in ("n1", "n2")
        ]

    assert [answer["code"] for answer in run(work())] == [0, 3]


def test_a_gang_that_exceeds_the_quota_is_refused_while_it_is_planned() -> None:
    async def work() -> list[Json]:
        quota = Quota("default", QuotaLimits(memory=6 * GIB), counted=True)
        bench = await a_service(quotas=MemoryQuotas((quota,)))
        await bench.see_quota()
        extender = VolcanoExtender(bench.service)
        plan = [event(a_pod(name), node, 2) for name, node in (("a", "n1"), ("b", "n2"))]
        answers = [await decoded(extender.allocate(each)) for each in plan]
        return [*answers, await decoded(extender.predicate(predicate(a_pod("c"), "n2")))]

    first, second, third = run(work())

    text = "quota of namespace default: memory 1856 MiB short (4000 MiB of 6 GiB used)"
    assert first == {"errorMessage": ""}
    assert second == {"errorMessage": f"n2: {text}"}
    assert text in json.dumps(third)


def test_evictions_of_pods_without_cards_are_not_kept() -> None:
    """Each kept its uid, of any length, for half a minute."""

    async def work() -> int:
        extender = VolcanoExtender((await a_service()).service)
        for number in range(100):
            await extender.deallocate(event(a_pod(f"p{number}"), "n1", 64))
        return len(extender._releasing)

    assert run(work()) == 0
