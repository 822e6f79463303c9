"""Makes the store's records agree with the cluster: whoever has the Lease does it, alone.

Cards come and go with their nodes; what others bound is adopted; what never was bound, and what is
gone, is taken back. What is to be done is decided in ``reconciler``.
"""

from asyncio import Event, timeout
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from adapters.dialects.adopt import FINISHED
from adapters.dialects.dialect import Dialect
from adapters.dialects.merge import read_node
from adapters.sidecar.decide.ports import DecisionLog
from adapters.sidecar.decide.service import SECOND, Service
from adapters.sidecar.reconcile.adoption_cache import AdoptionCache
from adapters.sidecar.reconcile.cluster_cache import ClusterCache
from adapters.sidecar.reconcile.concurrency import for_each_limited
from adapters.sidecar.reconcile.orphans import OrphanTracker
from adapters.sidecar.reconcile.plan import (
    Adopt,
    Annotate,
    Describe,
    NodeView,
    Release,
    ReleaseCause,
    Repair,
    drift,
    reconcile,
    repaired,
    rewrite,
)
from adapters.stores.store import Conflict, Store, Stored
from adapters.wire.hardware import DeviceHolding, NodeHardware
from adapters.wire.kube import DeviceObject, KubeNode, Metadata, Pod, pod_ref
from adapters.wire.ledger import LedgerRecordError
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger, Problem
from core.requests.grant import Allocation
from core.requests.pod_ref import PodRef

GRACE = 120
"""Seconds after which an allocation without a bound pod is taken back. A Binding takes less."""

AGAIN = 5.0
"""Seconds until a node is looked at again whose allocations wait for their pods, or that failed."""

POLL = 1.0
"""Seconds between two looks at the list of nodes that wait for their time."""

EVERY = 300.0
"""Seconds between two looks at all nodes, whether or not anything was told of them."""


class LivePods(Protocol):
    """The pods of the cluster past every cache, which can be written on."""

    async def get(self, pod: PodRef) -> Pod | None:
        """A pod as it is; None where there is none.

        Raises:
            OSError: the answer did not come.
        """
        ...

    async def annotate(
        self,
        pod: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,
    ) -> None:
        """Set annotations and labels of just this pod.

        Raises:
            OSError: it was refused, or the answer did not come.
        """
        ...


class RepairReporter(Protocol):
    """Who is told where record and cluster did not agree. Nothing here waits, or fails."""

    def repaired(self, kind: str) -> None:
        """Count a repair."""
        ...

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:
        """Tell people of a pod."""
        ...

    def of_node(self, node: str, reason: str, text: str) -> None:
        """Tell people of a node."""
        ...


class Reconciler:
    """Looks at nodes as they are named, at some of them at a time."""

    def __init__(
        self,
        service: Service,
        mirror: ClusterCache,
        store: Store,
        live: LivePods,
        journal: DecisionLog,
        grace: int = GRACE,
        witness: RepairReporter | None = None,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            service: whose vocabularies and clock count.
            mirror: what the cluster has.
            store: where the records are.
            live: pods past every cache.
            journal: who is told of lost races.
            grace: seconds that a Binding may take.
            witness: who is told of what was not as it should be.
        """
        self._service = service
        self._mirror = mirror
        self._store = store
        self._live = live
        self._journal = journal
        self._witness = witness or _Nobody()
        self._told: dict[str, tuple[Problem, ...]] = {}
        self._vigil = OrphanTracker(grace * SECOND)
        self._dirty: dict[str, float] = {}
        self._woken = Event()
        self._read: dict[str, _Read] = {}
        self._said: dict[str, AdoptionCache] = {}
        self.problems: dict[str, tuple[str, ...]] = {}

    def look_at(self, node: str) -> None:
        """A node's record may not be what it should be."""
        self._dirty[node] = 0.0
        self._woken.set()

    async def run(self) -> None:
        """Work until cancelled."""
        last = -EVERY
        while True:
            now = self._seconds()
            if now - last >= EVERY:
                last = now
                for node in {*self._mirror.nodes, *self._service.ledgers.inventory.names()}:
                    self._dirty.setdefault(node, 0.0)
            due = [node for node, when in self._dirty.items() if when <= now]
            await for_each_limited(self._one, due)
            if not due:
                self._woken.clear()
                with suppress(TimeoutError):
                    async with timeout(POLL):
                        await self._woken.wait()

    async def _one(self, node: str) -> None:
        self._dirty.pop(node, None)
        try:
            settled = self._is_known_to_agree(node) or await self.reconcile(node)
        except Conflict:
            self._journal.conflict(node)
            self._dirty.setdefault(node, 0.0)
            return
        except LedgerRecordError as error:
            self.problems[node] = (f"the record cannot be read: {error}",)
            settled = False
        except OSError as error:
            self.problems[node] = (str(error),)
            settled = False
        if not settled:
            self._dirty.setdefault(node, self._seconds() + AGAIN)

    async def reconcile(self, name: str) -> bool:
        """Make one node's record what it should be.

        Returns:
            whether nothing waits for another look.

        Raises:
            Conflict: somebody else wrote; look again.
            LedgerRecordError: the record cannot be read.
            OSError: the store or the cluster did not answer.
        """
        stored = await self._store.read(name)
        dialects = self._service.pod_requests.dialects
        node = self._described(name, dialects)
        if stored is None and (node is None or not node.cards):
            self._tell(name, ())
            return True
        view = await self._view(node, stored)
        repairs = reconcile(view, dialects)
        ledger = repaired(view.ledger, repairs)
        if node is None and stored is not None and not ledger.allocations:
            await self._store.delete(name, stored.version)
        else:
            await self._write(ledger, stored)
        for repair in repairs:
            await self._carry_out(repair, name)
        self._tell(name, drift(ledger, view.pods, dialects, view.read))
        return all(view.bound.get(uid) == name for uid in ledger.allocations)

    def _is_known_to_agree(self, name: str) -> bool:
        """Whether record and cluster agree by what the watches have told, so that nobody is asked.

        Most looks are due to a pod that has just been bound as its record says. Where the watch
        of the records is late, the look that counts follows when it has told them.
        """
        stored = self._service.ledgers.stored(name)
        node = self._described(name, self._service.pod_requests.dialects)
        if stored is None or node is None:
            return False
        pods = self._mirror.holding(name)
        bound = {pod.metadata.uid: name for pod in pods}
        if not stored.ledger.allocations.keys() <= bound.keys():
            return False
        dialects = self._service.pod_requests.dialects
        wall, holdings = self._service.ports.clock.wall(), self._holdings(name)
        read = self._said[name] = AdoptionCache(self._said.get(name))
        view = NodeView(stored.ledger, node, pods, bound, frozenset(), wall, holdings, read)
        if reconcile(view, dialects):
            return False
        self._tell(name, drift(stored.ledger, pods, dialects, read))
        return True

    def _described(self, name: str, dialects: Sequence[Dialect]) -> Node | None:
        """The node as the cluster describes it now; None where there is none."""
        kube = self._mirror.nodes.get(name)
        if kube is None:
            self.problems.pop(name, None)
            self._read.pop(name, None)
            self._said.pop(name, None)
            return None
        asked = (kube, self._mirror.devices.get(name), dialects, self._mirror.hardware.get(name))
        known = self._read.get(name)
        if known is None or known.asked != asked:
            known = self._read[name] = _Read(asked, *read_node(*asked))
        self.problems[name] = known.problems
        return known.node

    async def _view(self, node: Node | None, stored: Stored | None) -> NodeView:
        """One node; pods of the record that are not known to be bound are asked for, past caches.

        The record has been read before: whoever begins to bind such a pod now writes it first.
        """
        ledger = NodeLedger.of(node or Node("")) if stored is None else stored.ledger
        name = ledger.node.name
        here = self._mirror.holding(name)
        bound = {pod.metadata.uid: name for pod in here}
        for uid, allocation in ledger.allocations.items():
            if uid not in bound:
                pod = await self._live.get(allocation.pod_ref)
                if pod is not None and pod.metadata.uid == uid and not _over(pod):
                    bound[uid] = pod.spec.node_name or ""
        clock = self._service.ports.clock
        overdue = frozenset(self._vigil.abandoned(ledger, bound, clock.now()))
        read = AdoptionCache(self._said.get(name))
        return NodeView(
            ledger, node, here, bound, overdue, clock.wall(), self._holdings(name), read
        )

    def _holdings(self, name: str) -> Sequence[DeviceHolding]:
        """What the node's agent tells of the kubelet."""
        agent = self._mirror.hardware.get(name)
        return () if agent is None else agent.holdings

    async def _carry_out(self, repair: Repair, node: str) -> None:
        """Do what is not in the record, and tell of it all."""
        match repair:
            case Describe():
                self._witness.repaired("described")
            case Adopt(allocation) if allocation.unread is None:
                self._witness.repaired("adopted")
            case Adopt(allocation):
                self._witness.repaired("adopted_unread")
                told = f"holds cards of {node} that nobody can tell: {allocation.unread}"
                self._witness.of_pod(_named(allocation), "CardsUnknown", told)
            case Release(allocation, why):
                self._witness.repaired(why.name.lower())
                if why is ReleaseCause.NEVER_BOUND:
                    told = f"the cards of {node} that were kept for it are free again: {why.value}"
                    self._witness.of_pod(_named(allocation), "CardsReleased", told)
            case Annotate(pod):
                await self._annotate(pod, node)

    async def _annotate(self, seen: Pod, node: str) -> None:
        """Write on a pod what the ledger says, if it still does not say so itself."""
        meta = seen.metadata
        pod = await self._live.get(pod_ref(seen))
        stored = await self._store.read(node)
        if pod is None or stored is None or pod.metadata.uid != meta.uid or _over(pod):
            return
        known = stored.ledger.allocations.get(meta.uid)
        if known is None or pod.spec.node_name != node:
            return
        clock, dialects = self._service.ports.clock, self._service.pod_requests.dialects
        repair = rewrite(pod, known, stored.ledger.node, dialects, clock.wall())
        if repair is None:
            return
        result = repair.result
        await self._live.annotate(pod_ref(seen), result.annotations, result.labels)
        self._witness.repaired("annotated")
        told = "its annotations did not say which cards it holds, and say so again"
        self._witness.of_pod(pod, "CardsAnnotated", told)

    def _tell(self, node: str, found: Sequence[Problem]) -> None:
        """Tell what no repair could help, once."""
        earlier = self._told.pop(node, ())
        if found:
            self._told[node] = tuple(found)
        for problem in found:
            if problem not in earlier:
                text = f"{problem.pod}: {problem.text}" if problem.pod else problem.text
                self._witness.of_node(node, "LedgerDrift", text)

    @property
    def drifting(self) -> int:
        """How many problems there are that no repair can help, on all nodes."""
        return sum(map(len, self._told.values()))

    async def _write(self, ledger: NodeLedger, stored: Stored | None) -> None:
        if stored is None or ledger is not stored.ledger:
            await self._store.write(ledger, stored.version if stored else None)

    def _seconds(self) -> float:
        return self._service.ports.clock.now() / SECOND


@dataclass(frozen=True, slots=True)
class _Read:
    """A node as it was read last: most looks at it are due to its pods."""

    asked: tuple[KubeNode, DeviceObject | None, Sequence[Dialect], NodeHardware | None]
    node: Node
    problems: tuple[str, ...]


class _Nobody:
    """Nobody is told."""

    def repaired(self, kind: str) -> None:
        """Count nothing."""

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:
        """Tell nobody."""

    def of_node(self, node: str, reason: str, text: str) -> None:
        """Tell nobody."""


def _over(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def _named(allocation: Allocation) -> Pod:
    pod = allocation.pod_ref
    return Pod(Metadata(name=pod.name, namespace=pod.namespace, uid=pod.uid))


def unadopted(service: Service, mirror: ClusterCache) -> list[str]:
    """Nodes with a record on which a bound pod is not in the record yet."""
    dialects = service.pod_requests.dialects
    return [
        ledger.node.name
        for ledger in service.ledgers.inventory
        for pod in mirror.holding(ledger.node.name)
        if pod.metadata.uid not in ledger.allocations
        if any(dialect.matches(pod) for dialect in dialects)
    ]
