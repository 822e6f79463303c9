"""Evicts pods of lower priority for pods that fit a node in sum, but no card of it.

kube-scheduler does not preempt there: its own sums are not short, so it finds no victim, and asks
no extender for one (kubernetes 1.37.1 pkg/scheduler/framework/preemption/preemption.go:489).

A pod is helped by the process that its scheduler asked: only that knows on which nodes the pod has
everything but cards. Of a pod with ResourceClaims every process knows it. An attempt goes through
these steps; whatever dies in between leaves what the next process finds:

    planned    the fewest victims; no pod that a disruption budget protects is among them
    asked      the API server would evict each (dry run)
    marked     the annotation ``MARK`` of the pod, by compare-and-swap: no other process attempts
               it now, and how many attempts there were outlives this one
    evicted    by the Eviction API, each victim once
    held       the cards are committed to the pod, in the write that releases those of the victims
               where this process writes it, else at once after it: other pods find no hole

The hold is an allocation of a pod that is not bound, or of its claims, as after every commit: the
requeue wakes the pod, its bind finds it, and the leader releases it if no bind comes.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import nlargest
from typing import NoReturn, Protocol

import msgspec

from adapters.accounting.pod_requests import ClaimsPod, PodRequest, Wanted
from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import Claim
from adapters.service.decide.advice.remembered_pods import RejectedPod
from adapters.service.decide.commit.attempt import ClaimOption, Committed
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.decide.preemption import (
    NodeVictims,
    held_then,
    lacks_only_devices,
    leaves,
    node_victims,
    wanted_by,
)
from adapters.service.decide.service import Service
from adapters.wire.decode.decoder import Decoder, Int64, UnreadableError
from adapters.wire.kube import Changes, Pod, Wire, annotations, full_name, pod_ref, rejection_of
from adapters.wire.kube_policy import Budget
from core.durations import SECOND, Sightings
from core.ledger.node_ledger import LedgerError
from core.requests.grant import Allocation, Placement
from core.requests.reason import Reason
from core.requests.request import PodRef

MARK = "dragoman.dev/preemption"
"""Annotation of a pod for which pods were evicted: attempts, and time and node of the last one."""

EVERY = 0.5
"""Seconds between two rounds, if no ledger changes."""

DELAY = 2 * SECOND
"""Nanoseconds after the first rejection in which a scheduler may preempt itself."""

RECENT = 120 * SECOND
"""Nanoseconds after the last rejection until its nodes count no more: where another reason has
come to rule out all of them, the scheduler asks no more. kube-scheduler tries again after five
minutes at most."""

ATTEMPTS = 3
"""Attempts for one pod, as long as it exists. A victim that is made again may take the cards."""

REST = 120
"""Seconds after an attempt, doubled by each, until the next one for the pod."""

REFUSED = 60 * SECOND
"""Nanoseconds after a refused eviction until the next attempt for the pod."""

AGAIN, LONGEST = 5 * SECOND, 80 * SECOND
"""Nanoseconds after a look for victims until the next one: doubled by each look in vain. Where no
eviction helps, the next one for any pod of the same template."""

AT_ONCE = 16
"""Attempts of this process that wait for cards."""

MOST_EVICTED = 20
"""Pods that are evicted in a minute for the pods of one namespace, by this process."""

MARGIN = 60
"""Seconds beyond the longest grace period of the victims until an attempt has failed."""

LONGEST_GRACE = 600
"""Seconds of a grace period that an attempt waits for at most: its author may state any."""

DEFAULT_GRACE = 30
"""Seconds. Source: k8s.io/api/core/v1/types.go, terminationGracePeriodSeconds."""

READ = 64
"""Pods with ResourceClaims that are read in a round, those of the highest priority that are due."""

LATER = ("",)
"""Stands for the nodes of a pod with claims, which are found when it is its turn."""

REMEMBERED = 1024
"""Pods and templates of which the last look is remembered."""


class PodAccess(Protocol):
    """Evicts, annotates and lists pods; raises OSError where the API server refuses."""

    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> bool:
        """Evict a pod, as disruption budgets allow; whether there was one."""

    async def on_node(self, node: str) -> Sequence[Pod]:
        """Return all pods that are bound to a node, as the API server has them."""

    async def annotate(
        self, pod: PodRef, annotations: Changes, labels: Changes | None = None, version: str = ""
    ) -> Pod:
        """Set annotations of the pod with this uid and resourceVersion."""


class Mark(Wire, frozen=True, gc=False):
    """The value of ``MARK``.

    Attributes:
        attempts: how many there were, with the last one.
        at: when that began, RFC 3339.
        node: of which its victims had cards.
    """

    attempts: Int64 = 0
    at: str = ""
    node: str = ""


_MARK = Decoder(Mark)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Victims of a pod are evicted, and their cards are not free yet.

    Attributes:
        pod: the pod that needs the cards.
        victims: that are evicted.
        until: when it has failed, in nanoseconds of the clock.
    """

    pod: Wanted
    victims: NodeVictims
    until: int


@dataclass(slots=True)
class _Memory:
    """What this process remembers of a pod, or of looks in vain for pods of one template.

    Attributes:
        attempts: that it began; the pod's owner may remove the annotation.
        looks: for victims.
        not_before: when the next look may be, in nanoseconds of the clock.
    """

    attempts: int = 0
    looks: int = 0
    not_before: int = 0


@dataclass(eq=False, slots=True)
class Preemptor:
    """Makes the attempts of one process; ``unbound`` are the pods that no scheduler has bound."""

    _service: Service
    _pods: PodAccess
    _unbound: Callable[[], Sequence[Pod]] = tuple
    _attempts: dict[str, _Attempt] = field(default_factory=dict)
    _memory: OrderedDict[str | bytes, _Memory] = field(default_factory=OrderedDict)
    _turns: Mapping[str, int] = field(default_factory=dict)
    _marks: Sightings = field(default_factory=Sightings)
    _evicted: deque[tuple[int, str]] = field(default_factory=deque)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def waiting(self) -> int:
        """The pods for which others were evicted and that have no cards yet."""
        return len(self._attempts)

    def changed(self, node: str) -> None:
        """Note that the ledger of a node was written, or that a pod of it has ended."""
        if any(each.victims.node == node for each in self._attempts.values()):
            self._changed.set()

    async def run(self) -> None:
        """Run until cancelled; an eviction that waits for an answer delays no hold."""

        async def holds() -> NoReturn:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY):
                        await self._changed.wait()
                self._changed.clear()
                await self._hold_all()

        async def begins() -> NoReturn:
            while True:
                await asyncio.sleep(EVERY)
                await self._begin_some()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(holds())
            tasks.create_task(begins())

    async def round(self) -> None:
        """Hold what is free now, then begin attempts for rejected pods."""
        await self._hold_all()
        await self._begin_some()

    async def _hold_all(self) -> None:
        """Hold what is free now."""
        if self._service.readiness.awaited:
            return
        for uid, attempt in [*self._attempts.items()]:
            if await self._is_over(attempt):
                del self._attempts[uid]
                self._service.ledgers.unreserve(uid, attempt.victims.node)

    async def _begin_some(self) -> None:
        """Begin attempts for rejected pods."""
        if self._service.readiness.awaited:
            return
        self._reject_claims()
        candidates = [each for each in self._in_turn() if self._may_help(each)]
        if not candidates:
            return
        try:
            budgets = await self._service.ports.budgets()
        except OSError:
            return
        for rejected in candidates:
            if len(self._attempts) < AT_ONCE:
                await self._begin(rejected, budgets)

    def _reject_claims(self) -> None:
        """Take the pods that wait for devices of ResourceClaims, by what their schedulers say."""
        service, now = self._service, self._service.ports.clock.now()
        rests = {uid for uid, memory in self._memory.items() if now < memory.not_before}
        due = (pod for pod in self._unbound() if pod.metadata.uid not in rests)
        said = ((pod, rejection_of(pod)) for pod in due)
        waiting = (pod for pod, each in said if each and "claim" in each.message)
        for pod in nlargest(READ, waiting, key=lambda pod: pod.spec.priority or 0):
            with suppress(DialectError):
                wanted = wanted_by(service, pod)
                if isinstance(wanted, ClaimsPod):
                    service.rejected_pods.rejected(wanted, LATER, now)

    def _in_turn(self) -> Iterator[RejectedPod]:
        """Yield two pods for which the service looks for victims now.

        The first has the highest priority. The second is of the namespace whose turn it is, so that
        no tenant keeps all looks by pods that no eviction helps.
        """
        due = [each for each in self._service.rejected_pods.all() if self._is_due(each)]
        for by_priority in (True, False):
            if not due:
                return
            turns = {each.namespace: self._turns.get(each.namespace, 0) for each in due}
            highest = due[0].pod.request.priority if by_priority else None
            chosen = min(
                (each for each in due if highest in (None, each.pod.request.priority)),
                key=lambda each: turns[each.namespace],
            )
            due.remove(chosen)
            turns[chosen.namespace] = 1 + max(self._turns.values(), default=0)
            self._turns = turns
            yield chosen

    def _is_due(self, rejected: RejectedPod) -> bool:
        """Return whether the service may look for victims of a pod now."""
        now, request = self._service.ports.clock.now(), rejected.pod.request
        if request.uid in self._attempts or request.plugin is not None:
            return False
        if self._service.ledgers.keeping_for(request.uid):
            return False  # a plan of moves makes room for it
        if now - rejected.since < DELAY or rejected.is_preempting(now):
            return False
        if now - rejected.asked > RECENT or not rejected.nodes:
            return False
        known = (self._memory.get(request.uid), self._memory.get(rejected.template))
        return all(
            memory is None or (now >= memory.not_before and memory.attempts < ATTEMPTS)
            for memory in known
        )

    def _may_help(self, rejected: RejectedPod) -> bool:
        """Return whether a pod of lower priority has cards of a node where the pod may go."""
        self._pause(rejected.pod.request.uid)
        is_of_claims = isinstance(rejected.pod, ClaimsPod)
        if is_of_claims:
            service, now = self._service, self._service.ports.clock.now()
            names = filter(service.ledgers.ledger, lacks_only_devices(service, rejected.pod.pod))
            service.rejected_pods.rejected(rejected.pod, tuple(names), now)
        ledgers = map(self._service.ledgers.ledger, rejected.nodes)
        may_help = any(
            allocation.priority < rejected.pod.request.priority
            or (is_of_claims and allocation.dialect == DRA)
            for ledger in ledgers
            if ledger is not None
            for allocation in ledger.allocations.values()
        )
        if not may_help:
            self._pause(rejected.template)
        return may_help

    def _pause(self, key: str | bytes) -> None:
        """Look no more for a pod by its uid, or for those of a template, for a while."""
        memory = self._memory_of(key)
        pause = min(AGAIN << min(memory.looks, 8), LONGEST)
        memory.not_before = self._service.ports.clock.now() + pause
        memory.looks += 1

    async def _begin(self, rejected: RejectedPod, budgets: Sequence[Budget]) -> None:
        """Begin an attempt for a pod, if evictions help it."""
        service, uid = self._service, rejected.pod.request.uid
        clock, memory = service.ports.clock, self._memory_of(uid)
        if not self._is_within_rate(rejected.pod, 1):
            return
        stored = {node: service.ledgers.stored(node) for node in rejected.nodes}
        is_undisturbed = not self._attempts  # else nodes are left out that may help later
        best = await self._best(rejected, budgets)
        if best is None:
            if is_undisturbed:
                self._pause(rejected.template)
            return
        self._memory.pop(rejected.template, None)
        try:
            pod = await service.ports.pods.newest(pod_ref(rejected.pod.pod))
            pod_request = None if pod is None else wanted_by(service, pod)
        except (OSError, DialectError):
            return
        if (
            pod is None
            or pod.spec.node_name
            or service.ports.gangs.gang(pod) is not None
            or pod_request is None
            or pod_request.request != rejected.pod.request
        ):
            service.rejected_pods.discard(uid)
            return
        mark, is_pod = _mark(pod), isinstance(pod_request, PodRequest)
        number = max(mark.attempts, memory.attempts) + 1
        rejection = rejection_of(pod)
        if (
            rejection is None
            or (is_pod and rejection.reason != "Unschedulable")
            or not (is_pod or best.node in lacks_only_devices(service, pod))
            or pod.metadata.deletion_timestamp
            or pod.spec.preemption_policy == "Never"
        ):
            return
        if number > ATTEMPTS or not self._has_rested(uid, mark):
            return
        if await self._is_helped(pod):
            memory.not_before = min(memory.not_before, clock.now() + AGAIN)
            return
        if not self._is_within_rate(pod_request, len(best.pods), best.node):
            return
        if await self._would_evict(pod_request, best):
            if service.ledgers.stored(best.node) is stored[best.node]:
                await self._evict(pod_request, best, number)
            else:
                memory.not_before = clock.now()

    def _has_rested(self, uid: str, mark: Mark) -> bool:
        """Return whether the last attempt for a pod, by whichever process, is long enough ago."""
        try:
            at = int(datetime.fromisoformat(mark.at).timestamp() * SECOND)
        except (ValueError, OverflowError):
            return True
        clock = self._service.ports.clock
        passed = self._marks.since(uid, at, clock.now(), clock.wall())
        return passed >= (REST << max(0, min(mark.attempts, ATTEMPTS) - 1)) * SECOND

    async def _is_helped(self, pod: Pod) -> bool:
        """Return whether victims that the scheduler has chosen for a pod are on their way.

        A nominated node alone says nothing: koord-scheduler also nominates one on which it evicts
        no pod.
        """
        node = pod.status.nominated_node_name
        if not node:
            return False
        try:
            pods = await self._pods.on_node(node)
        except OSError:
            return True
        priority = pod.spec.priority or 0
        return any(
            (one.spec.priority or 0) < priority and leaves(self._service, one) for one in pods
        )

    async def _best(self, rejected: RejectedPod, budgets: Sequence[Budget]) -> NodeVictims | None:
        """Return the victims that cost least; None where none helps, or none is needed."""
        busy = {each.victims.node for each in self._attempts.values()}
        found: list[NodeVictims] = []
        for node in rejected.nodes:
            if node not in busy:
                try:
                    each = await node_victims(self._service, rejected.pod, node, budgets)
                except OSError:
                    continue
                if each is not None and not each.pods:
                    return None  # pods that are being deleted free enough
                found += [] if each is None else [each]
                await asyncio.sleep(0)
        return min(found, key=lambda each: each.cost, default=None)

    async def _would_evict(self, pod_request: Wanted, best: NodeVictims) -> bool:
        """Return whether the API server would evict each victim."""
        for victim in best.pods:
            try:
                await self._pods.evict(pod_ref(victim), dry_run=True)
            except OSError as error:
                later = self._service.ports.clock.now() + REFUSED
                self._memory_of(pod_request.request.uid).not_before = later
                # The error may name a pod of another namespace: the log has it, the Event has not.
                why = f"{best.node}: the API server would not evict each pod"
                text = f"{why}: {error}"
                self._record(pod_request, Outcome.REFUSED, best.node, "eviction", text)
                events = self._service.ports.events
                events.emit(pod_request.pod, "PreemptionFailed", why, warning=True)
                return False
        return True

    async def _evict(self, pod_request: Wanted, best: NodeVictims, number: int) -> None:
        """Mark the pod, then evict, the lowest priority first, until one is refused.

        The attempt waits for cards from the first eviction on. The others stay where it is over
        meanwhile: the pod has cards, or is gone.
        """
        pod, ports, request = pod_request.pod, self._service.ports, pod_request.request
        clock, uid, node = ports.clock, request.uid, best.node
        memory, namespace = self._memory_of(uid), pod_ref(pod).namespace
        at = datetime.fromtimestamp(clock.wall() / SECOND, UTC).isoformat(timespec="seconds")
        mark = Mark(number, at, node)
        text = msgspec.json.encode(mark).decode()
        version = pod.metadata.resource_version
        try:
            await self._pods.annotate(pod_ref(pod), {MARK: text}, version=version)
        except OSError:
            return  # its scheduler has changed it, or another process attempts it
        self._has_rested(uid, mark)  # it counts from now on
        memory.attempts = number
        memory.not_before = clock.now() + (REST << number - 1) * SECOND
        stated = (victim.spec.termination_grace_period_seconds for victim in best.pods)
        longest = max(DEFAULT_GRACE if seconds is None else seconds for seconds in stated)
        grace = min(LONGEST_GRACE, max(0, longest))
        until = clock.now() + (grace + MARGIN) * SECOND
        self._attempts[uid] = _Attempt(pod_request, best, until)
        for count, victim in enumerate(best.pods):
            if uid not in self._attempts:
                break
            try:
                if not await self._pods.evict(pod_ref(victim)):
                    continue  # it is gone
            except OSError as error:
                why = f"{node}: {count} of {len(best.pods)} pods are evicted"
                self._record(pod_request, Outcome.ERROR, node, "eviction", f"{why}: {error}")
                ports.events.emit(pod, "PreemptionFailed", why, warning=True)
                self._attempts.pop(uid, None)
                self._service.ledgers.unreserve(uid, node)
                return
            self._evicted.append((clock.now(), namespace))
            why = f"for pod {uid} of priority {request.priority}"
            name, dialect = full_name(victim), request.dialect
            ports.decision_log.record(
                DecisionRecord(
                    "evict", Outcome.EVICTED, name, victim.metadata.uid, dialect, node, text=why
                )
            )
            ports.events.emit(victim, "Preempted", f"Evicted {why} on {node}", warning=False)
        else:
            why = f"{len(best.pods)} pods of lower priority are evicted to free cards of {node}"
            self._record(pod_request, Outcome.EVICTED, node, "", why)
            ports.events.emit(pod, "Preempting", why, warning=False)
        self._changed.set()

    async def _is_over(self, attempt: _Attempt) -> bool:
        """Hold the cards of an attempt if they are free; whether nothing is left to do."""
        service, node = self._service, attempt.victims.node
        ports, request = service.ports, attempt.pod.request
        with suppress(LedgerContended, LedgerError, OSError):
            pod = await ports.pods.get(pod_ref(attempt.pod.pod))
            if pod is None or pod.metadata.uid != request.uid or pod.metadata.deletion_timestamp:
                return True
            is_claimed = not pod.spec.resource_claims and service.facts.claims.of_pod(request.uid)
            if pod.spec.node_name or is_claimed or await self._hold(attempt):
                return True
        if ports.clock.now() < attempt.until:
            return False
        why = f"the cards of {node} were not free in time, or another pod has them"
        self._record(attempt.pod, Outcome.REFUSED, node, "late", why)
        ports.events.emit(attempt.pod.pod, "PreemptionFailed", why, warning=True)
        return True

    async def _hold(self, attempt: _Attempt) -> bool:
        """Commit the cards to the pod, and release those of pods that have ended in one write.

        For a claim that is yet to be made they are reserved: other replicas do not count that.

        Raises:
            LedgerContended: the ledger could not be written.
            OSError: the store or the cluster did not answer.
        """
        service, node = self._service, attempt.victims.node
        uid, is_pod = attempt.pod.request.uid, isinstance(attempt.pod, PodRequest)
        ledger, earlier = service.ledgers.ledger(node), service.ledgers.reservation(uid)
        if ledger is None or (earlier and not is_pod):
            return False
        ended = await service.ports.ended_among(ledger)
        after = ledger.release(*(each.uid for each in ended))
        held = held_then(service, attempt.pod)(after)
        if isinstance(held, Reason):
            # Those that are free before all victims have ended are reserved: decisions of this
            # process count a reservation, those of other replicas do not.
            ledgers = service.ledgers
            free = [] if earlier is None or earlier.node != node else [*earlier.grants]
            for grant in attempt.victims.grants:
                if grant not in free:
                    part = Placement(node, (*free, grant))
                    with suppress(LedgerError):
                        ledgers.reserve(Allocation.of(attempt.pod.request, part), attempt.until)
                        free.append(grant)
            return False
        committer = service.committer
        commits: list[Awaitable[object]] = [
            committer.commit(attempt.pod, node)
            if isinstance(attempt.pod, PodRequest)
            else committer.commit_claim(ClaimOption(Claim(each.uid, each.pod), each))
            for each in held
            if is_pod or each.uid != uid
        ]
        releases = [committer.release(each.uid, node) for each in ended]
        committed = (await asyncio.gather(*releases, *commits))[len(releases) :]
        if not all(isinstance(each, Committed | ClaimOption) for each in committed):
            return False
        if held and not commits:  # its claim is made when it is bound
            service.ledgers.reserve(held[0], attempt.until)
        why = f"the cards of {node} are held until it is bound"
        self._record(attempt.pod, Outcome.HELD, node, "", why)
        return bool(commits)

    def _is_within_rate(self, pod_request: Wanted, more: int, node: str = "") -> bool:
        """Return whether some more pods may be evicted for a namespace now, and record if not."""
        now, namespace = self._service.ports.clock.now(), pod_ref(pod_request.pod).namespace
        while self._evicted and now - self._evicted[0][0] > 60 * SECOND:
            self._evicted.popleft()
        count = sum(each == namespace for _, each in self._evicted)
        if not count or count + more <= MOST_EVICTED:
            return True
        why = f"{MOST_EVICTED} pods a minute are evicted for namespace {namespace}"
        self._record(pod_request, Outcome.REFUSED, node, "rate", why)
        return False

    def _memory_of(self, key: str | bytes) -> _Memory:
        memory = self._memory.setdefault(key, _Memory())
        self._memory.move_to_end(key)
        if len(self._memory) > REMEMBERED:
            self._memory.popitem(last=False)
        return memory

    def _record(
        self, pod_request: Wanted, outcome: Outcome, node: str, cause: str, text: str
    ) -> None:
        pod, dialect = pod_request.pod, pod_request.request.dialect
        name, uid = full_name(pod), pod.metadata.uid
        self._service.ports.decision_log.record(
            DecisionRecord("preempt", outcome, name, uid, dialect, node, cause, text)
        )


def _mark(pod: Pod) -> Mark:
    """Return what the annotation of a pod says; nothing where it cannot be read."""
    try:
        return _MARK.decode(msgspec.Raw(annotations(pod).get(MARK, "{}").encode()))
    except UnreadableError:
        return Mark()
