"""A service on a memory store with fakes of its ports, and the bodies that schedulers send."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from adapters.accounting.gang_cache import GangCache
from adapters.dialects.dialect import Defaults
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialects
from adapters.service.decide.ports import (
    BindError,
    BudgetReader,
    DecisionRecord,
    EndedPods,
    NodeLocks,
    Ports,
    no_budgets,
)
from adapters.service.decide.service import Service
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.standalone import LocalCluster
from adapters.stores.memory import MemoryQuotas, MemoryStore, MemoryTable
from adapters.stores.store import Conflict, Stored
from adapters.wire.kube import KubeNode, Metadata, Pod
from core.durations import SECOND
from core.hardware.quantity import GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.quota.quota import Quota
from core.requests.request import PodRef
from core.tests.builders import empty, like_cards

T = TypeVar("T")
Json = Any

CAPTURES = Path(__file__).parents[3] / "e2e" / "captures"

DIALECTS = dialects({}, Defaults())


def capture(path: str) -> bytes:
    """A body that a real scheduler sent."""
    return (CAPTURES / path).read_bytes()


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def a_node(name: str, cards: int = 2, memory: int = 8 * GIB) -> KubeNode:
    """A node that Volcano's device plugin advertises, which counts MiB."""
    listed = "".join(
        f"GPU-{name}-{index},10,{memory // MIB},NVIDIA-A10,true,hami-core:"
        for index in range(cards)
    )
    return KubeNode(Metadata(name=name, annotations={"volcano.sh/node-vgpu-register": listed}))


def a_metax_node(name: str, cards: int = 2) -> KubeNode:
    """A node that MetaX's device plugin advertises."""
    listed = [
        {
            "uuid": f"MX-{name}-{index}",
            "model": "C500",
            "totalDevCount": 16,
            "totalCompute": 100,
            "totalVRam": 65536,
            "healthy": True,
            "qosPolicy": "best-effort",
            "linkZone": 1,
        }
        for index in range(cards)
    ]
    return KubeNode(
        Metadata(name=name, annotations={"metax-tech.com/node-gpu-devices": json.dumps(listed)})
    )


def a_pod(
    name: str = "p",
    *,
    memory: int | str | None = 4000,
    cores: int | None = None,
    count: int = 1,
    priority: int = 0,
    limits: Mapping[str, object] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A pod in JSON; without ``limits`` it requests a share in the Volcano dialect."""
    asked: dict[str, object] = {"volcano.sh/vgpu-number": count}
    if memory is not None:
        asked["volcano.sh/vgpu-memory"] = memory
    if cores is not None:
        asked["volcano.sh/vgpu-cores"] = cores
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": {
            "containers": [
                {"name": "main", "resources": {"limits": dict(asked if limits is None else limits)}}
            ],
            "priority": priority,
        },
        "status": {"phase": "Pending"},
    }


def stored(ledger: NodeLedger) -> Stored:
    """The record of a ledger."""
    return Stored(ledger, str(ledger.version))


def a_ledger_cache() -> LedgerCache:
    """One node ``n`` with one card."""
    ledgers = LedgerCache()
    ledgers.load({"n": stored(empty(*like_cards(1)))})
    return ledgers


def read_pod(thing: Json) -> Pod:
    return msgspec.convert(thing, Pod)


class FakeClock:
    """A clock that advances only when a test or a sleep advances it.

    Attributes:
        ahead: nanoseconds by which the wall clock is ahead of that of other machines.
    """

    def __init__(self) -> None:
        self.time = 0
        self.ahead = 0

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return 1_769_860_800_000_000_000 + self.time + self.ahead

    async def pause(self, attempt: int) -> None:  # noqa: ARG002
        await asyncio.sleep(0)

    async def sleep(self, nanoseconds: int) -> None:
        self.time += nanoseconds
        await asyncio.sleep(0)


@dataclass
class RecordingDecisionLog:
    """Keeps all decisions and counts write conflicts."""

    decisions: list[DecisionRecord] = field(default_factory=list)
    conflicts: int = 0

    def record(self, decision: DecisionRecord) -> None:
        self.decisions.append(decision)

    def conflict(self, node: str) -> None:  # noqa: ARG002
        self.conflicts += 1


class CountingCluster(LocalCluster):
    """A cluster of one process that counts Bindings, and fails as a test sets it.

    Attributes:
        answers: of the next Bindings; None for what a real cluster would do.
        lost: errors of the next Bindings, raised after the pod was bound.
        late: pods, by their full names, as a stale watch cache shows them.
        unread: errors of the next reads past the cache.
        kube_nodes: what the API server has of nodes.
    """

    def __init__(self, pods: Sequence[Pod] = ()) -> None:
        super().__init__(pods)
        self.bindings = 0
        self.answers: list[BindError | None] = []
        self.lost: list[BindError] = []
        self.late: dict[str, Pod] = {}
        self.unread: list[OSError] = []
        self.kube_nodes: dict[str, KubeNode] = {}

    def nodes(self) -> Mapping[str, KubeNode]:
        return self.kube_nodes

    async def get(self, pod: PodRef) -> Pod | None:
        return self.late.get(str(pod)) or await super().get(pod)

    async def newest(self, pod: PodRef) -> Pod | None:
        if self.unread:
            raise self.unread.pop(0)
        return await super().get(pod)

    async def bind(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str],
        version: str = "",
    ) -> None:
        self.bindings += 1
        if self.answers:
            answer = self.answers.pop(0)
            if answer is not None:
                raise answer
        await super().bind(pod, node, annotations, labels, version)
        if self.lost:
            raise self.lost.pop(0)


class CountingStore(MemoryStore):
    """Counts writes; as many conflict, and as many fail, as a test sets.

    Attributes:
        written: called after each write, before its answer arrives.
    """

    def __init__(self, table: MemoryTable | None = None) -> None:
        super().__init__(table)
        self.writes = 0
        self.races = 0
        self.failures: list[OSError] = []
        self.written: Callable[[], None] = lambda: None

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        if self.failures:
            raise self.failures.pop(0)
        if self.races:
            self.races -= 1
            raise Conflict("another replica was faster")
        self.writes += 1
        version = await super().write(ledger, expected)
        self.written()
        return version


@dataclass
class Bench:
    """A service with its fakes, for a test to inspect."""

    service: Service
    store: CountingStore
    cluster: CountingCluster
    clock: FakeClock
    decision_log: RecordingDecisionLog

    async def sync(self) -> None:
        """Load all records of the store, and be ready."""
        self.service.ledgers.load(await self.store.load())
        self.service.readiness.mark_synced("ledgers")

    def stop_after_writes(self, seconds: int) -> None:
        """Let the process stop for some seconds after each write of a ledger."""

        def stop() -> None:
            self.clock.time += seconds * SECOND

        self.store.written = stop

    async def see_quota(self) -> Quota:
        """The newest quota of namespace ``default``, which the watch reports to the service."""
        found = await self.service.ports.quotas.read("default")
        assert found is not None
        self.service.quotas.apply(found)
        return found.quota


async def a_service(
    *nodes: KubeNode,
    pods: Sequence[Json] = (),
    locks: NodeLocks | None = None,
    budgets: BudgetReader = no_budgets,
    quotas: MemoryQuotas | None = None,
    mirrored: Collection[str] = (),
    gangs: GangCache | None = None,
    ended: EndedPods | None = None,
) -> Bench:
    store, clock, journal = CountingStore(), FakeClock(), RecordingDecisionLog()
    cluster = CountingCluster([read_pod(pod) for pod in pods])
    for kube in nodes or (a_node("n1"), a_node("n2")):
        node, problems = read_node(kube, None, DIALECTS)
        assert not problems
        await MemoryStore.write(store, NodeLedger.of(node), None)
    ports = Ports(
        store=store,
        binder=cluster,
        pods=cluster,
        events=cluster,
        clock=clock,
        decision_log=journal,
        locks=locks,
        budgets=budgets,
        quotas=quotas or MemoryQuotas(),
        gangs=gangs or GangCache(),
        ended=ended,
        objects=cluster,
    )
    bench = Bench(Service(DIALECTS, ports, mirrored=mirrored), store, cluster, clock, journal)
    await bench.sync()
    return bench


async def decoded(answer: Awaitable[bytes]) -> Json:
    return json.loads(await answer)


def body(value: Json) -> bytes:
    return json.dumps(value).encode()


def review(thing: Json, operation: str = "CREATE", sub: str = "", *, dry: bool = False) -> bytes:
    return body(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "r1",
                "operation": operation,
                "subResource": sub,
                "namespace": "default",
                "name": thing["metadata"].get("name", ""),
                "dryRun": dry,
                "object": thing,
            },
        }
    )


def a_binding(
    pod: str, node: str, annotations: Mapping[str, str] | None = None, uid: str | None = None
) -> Json:
    meta: dict[str, object] = {"name": pod, "namespace": "default", "uid": uid or f"uid-{pod}"}
    if annotations is not None:
        meta["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": meta,
        "target": {"kind": "Node", "name": node},
    }
