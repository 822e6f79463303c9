"""Random plans of random clusters, carried out in a storm, with kills of every process."""

import asyncio
from contextlib import suppress
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from adapters.dialects.merge import read_node
from adapters.service.decide.ports import Ports
from adapters.service.decide.service import Service
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names
from adapters.service.reconcile.move_coordinator import MoveCoordinator
from adapters.service.reconcile.tests.moved_cluster import READY, Plans, owned, owner_of
from adapters.service.reconcile.tests.preempted_cluster import Ended
from adapters.service.tests.builders import (
    DIALECTS,
    CountingCluster,
    CountingStore,
    FakeClock,
    Json,
    RecordingDecisionLog,
    a_node,
    a_pod,
    decoded,
    read_pod,
    run,
)
from adapters.stores.memory import MemoryTable
from adapters.stores.store import StoreError
from adapters.wire.kube import Pod
from adapters.wire.records.allocation import grant_record
from adapters.wire.records.move_plan import (
    MoveController,
    MovePhase,
    MovePlace,
    MovePlanObject,
    MovePlanSpec,
    PlannedMove,
    PlannedTarget,
    TargetKind,
    read_spec,
    read_status,
)
from core.durations import SECOND
from core.feasibility.inventory import Inventory
from core.ledger.node_ledger import NodeLedger
from core.moves.make_room import SearchLimits, make_room
from core.moves.places import Places
from core.moves.situation import MovePlan, PlannedPod, Situation
from core.requests.grant import Placement

SIZES = (1000, 2000, 3000, 4000, 5000)
TICKS = 120
QUIET = 300
"""Ticks without trouble after the storm, at most: each plan ends in them."""


class Replica:
    """One service with its caches, over the store and the API server of all."""

    def __init__(self, world: "World") -> None:
        ended = Ended()
        ended.cluster = world.cluster
        self.store = CountingStore(world.table)
        cluster, clock = world.cluster, world.clock
        log = RecordingDecisionLog()
        ports = Ports(
            store=self.store,
            binder=cluster,
            pods=cluster,
            events=cluster,
            clock=clock,
            decision_log=log,
            ended=ended,
            objects=cluster,
        )
        self.service = Service(DIALECTS, ports)
        self.service.readiness.mark_synced("ledgers")
        self.kube = KubeExtender(self.service)

    async def watch(self) -> None:
        """Report all ledgers as they are now."""
        self.service.ledgers.load(await self.store.load())


class World:
    """A cluster with a plan, two replicas, a scheduler, a mover and controllers.

    Attributes:
        targets: names of the pods for which the plan makes room, with their nodes.
        evicted: names of pods.
    """

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.trouble = dice.choice((0.0, 0.1, 0.3))
        self.table, self.clock = MemoryTable(), FakeClock()
        self.cluster, self.plans = CountingCluster(), Plans()
        self.nodes = [
            a_node(f"n{n}", cards=dice.choice((1, 2))) for n in range(dice.choice((2, 3)))
        ]
        self.names = [node.metadata.name for node in self.nodes]
        self.replicas = [Replica(self) for _ in range(2)]
        self.targets: dict[str, str] = {}
        self.evicted: list[str] = []
        self._made = 0

    async def start(self) -> bool:
        """Fill the nodes and make a plan; whether there is one with a move."""
        for kube in self.nodes:
            node, _ = read_node(kube, None, DIALECTS)
            await self.replicas[0].store.write(NodeLedger.of(node), None)
        await self.watch()
        for _ in range(self.dice.randint(4, 12)):
            await self.place(self.create(self.dice.choice(SIZES), group="web"))
        for pod in self.cluster.unbound():
            self.cluster.remove(f"default/{pod.metadata.name}")
        await self.watch()
        for memory in (5000, 6000, 7000, 8000):
            target = self.create(memory, group="job")
            plan = self.a_plan(target)
            if plan.found and plan.moves:
                self.carry_out(target, plan)
                return True
            self.cluster.remove(f"default/{target.metadata.name}")
        return False

    def carry_out(self, target: Pod, plan: MovePlan) -> None:
        """Create the object of a plan for a pod that waits."""
        (_, place) = plan.placed[0]
        self.targets[target.metadata.name] = place.node
        moves = tuple(self.a_move(move.pod.request.uid, move.target) for move in plan.moves)
        name, uid = target.metadata.name, target.metadata.uid
        kind = TargetKind.POD
        wanted = PlannedTarget(kind, name, len(moves), "default", uid, recorded(place))
        self.plans.create("plan", MovePlanSpec(moves, (wanted,)))

    def a_plan(self, target: Pod) -> MovePlan:
        service = self.replicas[0].service
        nodes = frozenset(self.names)

        def planned(pod: Pod, weight: int) -> PlannedPod:
            found = service.pod_requests.read(pod)
            assert found is not None
            return PlannedPod(found.request, nodes, weight=weight)

        movable = {
            pod.metadata.uid: planned(pod, 1) for pod in self.cluster.pods() if pod.spec.node_name
        }
        inventory = Inventory(service.ledgers.records())
        places = Places(Situation(inventory, movable))
        return make_room([planned(target, 0)], places, SearchLimits(6, 300))

    def a_move(self, uid: str, to: Placement) -> PlannedMove:
        pod = next(each for each in self.cluster.pods() if each.metadata.uid == uid)
        source = pod.spec.node_name or ""
        held = self.replicas[0].service.ledgers.record(source).allocations[uid]
        owner = owner_of(pod)
        return PlannedMove(
            "default",
            pod.metadata.name,
            uid,
            "volcano",
            MoveController(owner.kind, owner.name, owner.uid),
            recorded(Placement(source, held.grants)),
            recorded(to),
        )

    def create(self, memory: int, *, group: str, owner: str = "") -> Pod:
        """A pod of a controller of its own, or of an earlier one."""
        self._made += 1
        pod: Json = a_pod(f"{group}-{self._made}", memory=memory)
        return self.cluster.put(read_pod(owned(pod, owner=owner or f"{group}-set-{self._made}")))

    async def watch(self) -> None:
        for replica in self.replicas:
            await replica.watch()

    async def place(self, pod: Pod) -> None:
        """Try to bind a pod."""
        asked, binder = self.dice.choice(self.replicas), self.dice.choice(self.replicas)
        if self.dice.random() >= self.trouble:
            await asked.watch()
        thing = msgspec.to_builtins(pod)
        answer = await decoded(asked.kube.filter(names(thing, *self.names)))
        if answer["NodeNames"]:
            where = self.dice.choice(answer["NodeNames"])
            await binder.kube.bind(bind(pod.metadata.name, where))

    async def schedule(self) -> None:
        """Try all pods that wait, in any order."""
        waiting = [*self.cluster.unbound()]
        self.dice.shuffle(waiting)
        for pod in waiting:
            await self.place(pod)

    async def storm(self) -> None:
        """Pods that the plan does not know come and go."""
        others = [pod for pod in self.cluster.pods() if pod.metadata.name.startswith("storm")]
        if others and self.dice.random() < 0.5:
            self.cluster.remove(f"default/{self.dice.choice(others).metadata.name}")
        elif len(others) < 6:
            self.create(self.dice.choice((500, *SIZES, 8000)), group="storm")

    async def lead(self) -> None:
        """The leader looks; it may be killed anywhere, and the store be away."""
        replica = self.replicas[0]
        await replica.watch()
        if self.dice.random() < self.trouble:
            replica.store.failures = [StoreError("away")]
        coordinator = MoveCoordinator(replica.service, self.plans, self.pods_of, _report, _failed)
        look = asyncio.ensure_future(coordinator.look())
        if self.dice.random() < self.trouble:
            for _ in range(self.dice.randrange(20)):
                await asyncio.sleep(0)
            look.cancel()
            with suppress(asyncio.CancelledError):
                await look
            replica.service.committer.close()
            self.replicas[0] = Replica(self)
            await self.replicas[0].watch()
        else:
            await look
        replica.store.failures = []
        for node in self.names:
            await self.replicas[0].service.release_ended(node)

    async def move(self) -> None:
        """What the mover does; it may be killed between the eviction and the write."""
        await self.watch()  # no replica is as late as the mover's questions take
        plan = self.plans.by_name["plan"]
        status = read_status(plan)
        if status.phase is MovePhase.HELD:
            await self.write(plan, phase=MovePhase.READY)
        elif status.phase is MovePhase.EVICT:
            move = read_spec(plan).moves[status.step - 1]
            *earlier, step = status.steps
            if not step.begun_at:
                step = replace(step, begun_at="2026-01-31T12:00:00Z", mover="m")
                plan = await self.write(plan, steps=(*earlier, step))
            self.evict(move)
            if self.dice.random() >= self.trouble:
                evicted = replace(step, evicted_at="2026-01-31T12:00:00Z")
                await self.write(plan, phase=MovePhase.EVICTED, steps=(*earlier, evicted))

    def evict(self, move: PlannedMove) -> None:
        for pod in self.cluster.pods():
            if pod.metadata.uid == move.uid and not pod.metadata.deletion_timestamp:
                self.evicted.append(pod.metadata.name)
                gone = replace(pod.metadata, deletion_timestamp="2026-01-31T12:00:00Z")
                self.cluster.put(replace(pod, metadata=gone))
                service, owner = self.replicas[0].service, owner_of(pod)
                found = service.pod_requests.read(pod)
                assert found is not None
                memory = (found.request.containers[0].memory or 0) >> 20
                self.create(memory, group="web", owner=owner.name)

    async def write(self, plan: MovePlanObject, **changes: object) -> MovePlanObject:
        status = replace(read_status(plan), updated_at="2026-01-31T12:00:00Z", **changes)
        return await self.plans.write_status(plan, status)

    async def kubelets(self) -> None:
        """Containers of deleted pods stop, and those of others are ready."""
        for pod in self.cluster.pods():
            if pod.metadata.deletion_timestamp:
                if self.dice.random() < 0.5:
                    self.cluster.remove(f"default/{pod.metadata.name}")
            elif pod.spec.node_name and not pod.status.conditions:
                conditions = [READY]
                status = msgspec.convert(
                    {"phase": "Running", "conditions": conditions}, type(pod.status)
                )
                self.cluster.put(replace(pod, status=status))

    def pods_of(self, controller: str) -> list[Pod]:
        return [
            pod
            for pod in self.cluster.pods()
            if any(owner.uid == controller for owner in pod.metadata.owner_references or ())
        ]

    async def check(self) -> None:
        """No card is given twice, and no pod goes that the plan does not name."""
        for stored in (await self.replicas[1].store.load()).values():
            again = NodeLedger.of(stored.ledger.node)
            for allocation in stored.ledger.allocations.values():
                again = again.allocate(allocation)
        named = {move.pod for move in read_spec(self.plans.by_name["plan"]).moves}
        assert {*self.evicted} <= named
        assert len(self.evicted) == len({*self.evicted})


def recorded(placement: Placement) -> MovePlace:
    return MovePlace(placement.node, tuple(map(grant_record, placement.grants)))


def _report(plan: MovePlanObject, reason: str, text: str, *, warning: bool) -> None: ...


def _failed(text: str) -> None: ...


async def history(seed: int) -> int:
    """Run one; the moves of its plan."""
    world = World(Random(seed))  # noqa: S311
    if not await world.start():
        return 0
    steps = (world.schedule, world.storm, world.lead, world.lead, world.move, world.kubelets)
    for tick in range(TICKS + QUIET):
        if tick >= TICKS:
            world.trouble = 0.0
            if world.plans.status().phase in (MovePhase.FINISHED, MovePhase.STOPPED):
                break
        world.clock.time += world.dice.choice((0, 1, 2)) * SECOND
        await world.dice.choice(steps)()
        await world.check()
    status = world.plans.status()
    if "are not free any more" in status.reason:  # the storm came before the plan had begun
        assert not world.evicted
        return 0
    assert status.phase is MovePhase.FINISHED, (status.phase, status.reason, status.step)
    for _ in range(3):
        await world.kubelets()
        await world.lead()
        await world.schedule()
    at = {pod.metadata.name: pod.spec.node_name for pod in world.cluster.pods()}
    assert {name: at[name] for name in world.targets} == world.targets
    waiting = [name for name, node in at.items() if not node and not name.startswith("storm")]
    assert not waiting
    assert not any(replica.ledgers.holding() for replica in [world.replicas[0].service])
    return len(world.evicted)


@settings(max_examples=settings().max_examples // 4)
@given(st.integers(0, 2**32 - 1))
def test_every_plan_ends_as_it_says_in_a_storm(seed: int) -> None:
    run(history(seed))


def test_histories_move_pods() -> None:
    async def work() -> int:
        return sum([await history(seed) for seed in range(25)])

    assert run(work()) > 4
