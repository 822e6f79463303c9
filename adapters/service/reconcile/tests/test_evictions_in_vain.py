"""No pod is evicted where that helps none, or where the scheduler has something better."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from adapters.dialects.dra import DRA
from adapters.service.decide.advice.remembered_pods import NODES
from adapters.service.decide.preemption import LATE, node_victims
from adapters.service.reconcile import preemptor
from adapters.service.reconcile.preemptor import DEFAULT_GRACE, LONGEST_GRACE, MARGIN, RECENT
from adapters.service.reconcile.requeue import PodRequeuer
from adapters.service.reconcile.tests.preempted_cluster import Rig, rejected
from adapters.service.reconcile.tests.test_preemptor import full, on
from adapters.service.tests.builders import Json, a_node, a_pod, read_pod
from adapters.stores.memory import MemoryStore
from adapters.stores.store import StoreError
from adapters.wire.kube import Pod, pod_ref
from adapters.wire.kube_policy import PodGroupObject
from core.durations import SECOND
from core.ledger.node_ledger import NodeLedger
from core.requests.gang import GangApi
from core.requests.grant import Allocation
from core.requests.request import PodRef


def put_group(rig: Rig, **spec: object) -> None:
    thing = {"metadata": {"name": "g", "namespace": "default"}, "spec": spec}
    rig.gangs.put_group(GangApi.KUBERNETES, msgspec.convert(thing, PodGroupObject))


def in_group(pod: Json, **spec: object) -> Json:
    return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": "g"}, **spec}}


async def write(rig: Rig, ledger: NodeLedger) -> None:
    """Write a ledger as another process does."""
    stored = rig.bench.service.ledgers.stored(ledger.node.name)
    assert stored is not None
    await MemoryStore.write(rig.bench.store, ledger, stored.version)
    await rig.bench.sync()


def test_no_pod_of_a_group_goes_where_one_on_another_node_has_a_priority_as_high() -> None:
    @on(a_node("n1", cards=1), a_node("n2", cards=1))
    async def _(rig: Rig) -> None:
        put_group(rig, disruptionMode={"all": {}})
        await rig.run_pod(in_group(a_pod("low", memory=5000)), "n1")
        await rig.run_pod(in_group(a_pod("important", memory=5000, priority=10)), "n2")
        await rig.refuse(rejected("urgent"), "n1")

        await rig.preemptor.round()

        assert rig.evictor.evicted == []


def test_the_grace_period_of_a_pod_of_a_group_is_waited_for() -> None:
    @on(a_node("n1", cards=1))
    async def _(rig: Rig) -> None:
        put_group(rig, disruptionMode={"all": {}})
        pod = in_group(a_pod("low", memory=5000), terminationGracePeriodSeconds=300)
        await rig.run_pod(pod, "n1")
        await rig.refuse(rejected("urgent"), "n1")
        await rig.preemptor.round()

        rig.sleep(DEFAULT_GRACE + MARGIN)
        await rig.preemptor.round()

        assert rig.preemptor.waiting == 1


def test_nothing_is_evicted_for_a_pod_whose_gang_becomes_known_later() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(in_group(rejected("urgent")))
        put_group(rig, schedulingPolicy={"gang": {"minCount": 4}})
        rig.gangs.put(rig.pod("urgent"))

        await rig.preemptor.round()

        assert rig.evictor.evicted == []
        assert rig.bench.service.rejected_pods.all() == []


def test_nothing_is_evicted_on_nodes_about_which_the_scheduler_asks_no_more() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        rig.sleep(RECENT // SECOND)

        await rig.preemptor.round()
        assert rig.evictor.evicted == []

        await rig.ask(rejected("urgent"))
        await rig.preemptor.round()
        assert rig.evictor.evicted == ["low-2"]


@pytest.mark.parametrize("grace", [LONGEST_GRACE + 1, 10**9, 2**63 - 1])
def test_no_grace_period_keeps_an_attempt_without_end(grace: int) -> None:
    @on()
    async def _(rig: Rig) -> None:
        low = a_pod("low-1", memory=5000)
        low["spec"]["terminationGracePeriodSeconds"] = grace
        await rig.run_pod(low, "n1")
        await rig.run_pod(a_pod("low-2", memory=5000), "n1")
        pod = a_pod("urgent", count=2, memory=5000, priority=10)
        await rig.refuse({**pod, "status": rejected("urgent")["status"]})
        await rig.preemptor.round()
        rig.end("low-2")
        await rig.bench.service.release("uid-low-2")
        await rig.preemptor.round()
        assert rig.bench.service.ledgers.reservation_count() == 1

        rig.sleep(LONGEST_GRACE + MARGIN)
        await rig.preemptor.round()

        assert rig.preemptor.waiting == 0
        assert rig.bench.service.ledgers.reservation_count() == 0


def test_a_pod_that_is_being_deleted_for_too_long_is_no_victim() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.evictor.evict(pod_ref(rig.pod("low-2")))  # by an administrator
        rig.evictor.evicted.clear()
        rig.sleep(DEFAULT_GRACE + LATE // SECOND)  # its node is away
        await rig.refuse(rejected("urgent"))

        await rig.preemptor.round()

        assert rig.evictor.evicted == ["low-1"]


def test_nothing_is_evicted_where_a_pod_is_gone_whose_cards_are_not_released_yet() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        rig.end("low-1")

        await rig.preemptor.round()

        assert rig.evictor.evicted == []


def test_nothing_is_evicted_where_a_pod_that_was_deleted_by_force_may_still_run() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        rig.end("low-1")
        ledger = rig.bench.service.ledgers.inventory.ledger("n1")
        held = ledger.allocations["uid-low-1"]
        free_at = rig.bench.clock.wall() // SECOND + 45
        await write(rig, ledger.adopt(replace(held, release_by=free_at)))

        await rig.preemptor.round()
        assert rig.evictor.evicted == []

        rig.sleep(45 + LATE // SECOND)
        await rig.ask(rejected("urgent"))
        await rig.preemptor.round()
        assert rig.evictor.evicted == ["low-2"]


def test_nothing_is_evicted_on_a_node_where_no_answer_says_whether_a_pod_has_ended() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))

        async def among(ledger: NodeLedger) -> list[Allocation]:
            raise StoreError(f"no answer about {ledger.node.name}")

        ended = rig.bench.service.ports.ended
        assert ended is not None
        ended.among = among  # type: ignore[method-assign]
        await rig.preemptor.round()

        assert rig.evictor.evicted == []


def test_a_pod_that_was_bound_by_another_replica_is_remembered_no_more() -> None:
    @on(a_node("n1", cards=1), a_node("n2", cards=1))
    async def _(rig: Rig) -> None:
        await rig.run_pod(a_pod("low", memory=5000), "n1")
        urgent = rejected("urgent")
        await rig.refuse(urgent, "n1")
        rig.bench.cluster.put(read_pod({**urgent, "spec": {**urgent["spec"], "nodeName": "n2"}}))

        await rig.preemptor.round()

        assert rig.evictor.evicted == []
        assert rig.bench.service.rejected_pods.all() == []


def test_victims_are_chosen_again_where_the_ledger_changed_while_others_were_evaluated() -> None:
    @on(a_node("n1", cards=2), a_node("n2", cards=1))
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.run_pod(a_pod("there", memory=5000, priority=5), "n2")
        await rig.refuse(rejected("urgent"), "n1", "n2")
        get = rig.bench.cluster.get

        async def changing(pod: PodRef) -> Any:
            if pod.name == "there":
                rig.bench.cluster.get = get  # type: ignore[method-assign]
                rig.end("low-1")
                await rig.bench.service.release("uid-low-1")
            return await get(pod)

        rig.bench.cluster.get = changing  # type: ignore[method-assign]
        await rig.preemptor.round()

        assert rig.holders() == ["low-2"]
        assert rig.evictor.evicted == []


def test_no_event_about_a_pod_names_pods_that_were_not_evicted_for_it() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        await rig.refuse(rejected("urgent"))
        refusal = OSError('429 TooManyRequests: pod "low-2" in "other" is protected by "budget"')
        rig.evictor.refusals = [refusal]
        await rig.preemptor.round()
        rig.sleep(60)
        rig.evictor.refusals = [None, refusal]
        await rig.preemptor.round()

        texts = [text for name, _, text in rig.bench.cluster.events if name == "default/urgent"]
        assert texts == [
            "n1: the API server would not evict each pod",
            "n1: 0 of 1 pods are evicted",
        ]
        logged = [each.text for each in rig.bench.decision_log.decisions if each.verb == "preempt"]
        assert all("budget" in text for text in logged)


def test_nothing_is_evicted_while_the_scheduler_tries_a_node_that_has_become_free() -> None:
    number = NODES + 6
    nodes = [a_node(f"n{at}", cards=1) for at in range(number)]

    @on(*nodes)
    async def _(rig: Rig) -> None:
        service, names = rig.bench.service, [node.metadata.name for node in nodes]
        for name in names:
            await rig.run_pod(a_pod(f"low-{name}", memory=5000), name)
        await rig.refuse(rejected("urgent"), *names)
        (waiting,) = service.rejected_pods.all()
        woken: list[str] = []

        async def wake(pod: Pod, text: str) -> None:  # noqa: ARG001
            woken.append(pod.metadata.name)

        requeuer = PodRequeuer(service, wake, lambda *_: False, tuple)
        await requeuer.round()
        left_out = next(name for name in names if name not in waiting.nodes)
        rig.end(f"low-{left_out}")
        await service.release(f"uid-low-{left_out}")
        await requeuer.round()
        await rig.preemptor.round()
        assert (woken, rig.evictor.evicted) == (["urgent"], [])

        await rig.run_pod(a_pod("third", memory=5000, priority=10), left_out)
        await rig.ask(rejected("urgent"), *names)
        await rig.preemptor.round()
        assert len(rig.evictor.evicted) == 1


def test_victims_are_not_searched_while_none_may_be_evicted_for_the_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preemptor, "MOST_EVICTED", 1)

    @on(a_node("n1", cards=1), a_node("n2", cards=1))
    async def _(rig: Rig) -> None:
        for node in ("n1", "n2"):
            await rig.run_pod(a_pod(f"low-{node}", memory=5000), node)
        for name in ("first", "second"):
            await rig.refuse(rejected(name), "n1", "n2")
        await rig.preemptor.round()
        assert len(rig.evictor.evicted) == 1

        async def searched(*_: object) -> None:
            pytest.fail("victims are searched")

        monkeypatch.setattr(preemptor, "node_victims", searched)
        rig.sleep(5)
        await rig.preemptor.round()
        assert rig.outcomes[-1] == ("preempt", "refused", "second")


def test_cards_are_held_while_the_eviction_for_another_pod_waits_for_an_answer() -> None:
    @on(a_node("n1", cards=1), a_node("n2", cards=1))
    async def _(rig: Rig) -> None:
        for node in ("n1", "n2"):
            await rig.run_pod(a_pod(f"low-{node}", memory=5000), node)
        await rig.refuse(rejected("first"), "n1")
        await rig.preemptor.round()
        await rig.refuse(rejected("second"), "n2")
        asked = asyncio.Event()

        async def hang(pod: PodRef, *, dry_run: bool = False) -> bool:  # noqa: ARG001
            asked.set()
            return await asyncio.Future[bool]()

        rig.evictor.evict = hang  # type: ignore[method-assign]
        running = asyncio.create_task(rig.preemptor.run())
        await asked.wait()

        rig.end("low-n1")
        await rig.bench.service.release("uid-low-n1")
        rig.preemptor.changed("n1")
        for _ in range(20):
            await asyncio.sleep(0)

        running.cancel()
        assert rig.holders() == ["first"]


async def run_until_evicted(rig: Rig) -> None:
    running = asyncio.create_task(rig.preemptor.run())
    async with asyncio.timeout(5):
        while not rig.evictor.evicted:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    running.cancel()


def test_cards_of_the_first_victim_are_reserved_while_the_second_one_is_evicted() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        pod = a_pod("urgent", count=2, memory=5000, priority=10)
        await rig.refuse({**pod, "status": rejected("urgent")["status"]})
        evict = rig.evictor.evict
        fits: list[list[str]] = []

        async def slowly(pod: PodRef, *, dry_run: bool = False) -> bool:
            if not dry_run and rig.evictor.evicted == ["low-2"]:
                rig.end("low-2")
                await rig.bench.service.release("uid-low-2")
                rig.preemptor.changed("n1")
                await asyncio.sleep(0.05)
                fits.append(await rig.ask(a_pod("other", memory=5000, priority=5)))
            return await evict(pod, dry_run=dry_run)

        rig.evictor.evict = slowly  # type: ignore[method-assign]
        await run_until_evicted(rig)

        assert rig.evictor.evicted == ["low-2", "low-1"]
        assert fits == [[]]


def test_the_second_victim_stays_where_the_pod_was_deleted_meanwhile() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        pod = a_pod("urgent", count=2, memory=5000, priority=10)
        await rig.refuse({**pod, "status": rejected("urgent")["status"]})
        evict = rig.evictor.evict

        async def deleting(pod: PodRef, *, dry_run: bool = False) -> bool:
            evicted = await evict(pod, dry_run=dry_run)
            if not dry_run and rig.evictor.evicted == ["low-2"]:
                rig.end("urgent")
                rig.preemptor.changed("n1")
                await asyncio.sleep(0.05)
            return evicted

        rig.evictor.evict = deleting  # type: ignore[method-assign]
        await run_until_evicted(rig)

        assert rig.evictor.evicted == ["low-2"]
        assert rig.preemptor.waiting == 0


def test_claims_are_no_pods_to_ask_the_api_server_about() -> None:
    @on()
    async def _(rig: Rig) -> None:
        await full(rig)
        ledger = rig.bench.service.ledgers.inventory.ledger("n1")
        held = replace(ledger.allocations["uid-low-1"], uid="c", pod="default/claim", dialect=DRA)
        await write(rig, ledger.adopt(held))
        get, asked = rig.bench.cluster.get, list[str]()

        async def counting(pod: PodRef) -> Any:
            asked.append(pod.name)
            return await get(pod)

        await rig.refuse(rejected("urgent", memory=8000))
        rig.bench.cluster.get = counting  # type: ignore[method-assign]
        await rig.preemptor.round()

        assert rig.evictor.evicted == ["low-2"]
        assert "claim" not in asked


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("priority", [10, 20])
@pytest.mark.parametrize("number", [200, 300])
def test_pods_that_no_eviction_helps_keep_no_other_namespace_from_one(
    number: int, priority: int, *, alike: bool
) -> None:
    """They may be alike or not, outrank the pod, and be more than are remembered."""

    @on(a_node("n1", cards=1), a_node("n2", cards=2))
    async def _(rig: Rig) -> None:
        await rig.run_pod(a_pod("low", memory=5000), "n1")
        await rig.run_pod(a_pod("important", memory=8000, priority=10_000), "n2")
        await rig.run_pod(a_pod("there", memory=5000), "n2")
        for at in range(number):
            pod = a_pod(f"evil-{at}", count=2, memory=5000 if alike else 5000 + at)
            pod["metadata"]["namespace"] = "evil"
            pod["spec"]["priority"] = priority
            await rig.ask({**pod, "status": rejected("x")["status"]}, "n2")
        await rig.refuse(rejected("honest"), "n1")

        for _ in range(3):
            await rig.preemptor.round()
            rig.bench.clock.time += SECOND // 2

        assert rig.evictor.evicted == ["low"]


def test_a_look_in_vain_stands_for_pods_alike_also_for_those_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []
    search = node_victims

    async def counted(service: Any, pod: Any, *more: Any) -> Any:
        looks.append(pod.request.pod)
        return await search(service, pod, *more)

    monkeypatch.setattr(preemptor, "node_victims", counted)

    @on(a_node("n1", cards=2))
    async def _(rig: Rig) -> None:
        await rig.run_pod(a_pod("important", memory=8000, priority=10_000), "n1")
        await rig.run_pod(a_pod("low", memory=5000), "n1")
        for generation in range(3):
            for at in range(10):
                pod = a_pod(f"w{at}", count=2, memory=5000, priority=10)
                pod["metadata"]["uid"] = f"{generation}-{at}"
                rig.bench.service.rejected_pods.discard(f"{generation - 1}-{at}")
                await rig.ask({**pod, "status": rejected("x")["status"]})
            rig.bench.clock.time += 2 * SECOND
            await rig.preemptor.round()

        assert 1 <= len(looks) <= 4
        assert rig.evictor.evicted == []
