"""The scheduling service: decides for every scheduler, on one cache of ledgers.

The endpoints of each kind of scheduler (``adapters.service.endpoints``) and the gRPC service are
built on what is here.
"""

from asyncio import gather
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from adapters.accounting.pod_requests import PodRequest, PodRequestCache
from adapters.dialects import allocation_record
from adapters.dialects.dialect import NO_RESULT, Dialect, DialectError, Result
from adapters.dialects.mirrors import mirrors
from adapters.repairs.repairs import RELEASED
from adapters.service.decide.advice.explain import (
    Explanation,
    ServiceFacts,
    WaitingAnswers,
    explain,
)
from adapters.service.decide.advice.feasibility import Feasibility
from adapters.service.decide.advice.remembered_pods import ExpectedPods, RejectedPods, WaitingPods
from adapters.service.decide.commit.attempt import Committed
from adapters.service.decide.commit.committer import Committer
from adapters.service.decide.commit.ledger_writer import LedgerContended, LedgerWriter
from adapters.service.decide.commit.quota_holds import QuotaHolds
from adapters.service.decide.commit.validate import KeptPlace, kept_place
from adapters.service.decide.gangs import Gangs
from adapters.service.decide.ports import BindError, PodChangedError, Ports, Readiness
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.wire.kube import Pod, annotations, full_name, labels, pod_ref
from core.durations import SECOND
from core.requests.grant import Allocation, Grant
from core.requests.reason import Reason
from core.requests.request import PodRef

MAX_AGE = 30
"""Seconds after a commit in which its Binding may be sent; a reconciler waits for longer."""

CHANGED_PODS = 2
"""How often a Binding is sent again because the pod was changed after it was read."""

READS = 10
"""Pods of a scheduler, one after the other, that are read for nothing before their Bindings."""

CONFLICT, NOT_FOUND = 409, 404

HOLD_SECONDS = 30
"""Seconds after which the reservation for a planned pod expires, by default."""

NODES_AT_ONCE = 3
"""Nodes whose ledgers can have a pod or a claim that is not placed yet.

A scheduler makes one attempt after the other, and what a failed one leaves is released after
minutes. A review that the API server did not send cannot hold more.
"""


class AlreadyPlaced(RuntimeError):  # noqa: N818 (the scheduler is late)
    """The pod is bound, or holds cards of several nodes by attempts to bind it."""


class UnknownPod(LookupError):  # noqa: N818 (not a fault: the scheduler tries again)
    """Neither the cluster nor a scheduler has shown this pod."""


class Service:
    """Decides.

    Attributes:
        ledgers: of all nodes.
        pod_requests: pods that were read, and what they request.
        quotas: of the namespaces.
        feasibility: which nodes fit a pod, and why the others do not.
        facts: what an answer about a pod reads of the cluster.
        waiting_answers: why each waiting pod has no node, evaluated in the background.
        ports: the world.
        committer: allocates cards to pods and ResourceClaims, and releases them.
        gangs: plans pods that are bound together.
        readiness: what decisions wait for.
        waiting_pods: pods that fitted no node.
        rejected_pods: those of them that an eviction may help.
        expected_pods: pods that a scheduler has placed, and whose binds have not arrived.
        hold_seconds: after how many seconds the reservation for a planned pod expires.
        evicts: whether the service evicts pods of lower priority for others.
    """

    def __init__(
        self,
        dialects: Sequence[Dialect],
        ports: Ports,
        hold_seconds: int = HOLD_SECONDS,
        mirrored: Collection[str] = (),
        *,
        evicts: bool = False,
    ) -> None:
        """Know no node and no pod yet.

        Args:
            dialects: all dialects.
            ports: the world.
            hold_seconds: see the attribute.
            mirrored: names of the dialects whose records pods of other dialects get too.
            evicts: see the attribute.
        """
        self.evicts = evicts
        self.ledgers = LedgerCache()
        self.pod_requests = PodRequestCache(dialects, ports.objects.counted)
        self.ports = ports
        self.quotas = Quotas(self.ledgers)
        writer = LedgerWriter(self.ledgers, ports.store, ports.clock, ports.decision_log)
        quota_holds = QuotaHolds(self.quotas, ports.quotas, ports.clock)
        self.committer = Committer(self.ledgers, writer, ports.clock, self.quotas, quota_holds)
        self.hold_seconds = hold_seconds
        self.feasibility = Feasibility(self.ledgers, self.quotas)
        self.gangs = Gangs(
            self.ledgers,
            self.feasibility,
            self.committer,
            self.pod_requests,
            ports.clock,
            ports.gangs,
            self.quotas,
        )
        self.facts = ServiceFacts(self.pod_requests, self.feasibility, ports.objects, ports.gangs)
        self.readiness = Readiness()
        self.waiting_pods = WaitingPods()
        self.rejected_pods = RejectedPods()
        self.expected_pods = ExpectedPods(self.ledgers, ports.clock)
        self.waiting_answers = WaitingAnswers(
            ServiceFacts(
                self.pod_requests,
                Feasibility(self.ledgers, self.quotas),
                ports.objects,
                ports.gangs,
            ),
            ports.clock,
            self.readiness,
        )
        self._mirrored = frozenset(mirrored)
        self._binding: dict[str, tuple[str, Committed]] = {}
        self._reads: dict[str | None, int] = defaultdict(lambda: READS)

    @property
    def mirrored(self) -> list[Dialect]:
        """The dialects whose records pods of other dialects get too, as they are configured now."""
        return [each for each in self.pod_requests.dialects if each.name in self._mirrored]

    @property
    def revision(self) -> tuple[int, int]:
        """Changes whenever anything does that a decision depends on."""
        return self.feasibility.revision

    def check_ready(self) -> None:
        """Return if decisions can be made, after reservations that have expired are removed.

        Raises:
            NotReady: something that decisions need is not known yet.
        """
        self.readiness.check()
        self.ledgers.expire(self.ports.clock.now())

    def check_attempts(self, holder: PodRef, node: str) -> None:
        """Return if a node's ledger can have one more attempt to place a pod or a claim.

        Raises:
            AlreadyPlaced: the ledgers of other nodes have too many.
        """
        others = sorted(name for name, _ in self.ledgers.committed(holder.uid) if name != node)
        if len(others) >= NODES_AT_ONCE:
            held = ", ".join(others)
            raise AlreadyPlaced(f"attempts to place {holder} hold cards of {held}: try again")

    def kept_place(self, pod_request: PodRequest) -> KeptPlace | None:
        """Return where a pod goes by a plan of moves; None where no place is kept for it."""
        if not self.ledgers.holding():
            return None

        def staying(node: str) -> set[str]:
            pods = self.ports.objects.pods_on(node)
            return {pod.metadata.uid for pod in pods if not pod.metadata.deletion_timestamp}

        return kept_place(pod_request, self.ledgers, staying)

    def fits(self, pod_request: PodRequest) -> bool:
        """Return whether a pod fits any node now, with all of its gang; nothing is held."""
        place = self.kept_place(pod_request)
        return self.gangs.fits(pod_request) if place is None else place.is_free

    async def find(self, pod: PodRef) -> Pod:
        """Return a pod from the cluster's cache, else as a scheduler has sent it.

        Raises:
            UnknownPod: there is none, or it has another uid.
            OSError: the cluster did not answer.
        """
        cached = await self.ports.pods.get(pod)
        if cached is not None and pod.uid in ("", cached.metadata.uid):
            return cached
        sent = self.pod_requests.get(pod.uid)
        if sent is not None and full_name(sent.pod) == str(pod):
            return sent.pod
        if cached is None:
            raise UnknownPod(f"pod {pod} is not known (yet)")
        return await self.newest(pod)  # it may have been created again, and the cache be stale

    async def explain(self, pod: Pod) -> Explanation:
        """Return where a pod fits, and why it does not fit the other nodes.

        Nothing is allocated.
        """
        return await explain(self.facts, pod, evicts=self.evicts)

    async def newest(self, pod: PodRef) -> Pod:
        """Return a pod from the API server, past every cache; errors as of ``find``."""
        newest = await self.ports.pods.newest(pod)
        if newest is None:
            raise UnknownPod(f"pod {pod} is not known (yet)")
        if pod.uid not in ("", newest.metadata.uid):
            raise UnknownPod(f"pod {pod} has uid {newest.metadata.uid}, not {pod.uid}")
        return newest

    def result(self, pod_request: PodRequest, committed: Committed) -> Result:
        """Return the annotations and labels by which the node learns a pod's allocation.

        No record of its own where the ledger chose no card: only the kubelet knows what the pod
        has. The records of ``mirrors`` are beside it.
        """
        placement, pod = committed.placement, pod_request.pod
        result = NO_RESULT
        if placement.grants:
            request, wall = pod_request.request, self.ports.clock.wall()
            result = pod_request.dialect.write_result(pod, request, placement, committed.node, wall)
            result = allocation_record.update(pod, result, placement.grants)
        mirrored = self.mirrors(pod_request, committed)
        return replace(result, annotations={**result.annotations, **mirrored})

    def mirrors(self, pod_request: PodRequest, committed: Committed) -> dict[str, str]:
        """Return the records by which schedulers of other dialects count what a pod has."""
        held = Allocation.of(pod_request.request, committed.placement)
        if not held.cards or not self._mirrored:
            return {}
        pod, own = pod_request.pod, pod_request.dialect
        return mirrors(pod, own, (held,), committed.node, self.mirrored)

    async def commit(
        self, pod_request: PodRequest, node: str, choice: Sequence[Grant] = ()
    ) -> tuple[Committed | Reason, bool]:
        """Allocate cards to a pod, and lock the node if its device plugin needs that.

        Returns:
            what the committer returns, and whether a lock was acquired that must be released if
            the pod is not bound.

        Raises:
            NodeLocked: another pod has the lock; nothing was allocated.
            LedgerContended: the ledger could not be written.
            OSError: the store or the cluster did not answer.
        """
        needed = partial(pod_request.dialect.needs_node_lock, pod_request.request)
        locks = self.ports.locks
        locked = locks is not None and await locks.acquire(pod_request.pod, node, needed)
        try:
            committed = await self.committer.commit(pod_request, node, choice)
        except (LedgerContended, OSError):
            if locked:
                await self._unlock(pod_request.pod, node)
            raise
        if locked and isinstance(committed, Reason):
            await self._unlock(pod_request.pod, node)
            locked = False
        return committed, locked

    async def bind(self, pod_request: PodRequest, node: str) -> Committed | Reason:
        """Allocate cards to a pod, and bind it to the node with one Binding.

        Raises:
            NodeLocked: another pod has the lock of the node's device plugin.
            BindError: the pod is not bound. Its new allocation is released if the pod is sure not
                to be bound; else it stays until that is known.
            LedgerContended: the ledger could not be written.
            OSError: the store did not answer.
        """
        try:
            return await self._bind(pod_request, node)
        except PodChangedError as changed:
            again = self._read_again(pod_request, changed.pod)
            if again is None:
                raise
        return await self._bind(again, node)

    async def _bind(self, pod_request: PodRequest, node: str) -> Committed | Reason:
        """Return one attempt of ``bind``.

        Raises:
            PodChangedError: the pod was changed after it was read; nothing stays allocated for
                this attempt.
            BindError: as ``bind``; and the errors of ``commit``.
        """
        began = self.ports.clock.now()
        committed, locked = await self.commit(pod_request, node)
        if isinstance(committed, Reason):
            return committed
        uid, pod = pod_request.request.uid, pod_request.pod
        self._binding[uid] = (node, committed)
        try:
            if committed.is_untouched:
                result = self.result(pod_request, committed)
                await send_binding(self.ports, pod_ref(pod), node, result)
            else:
                await self._bind_version(pod_request, committed, began)
        except BindError as error:
            if error.definite and committed.new:
                try:
                    await self.committer.release(uid, node, committed.attempt)
                except (LedgerContended, OSError) as late:  # the reconciler will
                    text = f"cards of {node} stay allocated until the next reconciliation: {late}"
                    self.ports.events.emit(pod, "ReleaseFailed", text, warning=True)
            elif error.definite:
                self.gangs.not_bound(pod_request, node, committed)
            if error.definite and locked:
                await self._unlock(pod, node)
            raise
        finally:
            self._binding.pop(uid, None)
        for other, _ in [*self.ledgers.committed(uid)]:  # by earlier attempts
            if other != node:
                with suppress(LedgerContended, OSError):  # the reconciler will
                    await self.committer.release(uid, other)
        return committed

    async def _bind_version(
        self, pod_request: PodRequest, committed: Committed, began: int
    ) -> None:
        """Bind the newest version of a pod to the cards that a commit has allocated to it.

        koord-scheduler nominates the node of each pod just before its Binding: where the watch does
        not show it yet, the pod is read. Source: k8s.io/kubernetes v1.35.2
        pkg/scheduler/schedule_one.go, nominatedNodeNameForExpectationEnabled.

        Raises:
            PodChangedError: something has changed on which the commit relies, or the pod changes
                again and again.
            BindError: as ``bind``.
        """
        uid, ref, node = pod_request.request.uid, pod_ref(pod_request.pod), committed.node.name

        def still(newer: Pod | None) -> PodRequest | None:
            again = None if newer is None else self._read_again(pod_request, newer)
            if again is None or _relied_on(again.pod) != _relied_on(pod_request.pod):
                return None
            held = {place: each.attempt for place, each in self.ledgers.committed(uid)}
            return again if held.get(node) == committed.attempt else None

        latest, scheduler = pod_request, pod_request.pod.spec.scheduler_name
        with suppress(OSError):  # the API server says whether it has changed
            latest = still(await self.ports.pods.get(ref)) or pod_request
            if latest.pod.status.nominated_node_name != node and self._reads[scheduler] > 0:
                latest = still(await self.ports.pods.newest(ref)) or latest
                is_nominated = latest.pod.status.nominated_node_name == node
                self._reads[scheduler] = READS if is_nominated else self._reads[scheduler] - 1
        for attempt in range(1 + CHANGED_PODS):
            self.check_age(began)
            result, version = self.result(latest, committed), latest.pod.metadata.resource_version
            try:
                await send_binding(self.ports, ref, node, result, version)
            except PodChangedError as changed:
                again = still(changed.pod)
                if again is None or attempt == CHANGED_PODS:
                    raise
                latest = again
                if latest.pod.status.nominated_node_name == node:
                    self._reads[scheduler] = READS
            else:
                return

    def _read_again(self, pod_request: PodRequest, newer: Pod) -> PodRequest | None:
        """Return a pod as it is now; None where it requests something else, or ends."""
        if newer.metadata.uid != pod_request.request.uid or newer.metadata.deletion_timestamp:
            return None
        try:
            again = self.pod_requests.read(newer)
        except DialectError:
            return None
        is_same = again is not None and again.request == pod_request.request
        return again if is_same and newer.status.phase in (None, "Pending") else None

    def binding_in_progress(self, uid: str, node: str) -> Committed | None:
        """Return the allocation of a pod whose Binding to a node this process awaits."""
        in_progress = self._binding.get(uid)
        return in_progress[1] if in_progress is not None and in_progress[0] == node else None

    def chose_cards(self, uid: str, node: str) -> bool:
        """Return whether this process chose the cards for which a pod goes to a node."""
        reserved = self.ledgers.reservation(uid)
        is_reserved = reserved is not None and reserved.node == node
        return is_reserved or self.binding_in_progress(uid, node) is not None

    async def release(self, uid: str) -> tuple[str, ...]:
        """Release all allocations of a pod.

        Returns:
            the nodes on which it had any.

        Raises:
            LedgerContended: a ledger could not be written.
            OSError: the store did not answer.
        """
        nodes = self.ledgers.inventory.nodes_of(uid)
        for node in nodes:
            await self.committer.release(uid, node)
        self.forget(uid)
        return nodes

    async def release_ended(self, node: str) -> int:
        """Release the cards of a node's pods and claims that are gone; how many had any.

        Each replica may do this, and need not wait until the leader has written the ledger: a
        scheduler that chooses cards counts them as free already.

        Raises:
            LedgerContended: the ledger could not be written.
            OSError: the store or the cluster did not answer.
        """
        stored = self.ledgers.stored(node)
        if stored is None:
            return 0
        ended = await self.ports.ended_among(stored.ledger)
        return sum(await gather(*(self.committer.release(each.uid, node) for each in ended)))

    def forget(self, uid: str) -> None:
        """Drop what is cached of a pod that was deleted."""
        self.waiting_pods.discard(uid)
        self.rejected_pods.discard(uid)
        self.expected_pods.discard(uid)
        self.pod_requests.forget(uid)

    def check_age(self, began: int) -> None:
        """Check that a commit is used soon after it; this process may have been stopped.

        Args:
            began: nanoseconds of the service's clock before the commit.

        Raises:
            BindError: it is too late: the cards may have been released since.
        """
        seconds = (self.ports.clock.now() - began) // SECOND
        if seconds > MAX_AGE:
            raise BindError(
                CONFLICT,
                f"too late: the cards were committed {seconds} s ago, at most {MAX_AGE} s may pass",
            )

    async def _unlock(self, pod: Pod, node: str) -> None:
        if self.ports.locks is not None:
            await self.ports.locks.release(pod, node)


def _relied_on(pod: Pod) -> object:
    """Return what, beside its request, a commit to a pod and its release rely on."""
    owners, node = pod.metadata.owner_references, pod.spec.node_name
    return annotations(pod).get(RELEASED), labels(pod).get(RELEASED), owners, node


async def send_binding(
    ports: Ports, pod: PodRef, node: str, result: Result, version: str = ""
) -> None:
    """Bind a pod to a node, with annotations and labels in the same write.

    With a version, the API server binds the pod only if it was not changed after it was read. A
    reconciler that releases the cards of a pod changes the pod first, so that a Binding that was
    sent late binds nothing.

    After a 409, and after an answer that was lost, the pod itself is read. If it is bound to this
    node it counts as bound by us: an earlier attempt of ours, here or in another replica, whose
    answer was lost has done it. Its annotations are not compared, because they carry the time of
    that attempt. If another scheduler bound the pod to this node, the cards are still allocated in
    the ledger, and the reconciler writes them on the pod.

    Args:
        ports: the world.
        pod: the pod.
        node: the name of the node.
        result: annotations and labels to add.
        version: the resourceVersion of the pod for which the cards are committed; empty for any.

    Raises:
        PodChangedError: the pod is not bound, and has another version now.
        BindError: the pod is not bound to the node. ``definite``: it never will be by this Binding;
            else it may be.
    """
    try:
        await ports.binder.bind(pod, node, result.annotations, result.labels, version)
    except BindError as bind_error:
        if bind_error.definite and bind_error.status != CONFLICT:
            raise
        error = bind_error
    else:
        return
    try:
        found = await ports.pods.newest(pod)
    except OSError as unread:
        # Even after a 409: an earlier Binding of ours may be what it conflicts with.
        raise BindError(0, str(unread)) from unread
    if found is None or found.metadata.uid != pod.uid:
        raise BindError(NOT_FOUND, "the pod is gone") from error
    if not found.spec.node_name:
        if error.status == CONFLICT and version not in ("", found.metadata.resource_version):
            raise PodChangedError(error, found) from error
        raise error
    if found.spec.node_name != node:
        raise BindError(CONFLICT, f"the pod is bound to {found.spec.node_name}") from error
