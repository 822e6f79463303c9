"""Rejected pods are woken when a node has room: all of them, in order, a few at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from adapters.accounting.gang_cache import GangCache
from adapters.repairs.repairs import RELEASED
from adapters.service.decide.gang_state import REST
from adapters.service.reconcile.requeue import WOKEN, PodRequeuer
from adapters.service.tests.builders import Bench, Json, a_node, a_pod, a_service, read_pod
from adapters.wire.kube import Pod
from core.durations import MILLISECOND, SECOND


@dataclass
class Woken:
    bench: Bench
    names: list[str] = field(default_factory=list)
    failures: int = 0
    again: bool = True
    unbound: list[Pod] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.requeuer = PodRequeuer(
            self.bench.service, self.wake, lambda *_: self.again, lambda: self.unbound
        )

    async def wake(self, pod: Pod, turn: str) -> None:
        assert turn
        if self.failures:
            self.failures -= 1
            raise OSError("no answer")
        self.names.append(pod.metadata.name)
        self.texts.append(turn)

    def refuse(self, *names: str, memory: int = 8000) -> None:
        for name in names:
            asking = self.bench.service.pod_requests.read(read_pod(a_pod(name, memory=memory)))
            assert asking is not None
            self.bench.service.waiting_pods.add(asking)


def on_one_card(test: Callable[[Woken], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await test(Woken(await a_service(a_node("n1", cards=1))))

    asyncio.run(main())


def rejected(pod: Json) -> Json:
    """A pod that its scheduler could not place."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {**pod, "status": {**pod["status"], "conditions": [condition]}}


async def fill(bench: Bench) -> None:
    asking = bench.service.pod_requests.read(read_pod(a_pod("first", memory=8000)))
    assert asking is not None
    await bench.service.committer.commit(asking, "n1")


def test_no_pod_is_woken_before_there_is_room_and_each_once_then() -> None:
    @on_one_card
    async def _(woken: Woken) -> None:
        await fill(woken.bench)
        woken.refuse("a", "b")
        assert await woken.requeuer.round() == 0

        await woken.bench.service.release("uid-first")

        assert await woken.requeuer.round() == 2
        assert await woken.requeuer.round() == 0
        assert woken.names == ["a", "b"]


def test_pods_that_another_process_rejected_are_woken_after_a_start() -> None:
    @on_one_card
    async def _(woken: Woken) -> None:
        await fill(woken.bench)
        guests = [a_pod("plain", limits={"cpu": 1}), a_pod("plugin", limits={"nvidia.com/gpu": 1})]
        woken.unbound = [
            read_pod(rejected(each))
            for each in (a_pod("a", memory=8000), a_pod("invalid", memory="much"), *guests)
        ] + [read_pod(a_pod("untried"))]
        assert await woken.requeuer.round() == 0

        await woken.bench.service.release("uid-first")

        assert await woken.requeuer.round() == 1
        assert woken.names == ["a"]


def test_no_process_writes_what_an_earlier_one_wrote() -> None:
    """A write that changes nothing is no event, and wakes no scheduler."""

    @on_one_card
    async def _(woken: Woken) -> None:
        woken.unbound = [read_pod(rejected(a_pod("a")))]
        await woken.requeuer.round()
        woken.bench.clock.time += MILLISECOND
        after = Woken(woken.bench, unbound=woken.unbound)
        await after.requeuer.round()

        assert len({*woken.texts, *after.texts}) == 2


def test_a_gang_is_woken_as_a_whole() -> None:
    """koord-scheduler asks about one pod of a gang, and rejects the others with that one."""
    texts = {
        "gang.scheduling.koordinator.sh/name": "g",
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
    pods = [read_pod(a_pod(name, annotations=texts)) for name in "ab"]

    async def main() -> list[str]:
        gangs = GangCache()
        for pod in pods:
            gangs.put(pod)
        woken = Woken(await a_service(a_node("n1", cards=1), gangs=gangs))
        asking = woken.bench.service.pod_requests.read(pods[0])
        assert asking is not None
        woken.bench.service.waiting_pods.add(asking)
        assert await woken.requeuer.round() == 2
        return woken.names

    assert sorted(asyncio.run(main())) == ["a", "b"]


def test_many_gangs_are_woken_a_few_at_a_time() -> None:
    async def main() -> int:
        gangs = GangCache()
        woken = Woken(await a_service(a_node("n1", cards=1), gangs=gangs))
        for number in range(4 * WOKEN):
            texts = {
                "gang.scheduling.koordinator.sh/name": f"g{number % WOKEN}",
                "gang.scheduling.koordinator.sh/min-available": "4",
            }
            pod = read_pod(a_pod(f"p{number}", memory=1000, annotations=texts))
            gangs.put(pod)
            asking = woken.bench.service.pod_requests.read(pod)
            assert asking is not None
            woken.bench.service.waiting_pods.add(asking)
        return await woken.requeuer.round()

    assert asyncio.run(main()) <= WOKEN + 3


def test_a_gang_that_rested_is_woken_although_no_ledger_changed() -> None:
    async def main() -> list[int]:
        gangs = GangCache()
        bench = await a_service(a_node("n1", cards=1), gangs=gangs)
        woken = Woken(bench)
        now = datetime.fromtimestamp(bench.clock.wall() / SECOND, UTC).isoformat()
        texts = {
            "gang.scheduling.koordinator.sh/name": "g",
            "gang.scheduling.koordinator.sh/min-available": "2",
            RELEASED: now,
        }
        for name in "ab":
            pod = read_pod(a_pod(name, memory=1000, annotations=texts))
            gangs.put(pod)
            asking = bench.service.pod_requests.read(pod)
            assert asking is not None
            bench.service.waiting_pods.add(asking)
        counts = [await woken.requeuer.round()]
        for _ in range(2):
            bench.clock.time += (REST // 2 + 1) * SECOND
            counts.append(await woken.requeuer.round())
        return counts

    assert asyncio.run(main()) == [0, 0, 2]


def test_a_pod_behind_many_that_never_fit_is_found_without_another_change() -> None:
    @on_one_card
    async def _(woken: Woken) -> None:
        woken.refuse(*(f"big{number}" for number in range(500)), memory=9000)
        woken.refuse("small")

        for _ in range(3):
            await woken.requeuer.round()

        assert woken.names == ["small"]
        assert len(woken.bench.service.waiting_pods) == 500


def test_many_that_fit_are_woken_a_few_at_a_time_and_in_order() -> None:
    @on_one_card
    async def _(woken: Woken) -> None:
        names = [f"p{number:03}" for number in range(100)]
        woken.refuse(*names)

        counts = [await woken.requeuer.round() for _ in range(6)]

        assert max(counts) <= WOKEN
        assert woken.names == names


def test_a_pod_that_could_not_be_woken_is_retried_unless_it_was_deleted() -> None:
    @on_one_card
    async def _(woken: Woken) -> None:
        woken.refuse("a")
        woken.failures = 1
        await woken.requeuer.round()
        await woken.requeuer.round()
        assert woken.names == ["a"]

        woken.refuse("b")
        woken.failures, woken.again = 1, False
        woken.bench.service.ledgers.revision += 1
        await woken.requeuer.round()
        await woken.requeuer.round()
        assert woken.names == ["a"]


def test_no_pod_is_woken_before_the_watches_have_synced() -> None:
    @on_one_card
    async def _(woken: Woken) -> None:
        woken.refuse("a")
        woken.bench.service.readiness.mark_unsynced("pods")

        assert await woken.requeuer.round() == 0
