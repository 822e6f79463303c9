"""Reads nodes and their pods for the reconciler, from the cluster cache and from the API server.

A service that dies between the ledger's write and the Binding leaves cards allocated to a pod that
is not bound: an orphan. It is safe to release it in this order only: read the ledger from the
store; ask the API server, not a cache, where the ledger's pods are; write the ledger without the
orphans by compare-and-swap against the version that was read. A service that begins to bind such a
pod in between writes the ledger first, so that the last write conflicts. The grace must be longer
than a Binding can be on its way.
"""

from asyncio import gather
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

import msgspec

from adapters.dialects.adoption import FINISHED, adopt, disagreements
from adapters.dialects.containers import names_extended_resource
from adapters.dialects.dialect import Dialect, NodeDescription
from adapters.dialects.dra import DRA
from adapters.dialects.formats.gpu_fractions import names_fraction
from adapters.dialects.merge import read_node
from adapters.repairs.repairs import LOST_LEDGER, NodeView
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.cluster_state.deleted_pods import Departure, release_by
from adapters.service.decide.ports import Clock, LiveClaims
from adapters.service.reconcile.nodes.claim_reader import ClaimReader, has_ended, lingering_of_claim
from adapters.service.reconcile.reporter import RepairReporter
from adapters.wire.kube import Changes, DeviceObject, KubeNode, Metadata, Pod
from adapters.wire.records.hardware import NodeHardware
from core.durations import SECOND
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.request import PodRef

ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")
ChangedT = TypeVar("ChangedT", covariant=True)

_Arguments = tuple[Pod, Node, Sequence[Dialect]]


class Changeable(Protocol[ChangedT]):
    """Objects of the API server that can be changed."""

    async def annotate(
        self, ref: PodRef, /, annotations: Changes, labels: Changes | None = None
    ) -> ChangedT:
        """Set annotations and labels of the object with this uid, and return it; None removes one.

        Raises:
            OSError: the API server rejected the change, or did not answer.
        """


class LivePods(Changeable[Pod], Protocol):
    """Pods as the API server has them now, without a cache."""

    async def get(self, pod: PodRef) -> Pod | None:
        """Return a pod; None where there is none of this name.

        Raises:
            OSError: the API server did not answer.
        """


class _PodCache(Generic[ResultT]):
    """Returns what a function returns for a pod on its node."""

    def __init__(
        self,
        function: Callable[[Pod, Node, Sequence[Dialect]], ResultT],
        before: "_PodCache[ResultT] | None",
    ) -> None:
        self._function = function
        self._before = {} if before is None else before._now
        self._now: dict[str, tuple[_Arguments, ResultT]] = {}

    def __call__(self, pod: Pod, node: Node, dialects: Sequence[Dialect]) -> ResultT:
        uid, arguments = pod.metadata.uid, (pod, node, dialects)
        entry = self._now.get(uid) or self._before.get(uid)
        if entry is None or not _is_same(entry[0], arguments):
            entry = arguments, self._function(pod, node, dialects)
        self._now[uid] = arguments, entry[1]
        return entry[1]


class AdoptionCache:
    """Keeps what one reconciliation of a node, or the one before it, has read of its pods.

    Most reconciliations are due to one new pod, so that all others would be read again. A pod
    counts as unchanged where only its status differs, which neither function reads: every pod that
    is bound is reported again when its containers run.

    Attributes:
        read: returns what ``adopt`` returns.
        compare: returns what ``disagreements`` returns.
    """

    def __init__(self, before: "AdoptionCache | None" = None) -> None:
        read, compare = (None, None) if before is None else (before.read, before.compare)
        self.read: _PodCache[Allocation | None] = _PodCache(adopt, read)
        self.compare: _PodCache[tuple[str, ...]] = _PodCache(disagreements, compare)


def _is_same(one: _Arguments, other: _Arguments) -> bool:
    """Return whether the pod differs in its status at most, and nothing else does."""
    (pod, node, dialects), (other_pod, other_node, other_dialects) = one, other
    if dialects is not other_dialects:
        return False
    if node is not other_node and node != other_node:  # a dataclass compares every card
        return False
    return pod is other_pod or (
        pod.spec == other_pod.spec
        and _unversioned(pod.metadata) == _unversioned(other_pod.metadata)
    )


def _unversioned(metadata: Metadata) -> Metadata:
    return msgspec.structs.replace(metadata, resource_version="")


@dataclass(eq=False, slots=True)
class OrphanTracker:
    """Remembers since when allocations have been without a bound pod.

    ``grace`` is how long an attempt to bind a pod may take, in the unit of ``now``. After the
    shorter ``claim_grace`` an attempt to allocate a claim can be ended.
    """

    grace: int
    claim_grace: int
    _unbound_since: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)

    def abandoned(
        self,
        ledger: NodeLedger,
        bound: Mapping[str, str],
        now: int,
        never_allocated: Collection[str] = (),
    ) -> tuple[str, ...]:
        """Return the uids of pods whose allocations can be released.

        At once: pods that were deleted or run on another node. After the grace: pods that were
        without a node all that time, if no new attempt to bind them has begun since.

        Args:
            ledger: of one node, read from the store before the pods.
            bound: by uid of each existing pod, its node; empty for a pod that is not bound.
            now: monotonic.
            never_allocated: uids of claims that never had devices.
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
            grace = self.claim_grace if uid in never_allocated else self.grace
            if where != "" or now - unbound_since[attempt] >= grace:
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


@dataclass(eq=False, slots=True)
class NodeReader:
    """Reads one node at a time; remembers what it read until the sources change.

    An allocation may be without a bound pod as long as ``orphans`` says. ``confirm_always`` says
    whether containers of a pod that was deleted by force may run on also where no agent can
    confirm that they have stopped.
    """

    _cache: ClusterCache
    _live: LivePods
    _clock: Clock
    _orphans: OrphanTracker
    _claims: ClaimReader
    _reporter: RepairReporter
    confirm_always: bool
    # A node as it was read last, and what is invalid in it: most looks are due to its pods.
    _nodes: dict[str, tuple[_Sources, Node, tuple[str, ...]]] = field(default_factory=dict)
    _adoptions: dict[str, AdoptionCache] = field(default_factory=dict)

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
        if earlier is not None and earlier[0] == sources:
            return earlier[1]
        node, problems = read_node(*sources)
        self._nodes[name] = sources, node, problems
        if problems and (earlier is None or earlier[2] != problems):
            self._reporter.inventory(name, problems)
        return node

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
            holdings=self._cache.hardware.get(node.name, NO_AGENT).holdings,
            read=read.read,
            compare=read.compare,
            has_agent=node.name in self._cache.hardware,
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
        agent, wall = self._cache.hardware.get(name, NO_AGENT), self._clock.wall()
        free_at = partial(
            release_by,
            has_agent=name in self._cache.hardware,
            always=self.confirm_always,
            now=wall // SECOND,
        )
        lingering: dict[str, int] = {}
        for uid in (*claims.gone, *claims.moved):
            moved = uid in claims.moved
            until = lingering_of_claim(self._cache, uid, free_at, moved=moved)
            if until is not None:
                lingering[uid] = until
        if LOST_LEDGER in ledger.allocations:
            bound[LOST_LEDGER] = ""  # it stands for pods that are not bound
        asked = [
            allocation
            for uid, allocation in ledger.allocations.items()
            if uid not in bound and allocation.dialect != DRA
        ]
        live = await few_at_a_time(self._live.get, [each.pod_ref for each in asked])
        for allocation, pod in zip(asked, live, strict=True):
            uid = allocation.uid
            if pod is None or pod.metadata.uid != uid:
                if (until := free_at(self._cache.departures.of(uid))) is not None:
                    lingering[uid] = until
            elif not has_finished(pod) and (
                names_extended_resource(self._cache.counted(pod)) or names_fraction(pod)
            ):
                bound[uid] = pod.spec.node_name or ""
        now = self._clock.now()
        overdue = frozenset(self._orphans.abandoned(ledger, bound, now, claims.never_allocated))
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
            read.read,
            read.compare,
            name in self._cache.hardware,
            claims.held,
            is_lost=is_lost,
            consumers=self._cache.consumers(name) if claims.held else (),
        )


async def few_at_a_time(
    ask: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT]
) -> list[ResultT]:
    """Return an answer of the API server for each item; what ``ask`` raises ends it.

    One after the other, the cards of many pods that ended together stay in use for as long as all
    answers take, and a commit meanwhile begins the reconciliation again.
    """
    found: list[ResultT] = []
    for start in range(0, len(items), AT_ONCE):
        found += await gather(*map(ask, items[start : start + AT_ONCE]))
    return found


def has_finished(pod: Pod) -> bool:
    """Return whether all containers of a pod have ended for good."""
    return pod.status.phase in FINISHED


class ClusterEndedPods:
    """Implements ``ports.EndedPods``, in each replica."""

    def __init__(
        self,
        cache: ClusterCache,
        live: LivePods,
        claims: LiveClaims,
        *,
        confirm_always: bool,
    ) -> None:
        """Know what a cache knows; the rest is as for ``NodeReader`` and ``ClaimReader``."""
        self._cache = cache
        self._live = live
        self._claims = claims
        self.confirm_always = confirm_always

    async def among(self, ledger: NodeLedger) -> Sequence[Allocation]:
        """Return the allocations whose pods or claims are gone for good; see ``ports.EndedPods``.

        The API server is asked about those of which the watch has reported that no container can
        run any more.
        """
        has_agent = ledger.node.name in self._cache.hardware
        free_at = partial(release_by, has_agent=has_agent, always=self.confirm_always, now=0)
        asked = [
            held
            for held in ledger.allocations.values()
            if held.release_by is None and self._may_have_ended(held, free_at)
        ]
        found = await few_at_a_time(self._is_gone, asked)
        return [held for held, is_gone in zip(asked, found, strict=True) if is_gone]

    def _may_have_ended(self, held: Allocation, free_at: Callable[[Departure], int | None]) -> bool:
        if held.dialect == DRA:
            return has_ended(self._cache, held, free_at)
        departure = self._cache.departures.noted(held.uid)
        if departure is not None:
            return free_at(departure) is None
        pod = self._cache.pod(held.pod_ref.namespace, held.pod_ref.name)
        return pod is not None and pod.metadata.uid == held.uid and has_finished(pod)

    async def _is_gone(self, held: Allocation) -> bool:
        """Return whether there is no such claim, or no such pod that has not finished."""
        if held.dialect == DRA:
            claim = await self._claims.get(held.pod_ref)
            return claim is None or claim.metadata.uid != held.uid
        pod = await self._live.get(held.pod_ref)
        return pod is None or pod.metadata.uid != held.uid or has_finished(pod)
