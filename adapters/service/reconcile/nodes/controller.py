"""Reconciles ledgers with the cluster; runs in the elected leader only.

It updates the cards of nodes, adopts pods that other schedulers bound, and releases allocations of
pods that were deleted or never bound. ``plan`` decides what to do.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from adapters.dialects.adoption import KUBELET_SHARES, adopt
from adapters.dialects.dra import DRA
from adapters.repairs.bound_without_service import late_pods
from adapters.repairs.plan import drift, reconcile
from adapters.repairs.repairs import (
    LOST_LEDGER,
    LOST_WHY,
    Adopt,
    Allocate,
    Annotate,
    Describe,
    Keep,
    Mirror,
    NodeView,
    Recount,
    Release,
    ReleaseCause,
    Repair,
    repaired,
)
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import DecisionLog
from adapters.service.decide.service import Service
from adapters.service.reconcile.nodes.claim_reader import ClaimReader
from adapters.service.reconcile.nodes.node_reader import LivePods, NodeReader, OrphanTracker
from adapters.service.reconcile.nodes.pod_writer import ChangeableClaims, PodWriter
from adapters.service.reconcile.reporter import RepairReporter
from adapters.service.reconcile.work_queue import WorkQueue
from adapters.stores.store import Conflict, Store, Stored
from adapters.wire.kube import Metadata, Pod
from adapters.wire.records.ledger import LedgerRecordError
from core.durations import MILLISECOND, SECOND
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger, metered
from core.ledger.problem import Problem, ProblemKind
from core.requests.grant import Allocation

GRACE = 120
"""Seconds after which an allocation without a bound pod is released. A Binding takes less."""

CLAIM_GRACE = 5
"""Seconds of the same for a claim that never had devices, from the first look at it. The API server
writes an attempt within one; see ``_invalidate_attempts``."""

AGAIN = 5.0
"""Seconds until the next attempt for a node that failed, or whose allocations wait for pods."""

POLL = 1.0
"""Seconds between two looks at the queue while no node changes."""

REST = 0.5
"""Seconds between two looks at a node that changes again and again. A look costs the more, the more
pods the node has, and each pod changes it twice: when it is bound, and when its containers run."""

RESYNC = 300.0
"""Seconds between two reconciliations of all nodes, changed or not."""


class Reconciler:
    """Reconciles nodes as they change, a few of them at a time."""

    def __init__(
        self,
        service: Service,
        cache: ClusterCache,
        store: Store,
        live: LivePods,
        decision_log: DecisionLog,
        grace: int = GRACE,
        reporter: RepairReporter | None = None,
        *,
        confirm_always: bool = True,
        live_claims: ChangeableClaims | None = None,
    ) -> None:
        """Reconcile nothing yet.

        A Binding may take ``grace`` seconds; the decision log counts lost compare-and-swap writes.
        ``confirm_always`` is as for ``NodeReader``; ``live_claims`` is None where no ResourceClaims
        count.
        """
        self._service = service
        self._cache = cache
        self._store = store
        self._decision_log = decision_log
        self._reporter = reporter or RepairReporter()
        self._grace = grace
        self._orphans = OrphanTracker(grace * SECOND, CLAIM_GRACE * SECOND)
        self._reader = NodeReader(
            cache,
            live,
            service.ports.clock,
            self._orphans,
            ClaimReader(cache, live_claims),
            self._reporter,
            confirm_always=confirm_always,
        )
        self._writer = PodWriter(service, cache, store, live, live_claims, grace * SECOND)
        self._queue = WorkQueue(self._seconds, REST)
        self._drift: dict[str, tuple[Problem, ...]] = {}

    def take_over(self) -> None:
        """Assume that the nodes without a ledger had one: the leader before did not end in order.

        It may have been killed before it made a ledger again that was deleted, and other replicas
        may have committed cards to that.
        """
        ledgers = self._service.ledgers
        for name in self._cache.nodes:
            stored = ledgers.stored(name)
            if stored is None or not stored.ledger.node.cards:
                ledgers.lose(name)

    def look_at(self, node: str) -> None:
        """Reconcile a node soon: its ledger may need a repair."""
        self._queue.add(node)

    def look_at_once(self, node: str) -> None:
        """Reconcile a node now, although it was looked at a moment ago: a pod's cards are free.

        Schedulers in native mode count them as free from the pod's end on. Until the ledger does
        so too, their Bindings are rejected.
        """
        self._queue.add_at_once(node)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        last = -RESYNC
        while True:
            if self._seconds() - last >= RESYNC:
                last = self._seconds()
                for node in {*self._cache.nodes, *self._service.ledgers.inventory.names()}:
                    self._queue.add_after(node, 0.0)
            await self._queue.work(self.process, POLL)

    async def process(self, name: str) -> None:
        """Reconcile a node unless it agrees already; on an error, put it back into the queue."""
        self._queue.take(name)
        try:
            # In one write with what is committed meanwhile: ``reconcile`` begins again where a
            # commit writes the ledger first. In a race of schedulers for full nodes, cards were
            # free for a second before the ledger had them so.
            with suppress(LedgerContended):  # ``reconcile`` reads the ledger, and reports it
                for _ in range(await self._service.release_ended(name)):
                    self._reporter.repaired(ReleaseCause.GONE.name.lower())
            settled = self._settled_by_watches(name)
            if settled is None:
                settled = await self.reconcile(name)
            # A pod that is bound and waits for cards may get those that another node's pod leaves.
            kinds = {problem.kind for problem in self._drift.get(name, ())}
            settled = settled and ProblemKind.WAITING not in kinds
        except Conflict:
            self._decision_log.conflict(name)
            self._queue.add_at_once(name)
        except (LedgerRecordError, OSError):
            # The store's watch logs an invalid record, and that the store does not answer.
            self._queue.add_after(name, AGAIN)
        else:
            if not settled:
                self._queue.add_after(name, AGAIN)

    async def reconcile(self, name: str) -> bool:
        """Read a node's ledger from the store and repair it.

        Returns:
            whether nothing waits for another look.

        Raises:
            Conflict: the ledger was written by another process meanwhile; reconcile again.
            LedgerRecordError: the ledger cannot be read.
            OSError: the store or the API server did not answer.
        """
        ledgers = self._service.ledgers
        known, was_lost = ledgers.stored(name), name in ledgers.lost
        stored = await self._store.read(name)
        is_new = stored is None or not stored.ledger.node.cards
        if was_lost and not is_new:
            ledgers.lost.pop(name, None)  # it was made again, by us or by another leader
        is_lost = is_new and (name in ledgers.lost or _is_other(known, stored))
        dialects = self._service.pod_requests.dialects
        node = self._reader.node(name, dialects)
        if stored is None and (node is None or not node.cards):
            self._report_drift(name, ())
            return True
        before = NodeLedger.of(node or Node("")) if stored is None else stored.ledger
        view = await self._reader.live_view(before, node, is_lost=is_lost)
        while True:
            repairs = reconcile(view, dialects, self._service.mirrored)
            if refused := await self._refused_by_quota(before, repairs):
                view = replace(view, refused={**view.refused, **refused})
                continue
            unchanged = await self._invalidate_attempts(repairs, view)
            if unchanged is None:
                return False
            if not unchanged:
                break
            view = replace(view, overdue=view.overdue - unchanged)
        ledger = repaired(before, repairs)
        if node is None and stored is not None and not ledger.allocations:
            await self._store.delete(name, stored.version)
            ledgers.remove(name)
        elif stored is None or ledger is not stored.ledger:
            now = self._service.ports.clock.wall() // MILLISECOND
            made = metered(ledger, stored.ledger if stored else None, now)
            await self._store.write(made, stored.version if stored else None)
        is_finished = True
        for repair in repairs:
            try:
                await self._finish(repair, name)
            except OSError:  # of one pod, which must not hold up the others: it may be so for ever
                is_finished = False
        problems = drift(ledger, view.pods, dialects, view.read, view.compare, view.refused)
        self._report_drift(name, problems)
        return is_finished and all(
            view.bound.get(uid) == name and held.release_by is None
            for uid, held in ledger.allocations.items()
        )

    def _settled_by_watches(self, name: str) -> bool | None:
        """Compare ledger and cluster by the watches, without a request.

        Most changes are a pod that was just bound as its ledger says. What is wrong in a ledger
        that the watch has not reported yet, ``UnboundScanner`` or the next resync finds.

        Returns:
            whether nothing waits for another look; None where they do not agree.
        """
        stored = self._service.ledgers.stored(name)
        dialects = self._service.pod_requests.dialects
        node = self._reader.node(name, dialects)
        if stored is None or node is None:
            return None
        if node == stored.ledger.node:
            node = stored.ledger.node  # what was read of its pods is known by identity
        view = self._reader.cached_view(stored.ledger, node)
        if view is None or reconcile(view, dialects, self._service.mirrored):
            return None
        self._report_drift(name, drift(stored.ledger, view.pods, dialects, view.read, view.compare))
        return "" not in view.bound.values()

    async def _refused_by_quota(
        self, before: NodeLedger, repairs: Sequence[Repair]
    ) -> dict[str, str]:
        """Claim of the quotas what is allocated late; the ledger is written afterwards.

        A claim whose allocation is not written then, the leader drops, as after a lost commit.

        Returns:
            by uid, why a quota has no room for a pod.

        Raises:
            OSError: the store of quotas did not answer.
        """
        after = repaired(before, repairs)
        refused: dict[str, str] = {}
        for repair in repairs:
            if isinstance(repair, Allocate):
                try:
                    reason = await self._service.committer.hold_late(repair.allocation, after)
                except LedgerContended as error:
                    reason = str(error)
                if reason is not None:
                    refused[repair.allocation.uid] = reason
        return refused

    async def _invalidate_attempts(
        self, repairs: Sequence[Repair], view: NodeView
    ) -> frozenset[str] | None:
        """Change each pod or claim whose cards are released because it was not bound in time.

        Those of a ledger that was deleted may be any pods that are not bound.

        A service that was stopped after its commit may still send the Binding, and the API server
        still write the claim. Both name the version of the object that was read, so that they
        conflict from now on. The ledger is written afterwards, and only as it was read before: a
        later attempt, which knows the new version, writes the ledger first.

        Returns:
            the uids of the allocations that must stay, because an object was not changed: an
            admission policy may deny it for ever, which must hold up no other repair. A claim is
            released after ``GRACE`` even so: the API server ends a request after 60 seconds
            (kube-apiserver, ``--request-timeout``). None where a pod was bound, or a claim
            allocated, meanwhile.
        """
        unchanged: set[str] = set()
        for repair in repairs:
            if not isinstance(repair, Release) or repair.why is not ReleaseCause.NEVER_BOUND:
                continue
            held, now = repair.allocation, self._service.ports.clock.now()
            try:
                if not await self._writer.invalidate(held, view):
                    return None
            except OSError:
                past_grace = self._orphans.abandoned(view.ledger, view.bound, now)
                if held.dialect != DRA or held.uid not in past_grace:
                    unchanged.add(held.uid)
        return frozenset(unchanged)

    async def _finish(self, repair: Repair, node: str) -> None:
        """Do what a repair asks for beside the ledger, and report it."""
        match repair:
            case Describe():
                self._reporter.repaired("described")
            case Adopt(allocation) if allocation.uid == LOST_LEDGER:
                self._reporter.repaired("closed")
                text = f"No pod gets cards of node {node} for {self._grace} s: {LOST_WHY}."
                self._reporter.of_node(node, "LedgerDeleted", text)
            case Release(allocation) if allocation.uid == LOST_LEDGER:
                self._reporter.repaired("opened")
            case Adopt(allocation) if allocation.unread in (None, KUBELET_SHARES):
                self._reporter.repaired("adopted")
            case Adopt(allocation):
                self._reporter.repaired("adopted_unread")
                is_claim = allocation.dialect == DRA
                holder = f"ResourceClaim {allocation.pod}" if is_claim else "this pod"
                text = (
                    f"Cannot determine which cards of node {node} {holder} uses"
                    f" ({allocation.unread}). Every card it may use counts as allocated."
                )
                if is_claim:
                    self._reporter.of_node(node, "CardsUnknown", text)
                else:
                    self._reporter.of_pod(_pod_of(allocation), "CardsUnknown", text)
            case Allocate(allocation):
                self._reporter.repaired("allocated_late")
                text = (
                    f"Allocated cards of node {node}: the pod was bound while no replica of the"
                    " service answered."
                )
                self._reporter.of_pod(_pod_of(allocation), "CardsAllocatedLate", text)
            case Release(allocation, why):
                self._reporter.repaired(why.name.lower())
                if why is ReleaseCause.NEVER_BOUND and allocation.dialect != DRA:
                    text = f"Released the cards of node {node} reserved for this pod: {why.value}."
                    self._reporter.of_pod(_pod_of(allocation), "CardsReleased", text)
                elif why is ReleaseCause.UNCONFIRMED:
                    text = f"Released the cards of {allocation.pod}: {why.value} within its grace."
                    self._reporter.of_node(node, "StopUnconfirmed", text)
            case Keep():
                self._reporter.repaired("kept")
            case Recount():
                self._reporter.repaired("recounted")
            case Mirror():
                if await self._writer.mirror(repair, node):
                    self._reporter.repaired("mirrored")
            case Annotate():
                pod = await self._writer.annotate(repair, node)
                if pod is not None:
                    self._reporter.repaired("annotated")
                    text = "Restored the annotations that name the cards allocated to this pod."
                    self._reporter.of_pod(pod, "CardsAnnotated", text)

    def _report_drift(self, node: str, problems: Sequence[Problem]) -> None:
        """Report each problem that no repair can solve once."""
        earlier = self._drift.pop(node, ())
        if problems:
            self._drift[node] = tuple(problems)
        for problem in problems:
            if problem not in earlier:
                text = f"{problem.pod}: {problem.text}" if problem.pod else problem.text
                self._reporter.of_node(node, "LedgerDrift", text)

    @property
    def drifting(self) -> int:
        """How many problems on all nodes no repair can solve."""
        return sum(map(len, self._drift.values()))

    def _seconds(self) -> float:
        return self._service.ports.clock.now() / SECOND


def _is_other(known: Stored | None, stored: Stored | None) -> bool:
    """Return whether a record that was read, or its absence, replaces an older one."""
    return known is not None and (stored is None or stored.ledger.version < known.ledger.version)


def _pod_of(allocation: Allocation) -> Pod:
    pod = allocation.pod_ref
    return Pod(Metadata(name=pod.name, namespace=pod.namespace, uid=pod.uid))


def unadopted(service: Service, cache: ClusterCache) -> list[str]:
    """Return the nodes with a ledger that lacks a claim, or a bound pod, that may use its cards.

    A pod that was bound while no replica answered, and waits for its cards, uses none.
    """
    dialects = service.pod_requests.dialects
    claimed = [
        ledger.node.name
        for ledger in service.ledgers.inventory
        for held in cache.claims.holding(ledger, ledger.node)
        if held.uid not in ledger.allocations
    ]
    return claimed + [
        ledger.node.name
        for ledger in service.ledgers.inventory
        for pod in cache.holding(ledger.node.name)
        if pod.metadata.uid not in ledger.allocations and adopt(pod, ledger.node, dialects)
        if not (ledger.node.name in cache.hardware and late_pods((pod,), ledger, dialects))
    ]
