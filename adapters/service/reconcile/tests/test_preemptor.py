"""Pods of higher priority get the cards of others, within bounds."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from adapters.service.decide.preemption import LATE
from adapters.service.endpoints.tests.kube_bodies import bind
from adapters.service.reconcile import preemptor
from adapters.service.reconcile.preemptor import (
    ATTEMPTS,
    DEFAULT_GRACE,
    MARGIN,
    MARK,
    MOST_EVICTED,
    REST,
    Preemptor,
)
from adapters.service.reconcile.tests.preempted_cluster import Rig, a_rig, rejected
from adapters.service.tests.builders import Json, a_node, a_pod, body, decoded, read_pod
from adapters.stores.store import StoreError
from adapters.wire.kube import KubeNode, pod_ref
from adapters.wire.kube_policy import Budget, PodGroupObject
from core.durations import SECOND
from core.requests.gang import GangApi

Test = Callable[[Rig], Coroutine[Any, Any, None]]


def on(*nodes: KubeNode, budgets: Sequence[Budget] = ()) -> Callable[[Test], None]:
    """Run a test on these nodes; by default on one with two cards of 8,192 MiB."""

    def runs(test: Test) -> None:
        async def main() -> None:
            await test(await a_rig(*nodes, budgets=budgets))

        asyncio.run(main())

    return runs


async def full(rig: Rig, priority: int = 0) -> None:
    """Two pods, each on a card of its own with 3,192 MiB left."""
    for name in ("low-1", "low-2"):
        await rig.run_pod(a_pod(name, memory=5000, priority=priority), "n1")


def a_budget(*names: str, allowed: int = 0) -> Budget:
    thing = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {
            "selector": {"matchExpressions": [{"key": "n", "operator": "In", "values": [*names]}]}
        },
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(thing, Budget)


def labelled(pod: Json, **more: object) -> Json:
    name = pod["metadata"]["name"]
    return {**pod, "metadata": {**pod["metadata"], "labels": {"n": name}, **more}}


def test_one_pod_goes_and_its_card_is_held_and_bound() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        urgent = rejected("urgent")
        await rig.refuse(urgent)

        await rig.preemptor.round()

        assert (rig.evictor.dry, rig.evictor.evicted) == (["low-2"], ["low-2"])
        assert rig.preemptor.waiting == 1
        await rig.preemptor.round()  # low-2 still runs
        assert rig.holders() == ["low-1", "low-2"]

        rig.end("low-2")
        await rig.preemptor.round()

        assert rig.holders() == ["low-1", "urgent"]
        assert rig.preemptor.waiting == 0
        assert await rig.ask(urgent) == ["n1"]
        assert await rig.ask(a_pod("other", memory=5000, priority=10)) == []
        assert await decoded(rig.kube.bind(bind("urgent", "n1"))) == {"Error": ""}
        assert rig.outcomes == [
            ("evict", "evicted", "low-2"),
            ("preempt", "evicted", "urgent"),
            ("preempt", "held", "urgent"),
        ]
        assert rig.reasons == [("low-2", "Preempted"), ("urgent", "Preempting")]
        # The pod may be in another namespace than its victim: only its uid is named.
        text = rig.bench.cluster.events[0][2]
        assert text == "Evicted for pod uid-urgent of priority 10 on n1"


def test_the_cards_are_held_in_the_write_that_releases_those_of_the_victims() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        await rig.preemptor.round()
        rig.end("low-2")
        writes = rig.bench.store.writes

        await rig.preemptor.round()

        assert rig.bench.store.writes == writes + 1
        assert rig.holders() == ["low-1", "urgent"]


def test_a_card_whose_pod_ends_first_is_kept_until_the_others_end() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        pod = a_pod("urgent", count=2, memory=5000, priority=10)
        await rig.refuse({**pod, "status": rejected("urgent")["status"]})
        await rig.preemptor.round()
        assert sorted(rig.evictor.evicted) == ["low-1", "low-2"]

        rig.end("low-2")
        await rig.bench.service.release("uid-low-2")
        await rig.preemptor.round()
        revision = rig.bench.service.revision
        await rig.preemptor.round()
        assert rig.bench.service.revision == revision

        assert await rig.ask(a_pod("other", memory=5000, priority=5)) == []
        assert await rig.ask(a_pod("small", memory=3000, priority=5)) == ["n1"]
        rig.end("low-1")
        await rig.preemptor.round()
        assert rig.holders() == ["urgent"]
        assert rig.bench.service.ledgers.reservation_count() == 0


def test_cards_that_the_leader_has_released_are_held_at_once() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        running = asyncio.create_task(rig.preemptor.run())
        while not rig.preemptor.waiting:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)

        rig.end("low-2")
        await rig.bench.service.release("uid-low-2")
        rig.preemptor.changed("n2")
        rig.preemptor.changed("n1")
        for _ in range(20):
            await asyncio.sleep(0)

        running.cancel()
        assert rig.holders() == ["low-1", "urgent"]


def test_the_eviction_that_costs_least_is_chosen_of_all_nodes_that_the_scheduler_named() -> None:
    @on(a_node("n1", cards=1), a_node("n2", cards=1), a_node("n3", cards=1))
    async def _(rig: Rig) -> None:
        for priority, node in ((3, "n1"), (2, "n2"), (1, "n3")):
            await rig.run_pod(a_pod(f"on-{node}", memory=5000, priority=priority), node)

        await rig.refuse(rejected("urgent"), "n1", "n2")
        await rig.preemptor.round()

        assert rig.evictor.evicted == ["on-n2"]


def test_a_node_with_an_attempt_has_no_second_one_meanwhile() -> None:
    @on(a_node("n1"), a_node("n2", cards=1))
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.run_pod(a_pod("there", memory=5000, priority=5), "n2")
        await rig.refuse(rejected("first"), "n1", "n2")
        await rig.refuse(rejected("second"), "n1", "n2")
        await rig.refuse(rejected("third"), "n1", "n2")

        await rig.preemptor.round()
        await rig.preemptor.round()

        assert rig.evictor.evicted == ["low-2", "there"]


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        ({"conditions": []}, {}),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Gated"}]}, {}),
        ({}, {"preemptionPolicy": "Never"}),
        ({}, {"priority": 0}),
        ({}, {"nodeName": "n9"}),
    ],
)
def test_nothing_is_evicted_for_a_pod_that_may_not_preempt(status: Json, spec: Json) -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        pod = rejected("urgent", **status)
        await rig.refuse({**pod, "spec": {**pod["spec"], **spec}})

        await rig.preemptor.round()

        assert (rig.evictor.dry, rig.evictor.evicted) == ([], [])


@pytest.mark.parametrize(
    ("priority", "seconds", "helps"),
    [(0, 30, True), (0, -59, True), (0, -61, False), (10, 30, False), (0, None, False)],
)
def test_a_nominated_node_counts_while_a_pod_of_lower_priority_ends_there(
    priority: int, seconds: int | None, *, helps: bool
) -> None:
    """koord-scheduler nominates a node also where it evicts no pod; a victim may be without cards.

    A pod that is there a minute after its grace period has not ended because it was evicted.
    """

    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent", nominatedNodeName="n2"))
        victim = a_pod("victim", limits={"cpu": 1}, priority=priority)
        victim["spec"]["nodeName"] = "n2"
        if seconds is not None:
            end = datetime.fromtimestamp(rig.bench.clock.wall() / SECOND + seconds, UTC)
            victim["metadata"]["deletionTimestamp"] = end.isoformat()
        rig.bench.cluster.put(read_pod(victim))

        await rig.preemptor.round()

        assert rig.evictor.evicted == ([] if helps else ["low-2"])


def test_nothing_is_evicted_while_no_answer_says_whether_the_scheduler_helps() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        rig.evictor.unlisted.append(OSError("no answer"))
        await rig.refuse(rejected("urgent", nominatedNodeName="n2"))

        await rig.preemptor.round()
        assert rig.evictor.evicted == []
        rig.sleep(5)
        await rig.preemptor.round()

        assert rig.evictor.evicted == ["low-2"]


def test_a_pod_of_a_device_plugin_or_that_was_made_again_is_not_helped() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        again = rejected("urgent")
        again["metadata"]["uid"] = "uid-2"
        rig.bench.cluster.put(read_pod(again))
        await rig.preemptor.round()
        rig.end("urgent")
        await rig.refuse(rejected("gone"))
        rig.end("gone")
        await rig.preemptor.round()

        assert rig.evictor.dry == []
        assert rig.bench.service.rejected_pods.all() == []


def test_the_scheduler_has_some_time_to_preempt_itself() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        rig.sleep(-1)
        await rig.preemptor.round()
        assert rig.evictor.evicted == []

        rig.sleep(1)
        await rig.preemptor.round()
        assert rig.evictor.evicted == ["low-2"]


def test_nothing_is_evicted_while_the_scheduler_evicts_what_the_extender_named() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        urgent = rejected("urgent")
        await rig.refuse(urgent)
        proposal = {"n1": {"Pods": [], "NumPDBViolations": 0}}  # as kube-scheduler 1.38 asks
        answer = await decoded(
            rig.kube.preempt(body({"Pod": urgent, "NodeNameToMetaVictims": proposal}))
        )
        assert answer["NodeNameToMetaVictims"]["n1"]["Pods"] == [{"UID": "uid-low-2"}]

        await rig.preemptor.round()
        assert rig.evictor.evicted == []

        rig.sleep(10)
        await rig.preemptor.round()
        assert rig.evictor.evicted == ["low-2"]


def test_pods_that_a_budget_protects_stay() -> None:
    @on(budgets=[a_budget("low-1", "low-2", allowed=0)])
    async def _(rig: Rig) -> None:
        for name in ("low-1", "low-2"):
            await rig.run_pod(labelled(a_pod(name, memory=5000)), "n1")
        await rig.refuse(rejected("urgent"))

        await rig.preemptor.round()

        assert (rig.evictor.dry, rig.evictor.evicted) == ([], [])


def test_another_pod_goes_than_the_one_that_a_budget_protects() -> None:
    @on(budgets=[a_budget("low-2")])
    async def _(rig: Rig) -> None:
        for name in ("low-1", "low-2"):
            await rig.run_pod(labelled(a_pod(name, memory=5000)), "n1")
        await rig.refuse(rejected("urgent"))

        await rig.preemptor.round()

        assert rig.evictor.evicted == ["low-1"]


def test_nothing_is_evicted_where_the_api_server_would_refuse_one() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent", memory=4000 * 2))
        rig.evictor.refusals = [OSError("429 a budget")]

        await rig.preemptor.round()
        rig.sleep(59)
        await rig.preemptor.round()

        assert (rig.evictor.evicted, rig.evictor.dry) == ([], [])
        assert rig.reasons == [("urgent", "PreemptionFailed")]
        assert rig.outcomes == [("preempt", "refused", "urgent")]

        rig.sleep(1)
        await rig.preemptor.round()
        assert rig.evictor.evicted == ["low-2"]


def test_an_attempt_whose_second_eviction_is_refused_holds_nothing() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        pod = a_pod("urgent", count=2, memory=5000, priority=10)
        await rig.refuse({**pod, "status": rejected("urgent")["status"]})
        rig.evictor.refusals = [None, None, None, OSError("no answer")]

        await rig.preemptor.round()

        assert rig.evictor.dry == ["low-2", "low-1"]
        assert rig.evictor.evicted == ["low-2"]
        assert rig.preemptor.waiting == 0
        assert rig.reasons == [("low-2", "Preempted"), ("urgent", "PreemptionFailed")]
        assert rig.outcomes[-1] == ("preempt", "error", "urgent")


def test_a_victim_that_is_gone_already_needs_no_eviction() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        rig.bench.cluster.late = {f"default/low-{n}": rig.pod(f"low-{n}") for n in (1, 2)}
        rig.end("low-2")  # the watch has not reported it
        evicted = rig.evictor.evict

        async def gone(pod: Any, *, dry_run: bool = False) -> bool:
            rig.bench.cluster.late.clear()
            return await evicted(pod, dry_run=dry_run)

        rig.evictor.evict = gone  # type: ignore[method-assign]
        await rig.preemptor.round()
        await rig.preemptor.round()

        assert rig.evictor.evicted == []
        assert rig.holders() == ["low-1", "urgent"]


def test_nothing_is_evicted_where_pods_that_are_being_deleted_free_enough() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.evictor.evict(pod_ref(rig.pod("low-1")))  # by an administrator
        rig.evictor.evicted.clear()
        await rig.refuse(rejected("urgent"))
        await rig.preemptor.round()
        assert rig.evictor.evicted == []

        rig.sleep(DEFAULT_GRACE + LATE // SECOND)  # its node is away
        await rig.preemptor.round()
        assert rig.evictor.evicted == ["low-2"]


def test_a_pod_that_changed_meanwhile_is_attempted_by_one_process() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        other = Preemptor(rig.bench.service, rig.evictor)
        await rig.refuse(rejected("urgent"))

        await asyncio.gather(rig.preemptor.round(), other.round())

        assert rig.evictor.evicted == ["low-2"]
        assert rig.preemptor.waiting + other.waiting == 1
        rig.end("low-2")
        await rig.bench.service.release("uid-low-2")
        await rig.run_pod(a_pod("low-3", memory=5000), "n1")  # it takes the place
        rig.sleep(REST - 5)
        for each in (rig.preemptor, other):
            await each.round()
        assert rig.evictor.evicted == ["low-2"]


@pytest.mark.parametrize("ahead", [-800, 0, 3600])
def test_the_time_between_attempts_is_waited_whatever_the_clock_of_the_other_process(
    ahead: int,
) -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        at = datetime.fromtimestamp(rig.bench.clock.wall() / SECOND + ahead, UTC).isoformat()
        mark = json.dumps({"attempts": 1, "at": at, "node": "n1"})
        pod = rejected("urgent")
        pod["metadata"]["annotations"] = {MARK: mark}
        await rig.refuse(pod)
        await rig.preemptor.round()
        rig.sleep(REST - 1)
        await rig.ask(pod)
        await rig.preemptor.round()
        assert rig.evictor.evicted == []
        rig.sleep(81)
        await rig.ask(pod)

        await rig.preemptor.round()

        assert len(rig.evictor.evicted) == 1


def test_a_victim_that_returns_and_takes_the_place_is_not_evicted_for_ever() -> None:
    @on(a_node("n1", cards=1))
    async def _(rig: Rig) -> None:
        await rig.run_pod(a_pod("low-0", memory=5000), "n1")
        await rig.refuse(rejected("urgent"))
        for number in range(ATTEMPTS):
            await rig.preemptor.round()
            assert rig.evictor.evicted[number:] == [f"low-{number}"]
            rig.end(f"low-{number}")
            await rig.bench.service.release(f"uid-low-{number}")
            await rig.run_pod(a_pod(f"low-{number + 1}", memory=5000), "n1")
            rig.sleep(REST - 1)
            await rig.ask(rejected("urgent"))
            await rig.preemptor.round()
            rig.sleep((REST << number) - REST + 6)
            await rig.ask(rejected("urgent"))
        rig.sleep(REST << ATTEMPTS)
        await rig.ask(rejected("urgent"))

        await rig.preemptor.round()

        assert len(rig.evictor.evicted) == ATTEMPTS
        assert rig.reasons.count(("urgent", "PreemptionFailed")) == ATTEMPTS


def test_what_is_not_free_in_time_is_given_up() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        await rig.preemptor.round()
        rig.sleep(DEFAULT_GRACE + MARGIN - 1)
        await rig.preemptor.round()
        assert rig.preemptor.waiting == 1

        rig.sleep(1)
        await rig.preemptor.round()

        assert rig.preemptor.waiting == 0
        assert rig.reasons[-1] == ("urgent", "PreemptionFailed")
        assert rig.bench.service.ledgers.reservation_count() == 0


def test_a_pod_that_is_bound_elsewhere_or_deleted_is_not_waited_for() -> None:
    @on(a_node("n1"), a_node("n2"))
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        await rig.preemptor.round()
        await rig.kube.bind(bind("urgent", "n2"))
        await rig.preemptor.round()
        assert rig.preemptor.waiting == 0

        rig.bench.clock.time = 0
        await rig.refuse(rejected("second"))
        rig.end("low-2")
        await rig.bench.service.release("uid-low-2")
        await rig.run_pod(a_pod("low-3", memory=5000), "n1")
        await rig.ask(rejected("second"))
        await rig.preemptor.round()
        assert rig.preemptor.waiting == 1
        rig.end("second")
        await rig.preemptor.round()
        assert rig.preemptor.waiting == 0


def test_errors_of_the_store_and_the_api_server_end_nothing() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        rig.bench.cluster.unread = [StoreError("no answer")]
        await rig.preemptor.round()
        assert rig.evictor.evicted == []
        rig.sleep(5)
        await rig.preemptor.round()
        rig.end("low-2")
        rig.bench.store.failures = [StoreError("no answer")]

        await rig.preemptor.round()
        assert rig.preemptor.waiting == 1
        await rig.preemptor.round()
        assert rig.holders() == ["low-1", "urgent"]


def test_few_pods_are_evicted_in_a_minute_for_one_namespace() -> None:
    number = MOST_EVICTED + 5
    nodes = [a_node(f"n{n}", cards=1) for n in range(number)]

    @on(*nodes)
    async def _(rig: Rig) -> None:
        names = [node.metadata.name for node in nodes]
        for name in names:
            await rig.run_pod(a_pod(f"low-{name}", memory=5000), name)
        for name in names:
            await rig.refuse(rejected(f"urgent-{name}"), *names)
        for _ in range(number):
            await rig.preemptor.round()
            for name in rig.evictor.evicted:
                if any(pod.metadata.name == name for pod in rig.bench.cluster.pods()):
                    rig.end(name)
        assert len(rig.evictor.evicted) == MOST_EVICTED

        rig.sleep(61)
        for _ in range(number):
            await rig.preemptor.round()
        assert len(rig.evictor.evicted) == number


def test_attempts_of_one_pod_are_counted_on_the_pod_and_in_memory() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        await rig.preemptor.round()
        mark = json.loads((rig.pod("urgent").metadata.annotations or {})[MARK])
        assert (mark["attempts"], mark["node"]) == (1, "n1")
        assert mark["at"].startswith("2026-01-31T12:00:0")


@pytest.mark.parametrize(
    "text", ["", "{", '{"attempts": -5, "at": "0001-01-01"}', '{"attempts": 1, "at": "soon"}']
)
def test_what_an_owner_writes_into_the_annotation_stops_nothing_else(text: str) -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        pod = rejected("urgent")
        pod["metadata"]["annotations"] = {MARK: text}
        await rig.refuse(pod)

        await rig.preemptor.round()

        assert rig.evictor.evicted == ["low-2"]


def test_the_pods_of_a_group_go_together_from_all_nodes() -> None:
    @on(a_node("n1", cards=1), a_node("n2", cards=1))
    async def _(rig: Rig) -> None:
        group = {
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"disruptionMode": {"all": {}}, "priority": 1},
        }
        rig.gangs.put_group(GangApi.KUBERNETES, msgspec.convert(group, PodGroupObject))
        for node in ("n1", "n2"):
            pod = a_pod(f"member-{node}", memory=5000)
            pod["spec"]["schedulingGroup"] = {"podGroupName": "g"}
            await rig.run_pod(pod, node)
        await rig.refuse(rejected("equal", priority=1))
        await rig.preemptor.round()
        assert rig.evictor.evicted == []

        await rig.refuse(rejected("urgent", priority=2))
        await rig.preemptor.round()

        assert sorted(rig.evictor.evicted) == ["member-n1", "member-n2"]


def test_a_service_that_is_not_ready_evicts_nothing() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        rig.bench.service.readiness.mark_unsynced("something")
        await rig.preemptor.round()
        assert rig.evictor.dry == []


def test_only_so_many_attempts_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptor, "AT_ONCE", 1)

    @on(a_node("n1", cards=1), a_node("n2", cards=1))
    async def _(rig: Rig) -> None:
        for node in ("n1", "n2"):
            await rig.run_pod(a_pod(f"low-{node}", memory=5000), node)
        for name in ("first", "second"):
            await rig.refuse(rejected(name), "n1", "n2")

        await rig.preemptor.round()

        assert rig.preemptor.waiting == 1
