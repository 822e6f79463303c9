"""A cluster whose pods are moved, over a service with fakes of its other ports."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from adapters.accounting.movable import controller
from adapters.cluster.api import timestamps
from adapters.service.endpoints.tests.kube_bodies import bind
from adapters.service.reconcile.move_coordinator import MoveCoordinator
from adapters.service.reconcile.tests.preempted_cluster import Rig, a_rig, rejected
from adapters.service.tests.builders import Json, a_node, a_pod, decoded, read_pod
from adapters.wire.kube import KubeNode, OwnerReference, Pod
from adapters.wire.records.allocation import grant_record
from adapters.wire.records.move_plan import (
    MoveController,
    MovePhase,
    MovePlace,
    MovePlanMetadata,
    MovePlanObject,
    MovePlanSpec,
    MovePlanStatus,
    PlannedMove,
    PlannedTarget,
    TargetKind,
    read_spec,
    read_status,
)
from core.durations import SECOND
from core.requests.grant import Grant

READY = {"type": "Ready", "status": "True"}


class Plans:
    """The plans of an API server.

    Attributes:
        errors: of the next writes.
        denied: plans whose status cannot be written.
        unlisted: why they cannot be listed; None where they can.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, MovePlanObject] = {}
        self.errors: list[OSError] = []
        self.denied: set[str] = set()
        self.unlisted: OSError | None = None

    async def list(self) -> Sequence[MovePlanObject]:
        if self.unlisted is not None:
            raise self.unlisted
        return [*self.by_name.values()]

    async def write_status(self, plan: MovePlanObject, status: MovePlanStatus) -> MovePlanObject:
        if self.errors:
            raise self.errors.pop(0)
        name = plan.metadata.name
        if name in self.denied:
            raise OSError("403 Forbidden")
        now = self.by_name.get(name)
        if now is None or now.metadata.resource_version != plan.metadata.resource_version:
            raise OSError("409 Conflict")
        version = str(int(plan.metadata.resource_version or "0") + 1)
        metadata = replace(plan.metadata, resource_version=version)
        raw = msgspec.Raw(msgspec.json.encode(status))
        self.by_name[name] = changed = replace(plan, metadata=metadata, status=raw)
        return changed

    def create(self, name: str, spec: MovePlanSpec, created: str = "") -> None:
        metadata = MovePlanMetadata(name=name, uid=f"uid-{name}", creation_timestamp=created)
        self.by_name[name] = MovePlanObject(metadata, msgspec.Raw(msgspec.json.encode(spec)))

    def status(self, name: str = "plan") -> MovePlanStatus:
        return read_status(self.by_name[name])


class Moved:
    """A service with its coordinator, and a mover.

    Attributes:
        rig: the service and its extender.
        plans: of the cluster.
        events: about plans: reason and text.
        failures: why no plan could be carried out.
        stays: whether the coordinator that looked last looks again; else it is killed after it.
        enabled: whether new coordinators carry out plans.
        mover_ahead: seconds by which the mover's clock is ahead.
    """

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.plans = Plans()
        self.events: list[tuple[str, str]] = []
        self.failures: list[str] = []
        self.stays, self.enabled, self.mover_ahead = False, True, 0
        self.coordinator = self.a_coordinator()

    def a_coordinator(self) -> MoveCoordinator:
        """A coordinator that knows nothing of the earlier ones."""
        service, failed = self.rig.bench.service, self.failures.append
        return MoveCoordinator(
            service, self.plans, self._pods_of, self._report, failed, enabled=self.enabled
        )

    @property
    def phase(self) -> str:
        """The phase of the plan."""
        return self.plans.status().phase.value

    async def look(self, times: int = 1) -> str:
        """Let coordinators look; the phase of the plan."""
        for _ in range(times):
            if not self.stays:
                self.coordinator = self.a_coordinator()
            await self.coordinator.look()
        return self.phase

    async def look_only(self) -> None:
        """Let a coordinator look, also where there is no plan."""
        await self.a_coordinator().look()

    async def mover_acts(self) -> None:
        """Do what the mover does in its two phases."""
        plan = self.plans.by_name["plan"]
        status = read_status(plan)
        if status.phase is MovePhase.HELD:
            await self._write(plan, replace(status, phase=MovePhase.READY))
        elif status.phase is MovePhase.EVICT:
            move = read_spec(plan).moves[status.step - 1]
            evicted = replace(status.steps[-1], evicted_at=self.now(self.mover_ahead))
            steps = (*status.steps[:-1], evicted)
            await self._write(plan, replace(status, phase=MovePhase.EVICTED, steps=steps))
            self.rig.end(move.pod)

    async def _write(self, plan: MovePlanObject, status: MovePlanStatus) -> None:
        await self.plans.write_status(plan, replace(status, updated_at=self.now(self.mover_ahead)))

    async def run_pod(self, name: str, node: str, memory: int = 5000, **pod: Json) -> None:
        """Run a pod of a ReplicaSet of its own."""
        await self.rig.run_pod(owned(a_pod(name, memory=memory, **pod)), node)

    async def bind(self, name: str, node: str) -> str:
        """Bind a pod; the error, empty where there is none."""
        error: str = (await decoded(self.rig.kube.bind(bind(name, node))))["Error"]
        return error

    def create(self, pod: Json) -> None:
        self.rig.bench.cluster.put(read_pod(pod))

    def ready(self, name: str) -> None:
        """The containers of a pod run."""
        pod = self.rig.pod(name)
        conditions = msgspec.convert([READY], type(pod.status).__annotations__["conditions"])
        status = replace(pod.status, conditions=conditions, start_time=self.now())
        self.rig.bench.cluster.put(replace(pod, status=status))

    def leaves(self, name: str) -> None:
        """A pod is deleted, and its containers have not stopped yet."""
        pod = self.rig.pod(name)
        gone = replace(pod.metadata, deletion_timestamp=self.now())
        self.rig.bench.cluster.put(replace(pod, metadata=gone))

    def now(self, ahead: int = 0) -> str:
        clock = self.rig.bench.clock
        wall = (clock.wall() - clock.ahead) / SECOND + ahead
        return timestamps.seconds(datetime.fromtimestamp(wall, UTC))

    def a_move(self, name: str, node: str, card: str) -> PlannedMove:
        """The move of a running pod to a card."""
        pod = self.rig.pod(name)
        source = pod.spec.node_name or ""
        ledger = self.rig.bench.service.ledgers.record(source)
        (grant,) = ledger.allocations[pod.metadata.uid].grants
        moved = dataclasses.replace(grant, card=card)
        owner = owner_of(pod)
        return PlannedMove(
            "default",
            name,
            pod.metadata.uid,
            "volcano",
            MoveController(owner.kind, owner.name, owner.uid),
            MovePlace(source, (grant_record(grant),)),
            MovePlace(node, (grant_record(moved),)),
        )

    def a_target(self, name: str, node: str, card: str, after: int = 1) -> PlannedTarget:
        """A pod that waits for 8,000 MiB."""
        place = MovePlace(node, (grant_record(Grant("main", card, 8000 << 20, 0)),))
        return PlannedTarget(TargetKind.POD, name, after, "default", f"uid-{name}", place)

    def kept(self) -> list[str]:
        """Nodes that keep places, and for which pods."""
        ledgers = self.rig.bench.service.ledgers
        return [
            f"{node}: {hold.allocation.pod}"
            for node in sorted(ledgers.holding())
            for hold in ledgers.record(node).kept()
        ]

    def _pods_of(self, controller: str) -> list[Pod]:
        return [
            pod
            for pod in self.rig.bench.cluster.pods()
            if any(owner.uid == controller for owner in pod.metadata.owner_references or ())
        ]

    def _report(self, plan: MovePlanObject, reason: str, text: str, *, warning: bool) -> None:
        assert plan.metadata.name
        assert warning is (reason == "PlanStopped")
        self.events.append((reason, text))


def owner_of(pod: Pod) -> OwnerReference:
    """The controller of a pod that has one."""
    owner = controller(pod)
    assert owner is not None
    return owner


def owned(pod: Json, kind: str = "ReplicaSet", owner: str = "") -> Json:
    """The pod of a controller, by default of one that has its name up to the last dash."""
    owner = owner or pod["metadata"]["name"].rpartition("-")[0] or pod["metadata"]["name"]
    reference = {"kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}}


async def a_moved_cluster(*nodes: KubeNode) -> Moved:
    """By default two nodes with a card of 8,192 MiB each; on each 5,000 and 1,000 are in use."""
    return Moved(await a_rig(*(nodes or (a_node("n1", cards=1), a_node("n2", cards=1)))))


Test = Callable[[Moved], Coroutine[Any, Any, None]]


def on(*nodes: KubeNode) -> Callable[[Test], None]:
    """Run a test on these nodes, by default on two with a card each."""

    def runs(test: Test) -> None:
        async def main() -> None:
            await test(await a_moved_cluster(*nodes))

        asyncio.run(main())

    return runs


async def small_on_both(moved: Moved) -> MovePlanSpec:
    """``big`` waits; ``web-1`` on n1 is to move to n2, where ``other-1`` is."""
    await moved.run_pod("web-1", "n1", memory=1000)
    await moved.run_pod("other-1", "n2", memory=1000)
    await moved.rig.refuse(rejected("big", memory=8000), "n1", "n2")
    move = moved.a_move("web-1", "n2", "GPU-n2-0")
    return MovePlanSpec((move,), (moved.a_target("big", "n1", "GPU-n1-0"),))


async def up_to(moved: Moved, phase: MovePhase) -> None:
    """Let the service and the mover act until the plan is in a phase."""
    for _ in range(10):
        if moved.phase == phase.value:
            return
        await moved.look()
        if moved.phase != phase.value:
            await moved.mover_acts()
    raise AssertionError(moved.phase)
