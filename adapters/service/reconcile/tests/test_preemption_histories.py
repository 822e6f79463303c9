"""Random preemption by two replicas that are killed, stale and refused, and victims that return."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.accounting.gang_cache import GangCache
from adapters.dialects.merge import read_node
from adapters.service.decide.ports import Ports
from adapters.service.decide.service import Service
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names
from adapters.service.reconcile import preemptor
from adapters.service.reconcile.preemptor import ATTEMPTS, REST, Mark, Preemptor
from adapters.service.reconcile.tests.preempted_cluster import REJECTED, Budgets, Ended, Evictor
from adapters.service.tests.builders import (
    DIALECTS,
    CountingCluster,
    CountingStore,
    FakeClock,
    RecordingDecisionLog,
    a_node,
    a_pod,
    decoded,
    read_pod,
    run,
)
from adapters.stores.memory import MemoryTable
from adapters.stores.store import StoreError
from adapters.wire.kube import Pod, labels
from adapters.wire.kube_policy import Budget
from core.durations import SECOND
from core.ledger.node_ledger import NodeLedger
from core.requests.request import PodRef

NODES = (a_node("n0"), a_node("n1", cards=1))
NAMES = [node.metadata.name for node in NODES]
STEPS = 60
SIZES = (3000, 5000, 8000)
MOST = 4
"""Victims of an attempt: two pods on each of two cards of 8,192 MiB."""
PROTECTED = msgspec.convert(
    {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"protected": "yes"}}},
        "status": {"disruptionsAllowed": 0},
    },
    Budget,
)


class WatchedEvictor(Evictor):
    """Checks each eviction and each attempt of one replica."""

    def __init__(self, world: "World") -> None:
        super().__init__(world.cluster, world.clock, [PROTECTED])
        self._world = world

    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> bool:
        await asyncio.sleep(0)
        if self._world.dice.random() < self._world.trouble:
            raise OSError("no answer")
        found = await self._world.cluster.get(pod)
        evicted = await super().evict(pod, dry_run=dry_run)
        if evicted and not dry_run:
            assert found is not None
            self._world.check_eviction(found)
        await asyncio.sleep(0)
        return evicted

    async def annotate(
        self,
        pod: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,
        version: str = "",
    ) -> Pod:
        await asyncio.sleep(0)
        changed = await super().annotate(pod, annotations, labels, version)
        number = msgspec.json.decode(str(annotations[preemptor.MARK]), type=Mark).attempts
        self._world.begun[pod.uid, number] += 1
        await asyncio.sleep(0)
        return changed


class Replica:
    """One service with its caches, over the store and the API server of all."""

    def __init__(self, world: "World") -> None:
        self.store = CountingStore(world.table)
        ended = Ended()
        ended.cluster = self.cluster = world.cluster
        evictor = WatchedEvictor(world)
        ports = Ports(
            store=self.store,
            binder=world.cluster,
            pods=world.cluster,
            events=world.cluster,
            clock=world.clock,
            decision_log=RecordingDecisionLog(),
            budgets=Budgets([PROTECTED]).all,
            gangs=GangCache(),
            ended=ended,
        )
        self.service = Service(DIALECTS, ports)
        self.service.readiness.mark_synced("ledgers")
        self.kube = KubeExtender(self.service)
        self.preemptor = Preemptor(self.service, evictor)

    async def watch(self) -> None:
        """Report all pods and ledgers as they are now."""
        there = {pod.metadata.uid for pod in self.cluster.pods()}
        for rejected in self.service.rejected_pods.all():
            if rejected.pod.request.uid not in there:
                self.service.forget(rejected.pod.request.uid)
        self.service.ledgers.load(await self.store.load())


class World:
    """A cluster, two replicas, a scheduler, and controllers that make evicted pods again.

    Attributes:
        begun: attempts by uid of a pod and their number.
        wrong: what must not have happened.
    """

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.trouble = dice.choice((0.0, 0.1, 0.3))
        self.table, self.clock = MemoryTable(), FakeClock()
        self.cluster = CountingCluster()
        self.begun: Counter[tuple[str, int]] = Counter()
        self.wrong: list[str] = []
        self.evictions = 0
        self._made = 0
        self.replicas = [Replica(self) for _ in range(2)]

    async def start(self) -> None:
        for kube in NODES:
            node, _ = read_node(kube, None, DIALECTS)
            await self.replicas[0].store.write(NodeLedger.of(node), None)

    def waiting(self) -> list[Pod]:
        return self.cluster.unbound()

    def check_eviction(self, pod: Pod) -> None:
        self.evictions += 1
        highest = max((each.spec.priority or 0 for each in self.waiting()), default=0)
        if (pod.spec.priority or 0) >= highest:
            self.wrong.append(f"{pod.metadata.name} goes for no pod of higher priority")
        if labels(pod):
            self.wrong.append(f"{pod.metadata.name} is protected")
        if self.evictions > MOST * sum(self.begun.values()):
            self.wrong.append("more pods go than attempts need")

    def create(self, priority: int | None = None) -> None:
        self._made += 1
        pod = a_pod(
            f"p{self._made}",
            memory=self.dice.choice(SIZES),
            count=self.dice.choice((1, 1, 1, 2)),
            priority=self.dice.choice((0, 0, 5, 10)) if priority is None else priority,
        )
        if self.dice.random() < 0.2:
            pod["metadata"]["labels"] = {"protected": "yes"}
        self.cluster.put(read_pod(pod))

    async def schedule(self) -> None:
        """Try to place all pods: at one replica or the other, with what these know."""
        waiting = sorted(self.waiting(), key=lambda pod: -(pod.spec.priority or 0))
        for pod in waiting:
            replica = self.dice.choice(self.replicas)
            if self.dice.random() >= self.trouble:
                await replica.watch()
            thing = msgspec.to_builtins(pod)
            answer = await decoded(replica.kube.filter(names(thing, *NAMES)))
            if answer["NodeNames"]:
                where = self.dice.choice(answer["NodeNames"])
                binder = self.dice.choice(self.replicas)
                await binder.kube.bind(bind(pod.metadata.name, where))
            elif not pod.status.conditions:
                status = {"phase": "Pending", "conditions": [REJECTED]}
                thing["status"] = status
                thing["metadata"]["resourceVersion"] = pod.metadata.resource_version + "r"
                self.cluster.put(read_pod(thing))

    async def preempt(self) -> None:
        """Run a round in one replica or both; one may be killed anywhere in it."""
        chosen = self.dice.choice(([0], [1], [0, 1]))
        if self.dice.random() < self.trouble:
            self.replicas[chosen[0]].store.failures = [StoreError("away")]
        rounds = [asyncio.ensure_future(self.replicas[at].preemptor.round()) for at in chosen]
        if self.dice.random() < self.trouble:
            for _ in range(self.dice.randrange(20)):
                await asyncio.sleep(0)
            rounds[0].cancel()
            with suppress(asyncio.CancelledError):
                await rounds[0]
            self.replicas[chosen[0]].service.committer.close()
            self.replicas[chosen[0]] = Replica(self)
            await self.replicas[chosen[0]].watch()
        for at, each in zip(chosen, rounds, strict=True):
            with suppress(asyncio.CancelledError):
                await each
            self.replicas[at].store.failures = []

    async def end_deleted(self) -> None:
        """The containers of evicted pods stop; their controllers make others."""
        for pod in self.cluster.pods():
            if pod.metadata.deletion_timestamp:
                self.cluster.remove(f"default/{pod.metadata.name}")
                self.create(pod.spec.priority or 0)

    async def lead(self) -> None:
        """The leader releases the cards of pods that are gone, and of holds that are old."""
        replica = self.replicas[0]
        await replica.watch()
        for node in NAMES:
            await replica.service.release_ended(node)
        if self.dice.random() < 0.2:
            self.clock.time += 120 * SECOND
            bound = {pod.metadata.uid for pod in self.cluster.pods() if pod.spec.node_name}
            for stored in (await replica.store.load()).values():
                for uid in stored.ledger.allocations.keys() - bound:
                    await replica.service.release(uid)
            await self.replicas[1].watch()

    async def check(self) -> None:
        assert not self.wrong, self.wrong
        assert all(count == 1 for count in self.begun.values()), self.begun
        assert all(number <= ATTEMPTS for _, number in self.begun), self.begun
        for stored in (await self.replicas[0].store.load()).values():
            again = NodeLedger.of(stored.ledger.node)
            for allocation in stored.ledger.allocations.values():
                again = again.allocate(allocation)


async def history(seed: int) -> tuple[int, int]:
    """Run one; evictions, and how many pods of priority 20 that came last are bound."""
    world = World(Random(seed))  # noqa: S311
    await world.start()
    steps = (world.schedule, world.preempt, world.preempt, world.end_deleted, world.lead)
    for _ in range(STEPS):
        if world.dice.random() < 0.15:
            world.create()
        world.clock.time += world.dice.choice((0, 1, 3, 30, REST)) * SECOND
        await world.dice.choice(steps)()
        await world.check()
    world.trouble = 0.0
    evictions = world.evictions
    world.cluster.put(read_pod(a_pod("last", memory=3000, priority=20)))
    for _ in range(20):
        for step in (world.schedule, world.preempt, world.end_deleted, world.lead):
            world.clock.time += 3 * SECOND
            await step()
            await world.check()
    last = next(pod for pod in world.cluster.pods() if pod.metadata.name == "last")
    return evictions, int(bool(last.spec.node_name))


@settings(max_examples=settings().max_examples // 4)
@given(st.integers(0, 2**32 - 1))
def test_no_history_evicts_twice_in_one_attempt_nor_a_protected_pod(seed: int) -> None:
    run(history(seed))


def test_histories_evict_and_the_most_important_pod_is_bound() -> None:
    async def work() -> tuple[int, int]:
        found = [await history(seed) for seed in range(40)]
        return sum(evictions for evictions, _ in found), sum(bound for _, bound in found)

    evictions, bound = run(work())
    assert evictions >= 20
    assert bound >= 36


async def uncompared(
    self: Evictor,
    pod: PodRef,
    annotations: Mapping[str, str | None],
    labels: Mapping[str, str | None] | None = None,  # noqa: ARG001
    version: str = "",  # noqa: ARG001
    annotate: object = Evictor.annotate,
) -> Pod:
    """Write the mark whatever the pod has become."""
    found = await self._cluster.get(pod)
    if found is None:
        raise OSError("404")
    return await annotate(self, pod, annotations, None, found.metadata.resource_version)  # type: ignore[operator,no-any-return]


def unread(pod: Pod) -> Mark:  # noqa: ARG001
    """Forget the attempts that a pod had."""
    return Mark()


@pytest.mark.parametrize("mutant", ["uncompared", "unread"])
def test_the_histories_find_what_attempts_twice(
    monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    if mutant == "unread":
        monkeypatch.setattr(preemptor, "_mark", unread)
    else:
        monkeypatch.setattr(Evictor, "annotate", uncompared)

    async def found() -> bool:
        for seed in range(100):
            try:
                await history(seed)
            except AssertionError:
                return True
        return False

    assert run(found())
