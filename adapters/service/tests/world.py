"""A simulation of two services, one store and an API server, in which the test chooses each step.

A service waits at a gate before and after each request. The test that opens the gate decides
whether the request, or its response, gets through. A service may be killed at any time; it then
never does anything again, and a new one starts on the same store.

Time is in ticks, each a second of the services' clocks. A Binding may be sent any time after its
bind began, as by a process that was stopped meanwhile, and the reconciler waits for ``GRACE``
ticks. The reconciler is the shipped one; each service has one, as if both had the Lease, over a
cluster cache that is stale until ``look``.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from dataclasses import dataclass

import msgspec

from adapters.dialects.adoption import adopt
from adapters.dialects.dialect import Defaults
from adapters.dialects.registry import dialects
from adapters.repairs.repairs import LOST_LEDGER, RELEASED
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.cluster_state.deleted_pods import DEFAULT_GRACE, MARGIN
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import BindError, DecisionRecord, Ports
from adapters.service.decide.service import Service
from adapters.service.reconcile.nodes.controller import Reconciler
from adapters.service.reconcile.quotas import QuotaReconciler
from adapters.service.tests.settling import settling_loop
from adapters.stores.memory import MemoryQuotas, MemoryRow, MemoryStore, MemoryTable
from adapters.stores.store import Change, Conflict, Stored, StoredQuota, StoreError
from adapters.wire.kube import Container, KubeNode, Metadata, Pod, PodSpec, Resources
from adapters.wire.records.hardware import NodeHardware
from adapters.wire.records.ledger import decode, encode
from core.durations import SECOND
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.quota.amounts import NOTHING, QuotaAmounts, QuotaLimits, total
from core.quota.quota import Quota, holds_of
from core.requests.reason import Cause, Reason
from core.requests.request import PodRef

NODES = ("n0", "n1")
LIVES = 2
GRACE = 3
LAG = 2
"""Ticks between two updates of a cluster cache; that of one service is stale for twice as long."""

DIALECTS = dialects({}, Defaults())

REQUESTS: tuple[dict[str, str | int | float], ...] = (
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3072},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 5120, "volcano.sh/vgpu-cores": 50},
    {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 4096},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 8192, "volcano.sh/vgpu-cores": 100},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 6144},
    {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50},
)
PODS = tuple(f"p{number}" for number in range(len(REQUESTS)))


def a_pod(number: int) -> Pod:
    return Pod(
        Metadata(name=PODS[number], namespace="default", uid=PODS[number], resource_version="1"),
        PodSpec(containers=(Container("main", Resources(REQUESTS[number])),)),
    )


def a_node(name: str) -> Node:
    return Node(
        name,
        tuple(
            Card(
                uuid=f"{name}-{index}",
                node=name,
                index=index,
                vendor="nvidia",
                model="A100",
                memory=8 * GIB,
                slots=3,
                dialects=frozenset({"volcano", "koordinator"}),
            )
            for index in range(2)
        ),
    )


@dataclass(slots=True)
class Gate:
    """A request or response that waits; the result is whether it gets through."""

    what: str
    opened: asyncio.Future[bool]


class World:
    """The services, the store and the API server.

    Attributes:
        quotas: of the only namespace, where there is one.
        lives: the running services.
        pods: by uid, as the API server has them; without deleted ones.
        truth: what bound pods use by their own annotations: one consistent ledger a node.
        now: in ticks.
        crashes: so far.
        bindings: those that the API server accepted so far.
        refused: binds that the quota refused so far.
        unrecorded: uids of pods whose commit was in a ledger that was deleted, until one has them.
    """

    def __init__(self, limits: QuotaLimits | None = None) -> None:
        self.table = MemoryTable()
        some = () if limits is None else (Quota("default", limits, counted=True),)
        self.quotas = MemoryQuotas(some)
        self.limits = limits or QuotaLimits()
        self.pods = {PODS[number]: a_pod(number) for number in range(len(PODS))}
        self.truth = {name: NodeLedger.of(a_node(name)) for name in NODES}
        self.now = 0
        self.crashes = 0
        self.bindings = 0
        self.refused = 0
        self.unrecorded: set[str] = set()
        self.wrong: list[str] = []
        for name in NODES:
            self.table.put(name, None, encode(self.truth[name]))
        self.lives = [Life(self) for _ in range(LIVES)]

    async def begin(self, life: int, pod: str, node: str) -> None:
        """A scheduler asks a service to bind a pod."""
        if pod in self.pods:
            self.lives[life].start(self.lives[life].bind(self.pods[pod], node))
        await self.turn()

    async def reconcile(self, life: int) -> None:
        """A service releases allocations without a pod."""
        self.lives[life].start(self.lives[life].reconcile())
        await self.turn()

    async def reconcile_quota(self, life: int) -> None:
        """A service makes the claims agree with the ledgers."""
        self.lives[life].start(self.lives[life].reconcile_quota())
        await self.turn()

    async def open(self, life: int, gate: int, through: bool) -> None:
        """A request or response gets through, or is lost."""
        gates = self.lives[life].gates
        if gates:
            gates.pop(gate % len(gates)).opened.set_result(through)
        await self.turn()

    async def kill(self, life: int) -> None:
        """Kill a service, and start another."""
        self.crashes += 1
        await self.lives[life].die()
        self.lives[life] = Life(self, takes_over=True)
        await self.turn()

    async def lose(self, node: str) -> None:
        """An administrator deletes the ledger of a node."""
        row = self.table.rows[node]
        if row.record is not None:
            self.unrecorded |= decode(row.record).allocations.keys()
            self.table.put(node, str(row.version), None)
        await self.turn()

    async def leave(self, pod: str) -> None:
        """A pod is deleted, and its containers are gone."""
        self.pods.pop(pod, None)
        for name, ledger in self.truth.items():
            self.truth[name] = ledger.release(pod)
        await self.turn()

    async def note(self, pod: str) -> None:
        """A scheduler notes something on a pod that no decision depends on."""
        if pod in self.pods:
            self.change(pod, {"noted": str(self.now)})
        await self.turn()

    async def tick(self) -> None:
        """Time passes, and the watch of one service catches up."""
        self.now += 1
        if self.now % LAG == 0:
            self.lives[self.now // LAG % LIVES].look()
        await self.turn()

    async def turn(self) -> None:
        """Run all services to their next gates, and check that nothing is wrong."""
        await settling_loop().settled()
        assert self.wrong == [], self.wrong

    async def end(self) -> None:
        """Kill all services, wait, reconcile: no allocation without a pod may be left."""
        for life in range(LIVES):
            await self.kill(life)
        for _ in range(4):
            await self.reconcile(0)
            while self.lives[0].gates:
                await self.open(0, 0, through=True)
            await self.reconcile_quota(0)
            while self.lives[0].gates:
                await self.open(0, 0, through=True)
            self.now += GRACE + DEFAULT_GRACE + MARGIN
        for name in NODES:
            held = self.stored(name).allocations
            assert held.keys() == self.truth[name].allocations.keys(), f"leaked on {name}"
            assert self.stored(name).problems() == ()
        for stored in self.quotas.all():
            allocated = {(uid, name) for name in NODES for uid in self.stored(name).allocations}
            assert stored.quota.holds.keys() == allocated, "leaked holds"
            assert stored.quota.used() == self.counted()
        for each in self.lives:
            await each.die()

    def counted(self) -> QuotaAmounts:
        """What all pods count by the ledgers; a pod counts once."""
        pods: dict[str, QuotaAmounts] = {}
        for name in filter(self.has_ledger, NODES):
            for hold in holds_of(self.stored(name)):
                if hold.uid != LOST_LEDGER:
                    pods[hold.uid] = hold.amounts.most(pods.get(hold.uid, NOTHING))
        return total(pods.values())

    def has_ledger(self, node: str) -> bool:
        return self.table.rows.get(node, MemoryRow()).record is not None

    def stored(self, node: str) -> NodeLedger:
        record = self.table.rows.get(node, MemoryRow()).record
        assert record is not None
        return decode(record)

    def change(self, uid: str, annotations: Mapping[str, str]) -> Pod:
        """Set annotations of a pod."""
        earlier = self.pods[uid]
        metadata = msgspec.structs.replace(
            earlier.metadata,
            annotations={**(earlier.metadata.annotations or {}), **annotations},
            resource_version=str(int(earlier.metadata.resource_version) + 1),
        )
        self.pods[uid] = msgspec.structs.replace(earlier, metadata=metadata)
        return self.pods[uid]

    def bound(self, uid: str, node: str, annotations: Mapping[str, str], version: str) -> None:
        """Handle a Binding as the API server does.

        Raises:
            BindError: the API server refuses it.
        """
        pod = self.pods.get(uid)
        if pod is None:
            raise BindError(404, "not found")
        if pod.spec.node_name:
            raise BindError(409, "already assigned")
        if version != pod.metadata.resource_version:
            raise BindError(409, "the object has been modified")
        self.bindings += 1
        pod = self.change(uid, annotations)
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        self.pods[uid] = pod = msgspec.structs.replace(pod, spec=spec)
        allocation = adopt(pod, self.truth[node].node, DIALECTS)
        if allocation is None or allocation.unread:
            self.wrong.append(f"{uid} has no record that can be read: {allocation}")
            return
        try:
            self.truth[node] = self.truth[node].reserve(allocation)
        except LedgerError as error:
            self.wrong.append(f"over-allocated: {error}")
        if self.has_ledger(node):
            self.check(self.stored(node))

    def check(self, ledger: NodeLedger) -> None:
        """Check that the ledger has what bound pods use."""
        name = ledger.node.name
        for uid, allocation in self.truth[name].allocations.items():
            found = ledger.allocations.get(uid)
            if found is None:
                if uid not in self.unrecorded:
                    self.wrong.append(f"{uid} runs on {name} and is not in the ledger")
            elif {*found.grants} != {*allocation.grants}:
                self.wrong.append(f"{uid} holds other cards than its annotations say")
            else:
                self.unrecorded.discard(uid)
        for uid in ledger.allocations.keys() - self.pods.keys():
            # A stale cache may adopt a deleted pod once more: too much is allocated for a while.
            ledger = ledger.release(uid)
        self.wrong += [problem.text for problem in ledger.problems()]
        exceeded = self.limits.exceeded(self.counted())
        if exceeded:
            self.wrong.append(f"the quota is exceeded: {exceeded} {self.counted()}")


class Life:
    """One service, from its start until it is killed."""

    def __init__(self, world: World, *, takes_over: bool = False) -> None:
        self.world = world
        self._takes_over = takes_over
        self.gates: list[Gate] = []
        self._store = MemoryStore(world.table)
        self._tasks: set[asyncio.Task[None]] = set()
        self.seen: dict[str, Pod] = {}
        self._cache = ClusterCache()
        for name in NODES:
            self._cache.put_node(KubeNode(Metadata(name=name)))
            self._cache.put_hardware(name, NodeHardware(a_node(name).cards))
        self.look()
        quotas = GatedQuotas(self)
        self.service = Service(
            DIALECTS,
            Ports(
                store=self,
                binder=GatedBinder(self),
                pods=self,
                events=self,
                clock=self,
                decision_log=self,
                quotas=quotas,
            ),
        )
        for each in world.quotas.all():
            self.service.quotas.put(each)
        self._quotas = QuotaReconciler(self.service, quotas, grace=0)
        self._reconciler = Reconciler(self.service, self._cache, self, GatedPods(self), self, GRACE)
        self.start(self._follow())

    def start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    async def die(self) -> None:
        self.gates.clear()
        self.service.committer.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._store.close()

    async def bind(self, pod: Pod, node: str) -> None:
        pod_request = self.service.pod_requests.read(pod)
        assert pod_request is not None
        try:
            found = await self.service.bind(pod_request, node)
            if isinstance(found, Reason) and found.cause is Cause.QUOTA:
                self.world.refused += 1
        except (BindError, LedgerContended, OSError):
            return

    async def reconcile(self) -> None:
        """Reconcile all nodes once, one after the other."""
        for node in NODES:
            await self._reconciler.process(node)

    async def reconcile_quota(self) -> None:
        """One round over all quotas."""
        await self._quotas.round()

    # --- the store --------------------------------------------------------------------------------

    async def load(self) -> Mapping[str, Stored]:
        return await self._store.load()

    async def read(self, node: str) -> Stored | None:
        await self.pass_gate("read", "no answer")
        stored = await self._store.read(node)
        await self.pass_gate("was read", "answer lost")
        return stored

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        await self.pass_gate("write", "never sent")
        try:
            version = await self._store.write(ledger, expected)
        except Conflict:
            await self.pass_gate("lost the race", "answer lost")
            raise
        self.world.check(self.world.stored(ledger.node.name))
        await self.pass_gate("written", "answer lost")
        return version

    async def delete(self, node: str, expected: str) -> None:
        raise NotImplementedError

    def changes(self) -> AsyncGenerator[Change, None]:
        return self._store.changes()

    async def close(self) -> None:
        await self._store.close()

    # --- the cluster ------------------------------------------------------------------------------

    async def post(self, uid: str, node: str, annotations: Mapping[str, str], version: str) -> None:
        if not await self._gate("post"):
            raise BindError(0, "never sent")
        try:
            self.world.bound(uid, node, annotations, version)
        except BindError:
            if not await self._gate("refused"):
                raise BindError(0, "answer lost") from None
            raise
        if not await self._gate("posted"):
            raise BindError(0, "answer lost")

    async def get(self, pod: PodRef) -> Pod | None:
        assert pod.namespace == "default"
        await self.pass_gate("look", "no answer")
        return self._cache.pod(pod.namespace, pod.name)

    async def newest(self, pod: PodRef) -> Pod | None:
        assert pod.namespace == "default"
        return await self.live(pod)

    async def live(self, pod: PodRef) -> Pod | None:
        await self.pass_gate("look", "no answer")
        return self.world.pods.get(pod.name)

    def look(self) -> None:
        """Update the cluster cache, which is stale until then."""
        for uid in self.seen.keys() - self.world.pods.keys():
            self._cache.drop_pod(self.seen[uid].metadata)
        for uid, pod in self.world.pods.items():
            if self.seen.get(uid) is not pod:
                self._cache.put_pod(pod)
        self.seen = dict(self.world.pods)

    def emit(self, pod: Pod, reason: str, message: str, *, warning: bool) -> None:
        pass

    def record(self, decision: DecisionRecord) -> None:
        pass

    def conflict(self, node: str) -> None:
        pass

    # --- time -------------------------------------------------------------------------------------

    def now(self) -> int:
        return self.world.now * SECOND

    def wall(self) -> int:
        return self.world.now * SECOND

    async def pause(self, attempt: int) -> None:
        await self._gate(f"pause {attempt}")

    async def sleep(self, nanoseconds: int) -> None:  # noqa: ARG002
        await self._gate("sleep")

    # --- gates ------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        self.service.ledgers.load(await self._store.load())
        self.service.readiness.mark_synced("ledgers")
        if self._takes_over:
            self._reconciler.take_over()
        async for change in self._store.changes():
            await self._gate("change")
            self.service.ledgers.apply(change)

    async def pass_gate(self, what: str, problem: str) -> None:
        if not await self._gate(what):
            raise StoreError(problem)

    async def _gate(self, what: str) -> bool:
        gate = Gate(what, asyncio.get_running_loop().create_future())
        self.gates.append(gate)
        return await gate.opened

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.wrong.append(repr(error))


class GatedBinder:
    """The Binder of a service, which posts through gates."""

    def __init__(self, life: Life) -> None:
        self._life = life

    async def bind(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str],  # noqa: ARG002 (labels have no cards)
        version: str = "",
    ) -> None:
        assert (pod.namespace, pod.name) == ("default", pod.uid)
        await self._life.post(pod.uid, node, annotations, version)


class GatedQuotas:
    """The quotas of the API server, through gates."""

    def __init__(self, life: Life) -> None:
        self._life = life

    async def read(self, namespace: str) -> StoredQuota | None:
        await self._life.pass_gate("read quota", "no answer")
        stored = await self._life.world.quotas.read(namespace)
        await self._life.pass_gate("quota was read", "answer lost")
        return stored

    async def create(self, namespace: str) -> StoredQuota:
        await self._life.pass_gate("create quota", "never sent")
        created = await self._life.world.quotas.create(namespace)
        await self._life.pass_gate("quota created", "answer lost")
        return created

    async def write(self, quota: Quota, expected: str) -> str:
        await self._life.pass_gate("write quota", "never sent")
        try:
            version = await self._life.world.quotas.write(quota, expected)
        except Conflict:
            await self._life.pass_gate("lost the race for the quota", "answer lost")
            raise
        await self._life.pass_gate("quota written", "answer lost")
        return version


class GatedPods:
    """The pods of the API server for the reconciler of a service, through gates."""

    def __init__(self, life: Life) -> None:
        self._life = life

    async def get(self, pod: PodRef) -> Pod | None:
        assert pod.namespace == "default"
        return await self._life.live(pod)

    async def annotate(
        self,
        pod: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,  # noqa: ARG002
    ) -> Pod:
        """A pod whose cards are about to be released.

        All others were bound with the annotations of their ledger, so there are none to repair.
        """
        if annotations.keys() != {RELEASED}:
            self._life.world.wrong.append(f"the reconciler annotates {pod.name}")
        await self._life.pass_gate("annotate", "never sent")
        if pod.name not in self._life.world.pods:
            raise StoreError("not found")
        changed = self._life.world.change(pod.name, {k: v for k, v in annotations.items() if v})
        await self._life.pass_gate("annotated", "answer lost")
        return changed
