"""Reads nodes and their pods for the reconciler, from the cluster cache and from the API server.

A service that dies between the ledger's write and the Binding leaves cards allocated to a pod that
is not bound: an orphan. It is safe to release it in this order only: read the ledger from the
store; ask the API server, not a cache, where the ledger's pods are; write the ledger without the
orphans by compare-and-swap against the version that was read. A service that begins to bind such a
pod in between writes the ledger first, so that the last write conflicts. The grace must be longer
than a Binding can be on its way.
"""

from asyncio import gather
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.dialects.adoption.adopt import FINISHED
from adapters.dialects.dialect import Dialect, NodeDescription
from adapters.dialects.dra import DRA
from adapters.dialects.merge import read_node
from adapters.repairs.repairs import LOST_LEDGER, NodeView
from adapters.service.cluster_state.adoption_cache import AdoptionCache
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.cluster_state.deleted_pods import release_by
from adapters.service.decide.ports import Clock, LiveClaims
from adapters.service.reconcile.nodes.claim_reader import (
    ClaimLingers,
    ClaimReader,
    lingering_of_claim,
    lingering_of_moved,
)
from adapters.service.reconcile.ports import LivePods, NoClaims, RepairReporter
from adapters.wire.kube import DeviceObject, KubeNode, Pod
from adapters.wire.records.hardware import NodeHardware
from core.durations import SECOND
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation


class OrphanTracker:
    """Remembers since when allocations have been without a bound pod."""

    def __init__(self, grace: int) -> None:
        """Begin without any.

        Args:
            grace: how long an attempt to bind a pod may take, in the unit of ``now``.
        """
        self._grace = grace
        self._unbound_since: dict[str, dict[tuple[str, int], int]] = {}

    def abandoned(self, ledger: NodeLedger, bound: Mapping[str, str], now: int) -> tuple[str, ...]:
        """Return the uids of pods whose allocations can be released.

        At once: pods that were deleted or run on another node. After the grace: pods that were
        without a node all that time, if no new attempt to bind them has begun since.

        Args:
            ledger: of one node, read from the store before the pods.
            bound: by uid of each existing pod, its node; empty for a pod that is not bound.
            now: monotonic.
        """
        name = ledger.node.name
        earlier = self._unbound_since.get(name, {})
        unbound_since: dict[tuple[str, int], int] = {}
        abandoned: list[str] = []
        for uid, allocation in ledger.allocations.items():
            where = bound.get(uid)
            if where == name:
                continue
            attempt = (uid, allocation.attempt)
            unbound_since[attempt] = earlier.get(attempt, now)
            if where != "" or now - unbound_since[attempt] >= self._grace:
                abandoned.append(uid)
        self._unbound_since[name] = unbound_since
        return tuple(abandoned)


AT_ONCE = 8
"""Pods of a node that the API server is asked about at the same time."""

NO_AGENT = NodeHardware()
"""Stands in place of the report of a node without an agent."""

_Sources = tuple[
    KubeNode,
    DeviceObject | None,
    Sequence[Dialect],
    NodeHardware | None,
    Sequence[NodeDescription],
]


@dataclass(frozen=True, slots=True)
class _ReadNode:
    """A node as it was read last: most reconciliations are due to its pods."""

    sources: _Sources
    node: Node
    problems: tuple[str, ...]


class NodeReader:
    """Reads one node at a time; remembers what it read until the sources change."""

    def __init__(
        self,
        cache: ClusterCache,
        live: LivePods,
        clock: Clock,
        grace: int,
        reporter: RepairReporter,
        *,
        confirm_always: bool,
        live_claims: LiveClaims | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            cache: the watched objects.
            live: pods as the API server has them.
            clock: of the service.
            grace: nanoseconds for which an allocation may be without a bound pod.
            reporter: of invalid descriptions.
            confirm_always: whether containers of a pod that was deleted by force may run on also
                where no agent can confirm that they have stopped.
            live_claims: ResourceClaims as the API server has them; None where none count.
        """
        self._cache = cache
        self._live = live
        self._clock = clock
        self._reporter = reporter
        self._confirm_always = confirm_always
        self._claims = ClaimReader(cache, live_claims or NoClaims())
        self._orphans = OrphanTracker(grace)
        self._nodes: dict[str, _ReadNode] = {}
        self._adoptions: dict[str, AdoptionCache] = {}

    def node(self, name: str, dialects: Sequence[Dialect]) -> Node | None:
        """Return a node as the cluster describes it now; None where there is no such node."""
        kube = self._cache.nodes.get(name)
        if kube is None:
            self._nodes.pop(name, None)
            self._adoptions.pop(name, None)
            return None
        sources = (
            kube,
            self._cache.devices.get(name),
            dialects,
            self._cache.hardware.get(name),
            self._cache.claims.described(name),
        )
        earlier = self._nodes.get(name)
        if earlier is not None and earlier.sources == sources:
            return earlier.node
        read = self._nodes[name] = _ReadNode(sources, *read_node(*sources))
        if read.problems and (earlier is None or earlier.problems != read.problems):
            self._reporter.inventory(name, read.problems)
        return read.node

    def cached_view(self, ledger: NodeLedger, node: Node) -> NodeView | None:
        """Return a node as the watches show it; None where the API server must be asked.

        It need not be asked about a pod that the watch still reports as unbound, within the grace:
        its Binding is on its way, or a later look finds what became of it.
        """
        pods, claims = self._cache.holding(node.name), self._claims.cached(ledger, node)
        if claims is None:
            return None
        uids = [*(pod.metadata.uid for pod in pods), *(held.uid for held in claims)]
        bound = dict.fromkeys(uids, node.name)
        for uid in ledger.allocations.keys() - bound.keys():
            held = ledger.allocations[uid]
            ref = held.pod_ref
            pod = None if held.dialect == DRA else self._cache.pod(ref.namespace, ref.name)
            if pod is None or pod.metadata.uid != uid or pod.spec.node_name:
                return None
            bound[uid] = ""
        if self._orphans.abandoned(ledger, bound, self._clock.now()):
            return None
        read = self._adoptions[node.name] = AdoptionCache(self._adoptions.get(node.name))
        return NodeView(
            ledger,
            node,
            pods,
            bound,
            wall=self._clock.wall(),
            holdings=self._agent(node).holdings,
            read=read,
            compare=read.compare,
            has_agent=self._has_agent(node),
            claims=claims,
            consumers=self._cache.consumers(node.name) if claims else (),
        )

    async def live_view(
        self, ledger: NodeLedger, node: Node | None, *, is_lost: bool = False
    ) -> NodeView:
        """Return a node; where a pod of the ledger is, the API server says, past all caches.

        Args:
            ledger: read from the store before: a service that begins to bind such a pod from now
                on writes the ledger first.
            node: as the cluster describes it.
            is_lost: whether the ledger replaces one that was deleted.

        Raises:
            OSError: the API server did not answer.
        """
        name = ledger.node.name
        pods = self._cache.holding(name)
        claims = await self._claims.read(ledger, node or ledger.node)
        bound = {pod.metadata.uid: name for pod in pods} | claims.bound
        agent, wall = self._agent(ledger.node), self._clock.wall()
        lingering: dict[str, int] = {
            uid: until
            for uid in claims.gone
            if (until := self._claim_lingers(lingering_of_claim, uid, ledger.node, wall))
            is not None
        }
        for uid in claims.moved:
            until = self._claim_lingers(lingering_of_moved, uid, ledger.node, wall)
            if until is not None:
                lingering[uid] = until
        if LOST_LEDGER in ledger.allocations:
            bound[LOST_LEDGER] = ""  # it stands for pods that are not bound
        asked = [
            allocation
            for uid, allocation in ledger.allocations.items()
            if uid not in bound and allocation.dialect != DRA
        ]
        for allocation, pod in zip(asked, await live_pods(self._live, asked), strict=True):
            uid = allocation.uid
            if pod is None or pod.metadata.uid != uid:
                until = release_by(
                    self._cache.departures.of(uid),
                    has_agent=self._has_agent(ledger.node),
                    always=self._confirm_always,
                    now=wall // SECOND,
                )
                if until is not None:
                    lingering[uid] = until
            elif not has_finished(pod):
                bound[uid] = pod.spec.node_name or ""
        overdue = frozenset(self._orphans.abandoned(ledger, bound, self._clock.now()))
        read = AdoptionCache(self._adoptions.get(name))
        return NodeView(
            ledger,
            node,
            pods,
            bound,
            overdue,
            lingering,
            wall,
            agent.holdings,
            frozenset(agent.stopped),
            read,
            read.compare,
            self._has_agent(ledger.node),
            claims.held,
            is_lost=is_lost,
            consumers=self._cache.consumers(name) if claims.held else (),
        )

    def _claim_lingers(self, rule: ClaimLingers, uid: str, node: Node, wall: int) -> int | None:
        return rule(
            self._cache,
            uid,
            has_agent=self._has_agent(node),
            always=self._confirm_always,
            now=wall // SECOND,
        )

    def _has_agent(self, node: Node) -> bool:
        return node.name in self._cache.hardware

    def _agent(self, node: Node) -> NodeHardware:
        """Return what the node's agent reports."""
        return self._cache.hardware.get(node.name, NO_AGENT)


async def live_pods(live: LivePods, allocations: Sequence[Allocation]) -> list[Pod | None]:
    """Return the pods of allocations as the API server has them, a few at a time.

    One after the other, the cards of many pods that ended together stay in use for as long as all
    answers take, and a commit meanwhile begins the reconciliation again.

    Raises:
        OSError: the API server did not answer.
    """
    found: list[Pod | None] = []
    for start in range(0, len(allocations), AT_ONCE):
        some = allocations[start : start + AT_ONCE]
        found += await gather(*(live.get(each.pod_ref) for each in some))
    return found


def has_finished(pod: Pod) -> bool:
    """Return whether all containers of a pod have ended for good."""
    return pod.status.phase in FINISHED
