"""A simulation of gangs: two services, which are killed, stale and refused, and one leader.

Pods of four dialects, in gangs that gain and lose pods, are filtered and bound through the bytes of
the extender. The ledgers, the commits and the reconciler are the shipped ones; time passes only
when the simulation says so.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from random import Random

import msgspec

from adapters.accounting.gang_cache import GangCache
from adapters.dialects.adoption import adopt
from adapters.dialects.merge import read_node
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide import gang_state, gangs
from adapters.service.decide.ports import BindError, Ports
from adapters.service.decide.service import Service
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names
from adapters.service.reconcile.nodes.controller import GRACE, Reconciler
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
)
from adapters.stores.memory import MemoryTable
from adapters.stores.store import StoreError
from adapters.wire.kube import (
    DeviceInfo,
    DeviceObject,
    DeviceSpec,
    KubeNode,
    Metadata,
    Pod,
    with_annotations,
)
from adapters.wire.kube import (
    annotations as annotations_of,
)
from core.durations import SECOND
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.request import PodRef

GANG = "gang.scheduling.koordinator.sh"
SHARES: tuple[Json, ...] = (
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 5000},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 2500},
    {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 3000},
    {"koordinator.sh/gpu-core": 40, "koordinator.sh/gpu-memory-ratio": 40},
    {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000},
    {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 40, "metax-tech.com/vmemory": "20Gi"},
)
ATTEMPTS = 16
LOOK = 15
"""Seconds between two looks of the leader at all ledgers."""


def described(name: str, cards: int) -> tuple[KubeNode, DeviceObject]:
    """A node whose cards Volcano, HAMi and Koordinator describe."""
    node = a_node(name, cards)
    listed = [
        {"id": f"GPU-{name}-{index}", "count": 10, "devmem": 8192, "devcore": 100}
        | {"type": "NVIDIA-A10", "mode": "hami-core", "health": True}
        for index in range(cards)
    ]
    texts = dict(node.metadata.annotations or {})
    texts["hami.io/node-nvidia-register"] = msgspec.json.encode(listed).decode()
    devices = tuple(
        DeviceInfo(
            type="gpu",
            id=f"GPU-{name}-{index}",
            minor=index,
            health=True,
            resources={"koordinator.sh/gpu-memory": "8Gi"},
        )
        for index in range(cards)
    )
    kube = KubeNode(Metadata(name, annotations=texts))
    return kube, DeviceObject(Metadata(name), DeviceSpec(devices))


class LivePods:
    """The pods of the API server for the leader."""

    def __init__(self, cluster: CountingCluster) -> None:
        self._cluster = cluster

    async def get(self, pod: PodRef) -> Pod | None:
        return await self._cluster.newest(pod)

    async def annotate(
        self,
        pod: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,  # noqa: ARG002
    ) -> Pod:
        found = await self._cluster.newest(pod)
        if found is None:
            raise StoreError("not found")
        texts = {**annotations_of(found), **{k: v for k, v in annotations.items() if v}}
        changed = with_annotations(found, texts)
        version = str(int(found.metadata.resource_version or "1") + 1)
        metadata = msgspec.structs.replace(changed.metadata, resource_version=version)
        return self._cluster.put(msgspec.structs.replace(changed, metadata=metadata))


class Replica:
    """One service with its caches, over the store and the API server of all."""

    def __init__(self, world: "World") -> None:
        self.store = CountingStore(world.table)
        self.gangs = GangCache()
        log = RecordingDecisionLog()
        cluster = world.cluster
        ports = Ports(
            store=self.store,
            binder=cluster,
            pods=cluster,
            events=cluster,
            clock=world.clock,
            decision_log=log,
            gangs=self.gangs,
        )
        self.service = Service(DIALECTS, ports)
        self.service.readiness.mark_synced("ledgers")
        self.kube = KubeExtender(self.service)
        self.cache = ClusterCache()
        for kube, device in world.described:
            self.cache.put_node(kube)
            if device is not None:
                self.cache.put_device(device)
        self.cache.follow_pods(self.gangs)
        self.reconciler = Reconciler(
            self.service, self.cache, self.store, LivePods(cluster), log, world.grace
        )
        self._cluster = cluster
        self._known: dict[str, Pod] = {}

    async def watch(self) -> None:
        """Report all pods and ledgers as they are now."""
        pods = {pod.metadata.uid: pod for pod in self._cluster.pods()}
        for uid in self._known.keys() - pods.keys():
            self.cache.drop_pod(self._known[uid].metadata)
            self.service.forget(uid)
        for uid, pod in pods.items():
            if self._known.get(uid) is not pod:
                self.cache.put_pod(pod)
        self._known = pods
        self.service.ledgers.load(await self.store.load())


class World:
    """A cluster, two replicas of which one leads, and a scheduler that is strict about its gangs.

    Attributes:
        grace: seconds after which the leader releases what is held for a pod that is not bound.
        counts: what happened.
    """

    def __init__(self, dice: Random, grace: int = GRACE) -> None:
        self.dice, self.grace = dice, grace
        self.counts = Counter[str]()
        self.trouble = dice.choice((0.0, 0.1, 0.3))
        self.limits = 0.1  # how often a pod cannot go to one of the nodes for other reasons
        self.is_large = dice.random() < 0.04
        size = 6 if self.is_large else 1
        self.described: list[tuple[KubeNode, DeviceObject | None]] = [
            described("n0", 2 * size),
            described("n1", 4 * size),
            (a_metax_node("n2", 2 * size), None),
        ]
        self.nodes: dict[str, Node] = {
            kube.metadata.name: read_node(kube, device, DIALECTS)[0]
            for kube, device in self.described
        }
        self.table, self.cluster, self.clock = MemoryTable(), CountingCluster(), FakeClock()
        self.sizes: dict[str, int] = {}
        self.pods: dict[str, list[Json]] = {}
        self.left: Counter[str] = Counter()
        self.excused: set[str] = set()
        self.whole: set[str] = set()
        self.singles: list[str] = []
        self.seen: dict[tuple[str, str, int], int] = {}
        self.made = 0
        self.replicas = [Replica(self) for _ in range(2)]

    async def start(self) -> None:
        for node in self.nodes.values():
            await self.replicas[0].store.write(NodeLedger.of(node), None)

    # --- the pods ---------------------------------------------------------------------------------

    def add(self, name: str) -> None:
        """A gang of pods of several dialects; some have more pods than they need."""
        size = self.dice.choice((2, 2, 3, 4, 8))
        if self.is_large and self.dice.random() < 0.5:
            size = self.dice.randrange(9, 33)
        self.counts["gangs"] += 1
        self.counts["pods"] += size
        self.sizes[name], self.pods[name] = size, []
        for _ in range(size + self.dice.choice((0, 0, 1))):
            self.grow(name)

    def grow(self, name: str, share: Json | None = None) -> None:
        """Add a pod to a gang."""
        self.made += 1
        pod = a_pod(
            f"{name}-{self.made}",
            limits=self.dice.choice(SHARES) if share is None else share,
            annotations={f"{GANG}/name": name, f"{GANG}/min-available": str(self.sizes[name])},
        )
        pod["metadata"]["resourceVersion"] = "1"
        self.pods[name].append(pod)
        self.cluster.put(read_pod(pod))

    async def shrink(self, name: str) -> None:
        """Delete a pod of a gang; those that were bound together with it stay."""
        pod = self.pods[name].pop(self.dice.randrange(len(self.pods[name])))
        in_part = self.in_part(name)
        was_bound = await self.delete(pod)
        self.left[name] += was_bound
        if in_part or (self.trouble and not was_bound):
            self.excused.add(name)  # a replica may bind others that knows the pod still
        self.counts["deleted"] += 1
        if not self.pods[name]:
            del self.pods[name]

    async def remove(self, name: str) -> None:
        """Delete a gang; what it has is free at once."""
        for pod in self.pods.pop(name):
            await self.delete(pod)

    async def delete(self, pod: Json) -> bool:
        """Delete a pod; whether it was bound."""
        gone = self.cluster.remove(f"default/{pod['metadata']['name']}")
        await self.replicas[0].service.release(pod["metadata"]["uid"])
        return gone is not None and bool(gone.spec.node_name)

    def unbound(self, name: str) -> list[Json]:
        """Return the pods of a gang that are not bound."""
        waiting = {pod.metadata.name for pod in self.cluster.unbound()}
        return [pod for pod in self.pods[name] if pod["metadata"]["name"] in waiting]

    def bound(self, name: str) -> int:
        return len(self.pods[name]) - len(self.unbound(name))

    def in_part(self, name: str) -> bool:
        """Return whether a gang is bound in part.

        Pods that were deleted when they were bound count.
        """
        bound = self.bound(name)
        if not bound:
            self.left[name] = 0
        return bound > 0 and bound + self.left[name] < self.sizes[name]

    # --- the schedulers ---------------------------------------------------------------------------

    async def ask(self, call: str, content: bytes) -> Json | None:
        """Ask one of the replicas, which may be stale, lose its store, or be killed meanwhile."""
        number = self.dice.randrange(2)
        replica = self.replicas[number]
        if self.dice.random() >= self.trouble:
            await replica.watch()
        if self.dice.random() < self.trouble:
            replica.store.failures = [StoreError("away")]
        if self.dice.random() < self.trouble:
            replica.store.races = 1
        asked: Awaitable[bytes] = getattr(replica.kube, call)(content)
        if self.dice.random() >= self.trouble:
            answer = await decoded(asked)
            replica.store.failures, replica.store.races = [], 0
            return answer
        task = asyncio.ensure_future(asked)
        for _ in range(self.dice.randrange(12)):
            await asyncio.sleep(0)
        await self.kill(number, task)
        return None

    async def kill(self, number: int, task: "asyncio.Future[bytes]") -> None:
        """End a replica in the middle of a call, and start another."""
        self.counts["kills"] += 1
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        self.replicas[number].service.committer.close()
        self.replicas[number] = Replica(self)
        await self.replicas[number].watch()
        if number == 0:
            self.seen.clear()  # the next leader waits again

    async def attempt(self, name: str) -> None:
        """Place all pods of a gang that wait, and bind them if they are enough."""
        waiting = self.unbound(name)
        self.dice.shuffle(waiting)
        chosen: dict[str, str] = {}
        for pod in waiting:
            offered = [*self.nodes]
            if self.dice.random() < self.limits:
                offered = self.dice.sample(offered, 2)
            answer = await self.ask("filter", names(pod, *offered))
            if answer is not None and answer["NodeNames"]:
                chosen[pod["metadata"]["name"]] = self.dice.choice(answer["NodeNames"])
        if self.bound(name) + len(chosen) >= self.sizes[name]:
            await self.interrupt(name)
            for pod, node in chosen.items():
                await self.bind(pod, node)
        if self.bound(name) >= self.sizes[name] and name not in self.whole:
            self.whole.add(name)
            self.counts["bound"] += 1
            self.counts["largest"] = max(self.counts["largest"], self.sizes[name])

    async def bind(self, pod: str, node: str) -> None:
        """Bind a pod; the API server may refuse it, or its answer be lost."""
        if self.dice.random() < self.trouble:
            self.cluster.answers = [BindError(409, "refused by a webhook")]
        if self.dice.random() < self.trouble:
            self.cluster.lost = [BindError(0, "no answer")]
        await self.ask("bind", bind(pod, node))
        self.cluster.answers, self.cluster.lost = [], []

    async def interrupt(self, name: str) -> None:
        """What happens to others, or for minutes, between a gang's filters and its binds."""
        for _ in range(self.dice.choice((0, 0, 1, 3)) * (self.limits > 0)):
            if self.dice.random() < 0.2 and not self.bound(name):
                await self.wait(GRACE + 2 * LOOK)
            await self.single()

    async def single(self) -> None:
        """Bind a pod that is in no gang, if it has room; it goes when the next ones come."""
        healthy = self.replicas[0]
        if len(self.singles) > 1:
            gone = self.singles.pop(0)
            self.cluster.remove(f"default/{gone}")
            await healthy.service.release(f"uid-{gone}")
        self.made += 1
        pod = a_pod(f"s{self.made}", limits=self.dice.choice(SHARES))
        self.cluster.put(read_pod(pod))
        self.singles.append(pod["metadata"]["name"])
        await healthy.watch()
        answer = await decoded(healthy.kube.filter(names(pod, *self.nodes)))
        if answer["NodeNames"]:
            await healthy.kube.bind(bind(pod["metadata"]["name"], answer["NodeNames"][0]))

    # --- the leader -------------------------------------------------------------------------------

    async def wait(self, seconds: int) -> None:
        """Let time pass while no scheduler asks; no gang may be bound in part meanwhile."""
        if any(self.in_part(name) for name in self.pods):
            return
        for _ in range(0, seconds, LOOK):
            self.clock.time += LOOK * SECOND
            await self.look()

    async def look(self) -> None:
        """The leader looks at all ledgers: nothing is held past its time then."""
        leader = self.replicas[0]
        await leader.watch()
        for name in self.nodes:
            await leader.reconciler.reconcile(name)
        now, seen = self.clock.time, dict[tuple[str, str, int], int]()
        bound = {pod.metadata.uid for pod in self.cluster.pods() if pod.spec.node_name}
        for name, ledger in (await self.ledgers()).items():
            for uid in ledger.allocations.keys() - bound:
                key = name, uid, ledger.allocations[uid].attempt
                seen[key] = self.seen.get(key, now)
                assert now - seen[key] < GRACE * SECOND, f"{uid} holds cards past its time"
        self.seen = seen

    # --- the checks -------------------------------------------------------------------------------

    async def ledgers(self) -> Mapping[str, NodeLedger]:
        stored = await self.replicas[0].store.load()
        return {name: each.ledger for name, each in stored.items()}

    async def settle(self) -> None:
        """End all trouble, let the scheduler try again what is bound in part, and let time pass."""
        self.trouble = self.limits = 0.0
        for name in self.pods:
            if self.in_part(name):
                await self.attempt(name)
        await self.check()
        for _ in range(0, GRACE + LOOK, LOOK):
            await self.look()
            self.clock.time += LOOK * SECOND
        await self.look()
        bound = {pod.metadata.uid for pod in self.cluster.pods() if pod.spec.node_name}
        for ledger in (await self.ledgers()).values():
            assert ledger.allocations.keys() <= bound, "cards are held for ever"

    async def check(self) -> None:
        """No gang is bound in part, and no card has more than it has room for."""
        for name in self.pods:
            assert name in self.excused or not self.in_part(name), f"{name} is bound in part"
        ledgers = await self.ledgers()
        for ledger in ledgers.values():
            assert ledger.problems() == ()
        used = {name: NodeLedger.of(node) for name, node in self.nodes.items()}
        for pod in self.cluster.pods():
            node = pod.spec.node_name
            if node:
                allocation = adopt(pod, self.nodes[node], DIALECTS)
                assert allocation is not None, pod
                assert allocation.unread is None, allocation
                assert ledgers[node].allocations[pod.metadata.uid].grants == allocation.grants
                used[node] = used[node].reserve(allocation)


async def history(seed: int, grace: int = GRACE) -> Counter[str]:
    """Run one, from its number; what happened in it."""
    world = World(Random(seed), grace)  # noqa: S311
    await world.start()
    dice = world.dice
    for number in range(ATTEMPTS):
        if not world.pods or dice.random() < 0.4:
            world.add(f"g{number}")
        await world.attempt(dice.choice([*world.pods]))
        if not world.trouble:
            await world.check()
        if dice.random() < 0.15:
            await world.wait(dice.choice((LOOK, gang_state.REST, GRACE + gang_state.REST)))
        if dice.random() < 0.15:
            world.grow(dice.choice([*world.pods]))
        if dice.random() < 0.1:
            await world.shrink(dice.choice([*world.pods]))
        if world.pods and dice.random() < 0.15:
            await world.remove(dice.choice([*world.pods]))
    await world.settle()
    return world.counts


def main() -> None:
    """Run the histories of some numbers, and print what happened in all of them.

    python -m adapters.service.decide.tests.gang_world FIRST LAST
    """
    gangs.LOOK, gangs.LOOKS = 0, 2
    counts, failed = Counter[str](), 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
        try:
            found = asyncio.run(history(seed))
        except AssertionError as error:
            failed += 1
            print(f"history {seed}: {error}", flush=True)  # noqa: T201
        else:
            largest = max(counts["largest"], found["largest"])
            counts += found
            counts["largest"] = largest
    print(f"{failed} failed: {dict(counts)}")  # noqa: T201


if __name__ == "__main__":
    main()
