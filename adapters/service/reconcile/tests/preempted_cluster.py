"""A cluster whose pods can be evicted, over a service with fakes of its other ports."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from adapters.accounting.gang_cache import GangCache
from adapters.dialects.dra import DRA
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names
from adapters.service.reconcile.preemptor import DELAY, Preemptor
from adapters.service.tests.builders import (
    Bench,
    CountingCluster,
    FakeClock,
    Json,
    a_node,
    a_pod,
    a_service,
    decoded,
    read_pod,
)
from adapters.wire.kube import KubeNode, Pod
from adapters.wire.kube_policy import Budget, violations
from core.durations import SECOND
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.request import PodRef

REJECTED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


class Evictor:
    """Evicts pods of a cluster, and annotates them, as the API server does.

    Attributes:
        evicted: names, in order.
        dry: names of the pods of dry runs.
        refusals: errors of the next evictions, dry runs among them; None for none.
        budgets: that hold.
        unlisted: errors of the next lists of a node's pods.
    """

    def __init__(
        self, cluster: CountingCluster, clock: FakeClock, budgets: Sequence[Budget] = ()
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self.evicted: list[str] = []
        self.dry: list[str] = []
        self.refusals: list[OSError | None] = []
        self.budgets = budgets
        self.unlisted: list[OSError] = []

    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> bool:
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None:
            raise refusal
        found = await self._cluster.get(pod)
        if found is None or found.metadata.uid != pod.uid:
            return False
        if any(violations([found], self.budgets)):
            raise OSError("429 TooManyRequests: a disruption budget")
        (self.dry if dry_run else self.evicted).append(pod.name)
        if not dry_run and not found.metadata.deletion_timestamp:
            end = datetime.fromtimestamp(self._clock.wall() / SECOND + 30, UTC).isoformat()
            self._cluster.put(_with_metadata(found, deletion_timestamp=end))
        return True

    async def on_node(self, node: str) -> list[Pod]:
        if self.unlisted:
            raise self.unlisted.pop(0)
        return [pod for pod in self._cluster.pods() if pod.spec.node_name == node]

    async def annotate(
        self,
        pod: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,  # noqa: ARG002
        version: str = "",
    ) -> Pod:
        found = await self._cluster.get(pod)
        if found is None or version != found.metadata.resource_version:
            raise OSError("409 Conflict")
        texts = {k: v for k, v in annotations.items() if v is not None}
        every = {**(found.metadata.annotations or {}), **texts}
        return self._cluster.put(
            _with_metadata(found, annotations=every, resource_version=version + "+")
        )


class Ended:
    """The allocations of pods that are not in the cluster, as far as the watch has reported."""

    def __init__(self) -> None:
        self.cluster: CountingCluster | None = None

    async def among(self, ledger: NodeLedger) -> Sequence[Allocation]:
        if self.cluster is None:
            return ()
        known = (*self.cluster.pods(), *self.cluster.late.values())
        there = {pod.metadata.uid for pod in known}
        return [
            each
            for each in ledger.allocations.values()
            if each.uid not in there and each.dialect != DRA and each.release_by is None
        ]


class Rig:
    """A service, its extender and its preemptor.

    Attributes:
        bench: the service with its fakes.
        evictor: evicts pods.
        gangs: groups of pods.
    """

    def __init__(self, bench: Bench, evictor: Evictor, gangs: GangCache) -> None:
        self.bench = bench
        self.evictor = evictor
        self.gangs = gangs
        self.kube = KubeExtender(bench.service)
        self.preemptor = Preemptor(bench.service, evictor)

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """Names of pods and reasons of their Events."""
        return [(name.partition("/")[2], reason) for name, reason, _ in self.bench.cluster.events]

    @property
    def outcomes(self) -> list[tuple[str, str, str]]:
        """Verb, outcome and pod of what the preemptor has recorded."""
        return [
            (each.verb, each.outcome.value, each.pod.partition("/")[2])
            for each in self.bench.decision_log.decisions
            if each.verb in ("evict", "preempt")
        ]

    async def run_pod(self, pod: Json, node: str) -> None:
        """Create a pod and bind it."""
        self.bench.cluster.put(read_pod(pod))
        await self.kube.bind(bind(pod["metadata"]["name"], node))
        found = self.pod(pod["metadata"]["name"])
        assert found.spec.node_name == node
        self.gangs.put(found)

    async def refuse(self, pod: Json, *nodes: str) -> None:
        """Create a pod that its scheduler cannot place, and let it wait for a while."""
        self.bench.cluster.put(read_pod(pod))
        await self.ask(pod, *nodes)
        self.bench.clock.time += DELAY

    async def ask(self, pod: Json, *nodes: str) -> list[str]:
        """Filter; the nodes that fit."""
        answer = await decoded(self.kube.filter(names(pod, *(nodes or ("n1",)))))
        found: list[str] = answer["NodeNames"]
        return found

    def pod(self, name: str) -> Pod:
        return next(pod for pod in self.bench.cluster.pods() if pod.metadata.name == name)

    def end(self, name: str) -> None:
        """The containers of a pod have stopped."""
        self.gangs.drop(self.pod(name).metadata.uid)
        assert self.bench.cluster.remove(f"default/{name}")

    def holders(self, node: str = "n1") -> list[str]:
        """Names of the pods that have cards of a node."""
        ledger = self.bench.service.ledgers.inventory.ledger(node)
        return [each.pod_ref.name for each in ledger.allocations.values()]

    def sleep(self, seconds: int) -> None:
        self.bench.clock.time += seconds * SECOND


async def a_rig(*nodes: KubeNode, budgets: Sequence[Budget] = ()) -> Rig:
    """By default one node with two cards of 8,192 MiB."""
    ended, gangs = Ended(), GangCache()
    bench = await a_service(
        *(nodes or (a_node("n1", cards=2),)), ended=ended, gangs=gangs, budgets=Budgets(budgets).all
    )
    ended.cluster = bench.cluster
    return Rig(bench, Evictor(bench.cluster, bench.clock, budgets), gangs)


class Budgets:
    """The budgets of the API server."""

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self.budgets = budgets

    async def all(self) -> Sequence[Budget]:
        return self.budgets


def rejected(name: str, memory: int = 5000, priority: int = 10, **status: object) -> Json:
    """A pod that its scheduler could not place."""
    pod = a_pod(name, memory=memory, priority=priority)
    return {**pod, "status": {**pod["status"], "conditions": [REJECTED], **status}}


def _with_metadata(pod: Pod, **fields: object) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, **fields)
    return msgspec.structs.replace(pod, metadata=metadata)
