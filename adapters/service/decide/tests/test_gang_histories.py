"""Random gangs through two replicas that are killed, stale and refused: none is bound in part."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.accounting.gang_cache import Gang, GangCache
from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.merge import read_node
from adapters.service.decide import gangs
from adapters.service.decide.gangs import Gangs
from adapters.service.decide.ports import BindError, Ports
from adapters.service.decide.service import Service
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names
from adapters.service.tests.builders import (
    DIALECTS,
    CountingCluster,
    CountingStore,
    FakeClock,
    Json,
    RecordingDecisionLog,
    a_metax_node,
    a_node,
    a_pod,
    decoded,
    read_pod,
    run,
)
from adapters.stores.memory import MemoryTable
from adapters.stores.store import StoreError
from adapters.wire.kube import KubeNode, Pod
from core.durations import SECOND
from core.feasibility.node_names import NodeNames
from core.ledger.node_ledger import NodeLedger

T = TypeVar("T")

GANG = "gang.scheduling.koordinator.sh"
NODES: tuple[KubeNode, ...] = (a_node("n0"), a_node("n1", cards=4), a_metax_node("n2"))
NAMES = [node.metadata.name for node in NODES]
SHARES: tuple[Json, ...] = (
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 5000},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 2500},
    {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 3000},
    {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 40, "metax-tech.com/vmemory": "20Gi"},
)
ATTEMPTS = 24


@pytest.fixture(autouse=True, scope="module")
def _soon() -> Iterator[None]:
    """Wait a moment only for what a watch does not report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gangs, "LOOK", 0)
        patch.setattr(gangs, "LOOKS", 2)
        yield


class Replica:
    """One service with its caches, over the store and the API server of all."""

    def __init__(self, table: MemoryTable, cluster: CountingCluster, clock: FakeClock) -> None:
        self.store = CountingStore(table)
        self.cluster = cluster
        self.gangs = GangCache()
        log = RecordingDecisionLog()
        ports = Ports(self.store, cluster, cluster, cluster, clock, log, gangs=self.gangs)
        self.service = Service(DIALECTS, ports)
        self.service.readiness.mark_synced("ledgers")
        self.kube = KubeExtender(self.service)
        self._known: set[str] = set()

    async def watch(self) -> None:
        """Report all pods and ledgers as they are now."""
        pods = self.cluster.pods()
        for uid in self._known - {pod.metadata.uid for pod in pods}:
            self.gangs.drop(uid)
            self.service.forget(uid)
        self._known = {pod.metadata.uid for pod in pods}
        for pod in pods:
            self.gangs.put(pod)
        self.service.ledgers.load(await self.store.load())


class World:
    """A cluster, two replicas, and a scheduler that is strict about its gangs."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.trouble = dice.choice((0.0, 0.1, 0.3))
        self.limits = 0.1  # how often a pod cannot go to one of the nodes for other reasons
        self.table, self.cluster, self.clock = MemoryTable(), CountingCluster(), FakeClock()
        self.sizes: dict[str, int] = {}
        self.pods: dict[str, list[Json]] = {}
        self.singles: list[str] = []
        self.replicas = [self.replica() for _ in range(2)]

    def replica(self) -> Replica:
        return Replica(self.table, self.cluster, self.clock)

    async def start(self) -> None:
        for kube in NODES:
            node, _ = read_node(kube, None, DIALECTS)
            await self.replicas[0].store.write(NodeLedger.of(node), None)

    def add(self, name: str) -> None:
        """A gang of a few pods of several dialects; some have more pods than they need."""
        size = self.dice.choice((2, 2, 3, 4, 8))
        texts = {f"{GANG}/name": name, f"{GANG}/min-available": str(size)}
        more = self.dice.choice((0, 0, 1))
        self.sizes[name] = size
        self.pods[name] = [
            a_pod(f"{name}-{number}", limits=self.dice.choice(SHARES), annotations=texts)
            for number in range(size + more)
        ]
        for pod in self.pods[name]:
            self.cluster.put(read_pod(pod))

    async def remove(self, name: str) -> None:
        """Delete a gang; what it has is free at once."""
        for pod in self.pods.pop(name):
            self.cluster.remove(f"default/{pod['metadata']['name']}")
            await self.healthy().service.release(pod["metadata"]["uid"])

    def healthy(self) -> Replica:
        return self.replicas[0]

    def bound(self, name: str) -> int:
        there = {pod.metadata.name: pod for pod in self.cluster.pods()}
        return sum(bool(there[pod["metadata"]["name"]].spec.node_name) for pod in self.pods[name])

    async def ask(self, call: str, content: bytes) -> Json | None:
        """Ask one of the replicas, which may be stale, lose its store, or be killed meanwhile."""
        number = self.dice.randrange(2)
        replica = self.replicas[number]
        if self.dice.random() >= self.trouble:
            await replica.watch()
        if self.dice.random() < self.trouble:
            replica.store.failures = [StoreError("away")]
        asked: Awaitable[bytes] = getattr(replica.kube, call)(content)
        if self.dice.random() >= self.trouble:
            answer = await decoded(asked)
            replica.store.failures = []
            return answer
        task = asyncio.ensure_future(asked)
        for _ in range(self.dice.randrange(12)):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        replica.service.committer.close()
        self.replicas[number] = self.replica()
        await self.replicas[number].watch()
        return None

    async def attempt(self, name: str) -> None:
        """Place all pods of a gang that wait, and bind them if they are enough."""
        there = {pod.metadata.name: pod for pod in self.cluster.pods()}
        waiting = [
            pod for pod in self.pods[name] if not there[pod["metadata"]["name"]].spec.node_name
        ]
        self.dice.shuffle(waiting)
        chosen: dict[str, str] = {}
        for pod in waiting:
            offered = self.dice.sample(NAMES, 2) if self.dice.random() < self.limits else NAMES
            answer = await self.ask("filter", names(pod, *offered))
            if answer is not None and answer["NodeNames"]:
                chosen[pod["metadata"]["name"]] = self.dice.choice(answer["NodeNames"])
        if self.bound(name) + len(chosen) >= self.sizes[name]:
            await self.interrupt(name)
            for pod, node in chosen.items():
                if self.dice.random() < self.trouble:
                    self.cluster.answers = [BindError(409, "refused by a webhook")]
                await self.ask("bind", bind(pod, node))
                self.cluster.answers = []

    async def interrupt(self, name: str) -> None:
        """What happens to others, or for minutes, between a gang's filters and its binds."""
        for _ in range(self.dice.choice((0, 0, 1, 3)) * (self.limits > 0)):
            if self.dice.random() < 0.2 and not self.bound(name):
                await self.expire()
            await self.single()

    async def single(self) -> None:
        """Bind a pod that is in no gang, if it has room; it goes when the next one comes."""
        if len(self.singles) > 1:
            gone = self.singles.pop(0)
            self.cluster.remove(f"default/{gone}")
            await self.healthy().service.release(f"uid-{gone}")
        pod = a_pod(f"s{self.dice.randrange(10**9)}", limits=self.dice.choice(SHARES))
        self.cluster.put(read_pod(pod))
        self.singles.append(pod["metadata"]["name"])
        await self.healthy().watch()
        answer = await decoded(self.healthy().kube.filter(names(pod, *NAMES)))
        if answer["NodeNames"]:
            await self.healthy().kube.bind(bind(pod["metadata"]["name"], answer["NodeNames"][0]))

    async def expire(self) -> None:
        """The leader releases what is held for gangs of which no pod is bound."""
        self.clock.time += (gangs.REST + 120) * SECOND
        replica = self.healthy()
        await replica.watch()
        for name in self.pods:
            if not self.bound(name):
                for pod in self.pods[name]:
                    await replica.service.release(pod["metadata"]["uid"])

    async def settle(self) -> None:
        """End all trouble, and let the scheduler try again what is bound in part."""
        self.trouble = self.limits = 0.0
        for name in self.pods:
            if 0 < self.bound(name) < self.sizes[name]:
                await self.attempt(name)

    async def check(self) -> None:
        """No gang is bound in part, and no card has more than it has room for."""
        for name in self.pods:
            assert self.bound(name) == 0 or self.bound(name) >= self.sizes[name], name
        for stored in (await self.healthy().store.load()).values():
            again = NodeLedger.of(stored.ledger.node)
            for allocation in stored.ledger.allocations.values():
                again = again.allocate(allocation)


async def history(seed: int) -> int:
    """Run one; how many gangs are bound at its end."""
    world = World(Random(seed))  # noqa: S311
    await world.start()
    for number in range(ATTEMPTS):
        dice = world.dice
        if not world.pods or dice.random() < 0.4:
            world.add(f"g{number}")
        await world.attempt(dice.choice([*world.pods]))
        if not world.trouble:
            await world.check()
        if dice.random() < 0.15:
            await world.expire()
        if dice.random() < 0.15:
            await world.remove(dice.choice([*world.pods]))
    await world.settle()
    await world.check()
    return sum(world.bound(name) > 0 for name in world.pods)


@settings(max_examples=settings().max_examples // 4)
@given(st.integers(0, 2**32 - 1))
def test_no_gang_is_bound_in_part(seed: int) -> None:
    run(history(seed))


def test_histories_bind_gangs() -> None:
    async def work() -> int:
        return sum([await history(seed) for seed in range(10)])

    assert run(work()) >= 15


async def unchecked(self: Gangs, pod_request: PodRequest) -> None:
    """Let each bind of a gang through."""


def forgetful(self: GangCache, pod: Pod, gang: Callable[..., Gang | None] = GangCache.gang) -> Any:
    """Forget the last pod of a gang."""
    found = gang(self, pod)
    if found is None:
        return None
    (part,) = found.parts
    pods = sorted(part.pods, key=lambda each: each.metadata.name)[:-1]
    return replace(found, parts=(replace(part, minimum=part.minimum - 1, pods=tuple(pods)),))


async def nowhere(
    self: Gangs,
    pod_request: PodRequest,
    names: NodeNames,
) -> None:
    """Plan no gang, as a filter for single pods."""


@pytest.mark.parametrize(
    "mutants",
    [
        {"check_bind": unchecked},
        {"place": nowhere, "check_bind": unchecked},
        {"gang": forgetful, "check_bind": unchecked},
    ],
)
def test_the_histories_find_what_binds_a_gang_in_part(
    monkeypatch: pytest.MonkeyPatch, mutants: Mapping[str, object]
) -> None:
    for name, mutant in mutants.items():
        monkeypatch.setattr(GangCache if name == "gang" else Gangs, name, mutant)

    async def found() -> bool:
        for seed in range(100):
            try:
                await history(seed)
            except AssertionError:
                return True
        return False

    assert run(found())
