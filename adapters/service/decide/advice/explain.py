"""Where a pod fits, and why not elsewhere: when asked, and in the background for the dashboard."""

import asyncio
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar

from adapters.accounting.claim_cache import ClaimCache
from adapters.accounting.gang_cache import Gang, GangCache
from adapters.accounting.pod_requests import PodRequest, PodRequestCache, template_of
from adapters.answer.answer import GangAnswer, NodeGroup, PodAnswer, joined, scheduler_message
from adapters.answer.claims import requested
from adapters.answer.eviction import NodeEviction, cost
from adapters.answer.judge import Judge
from adapters.answer.remedies import NONE, Remedies, remedies
from adapters.dialects.dialect import Dialect
from adapters.dialects.matching import NO_AMOUNTS
from adapters.service.decide.advice.feasibility import Feasibility
from adapters.service.decide.ports import Clock, ClusterObjects, Readiness
from adapters.wire.kube import KubeNode, Metadata, Pod, full_name
from core.durations import MILLISECOND, SECOND
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory
from core.quota.amounts import QuotaAmounts
from core.requests.request import PodRef, Request


@dataclass(eq=False, slots=True)
class ServiceFacts:
    """The cluster as this process knows it; implements ``ClusterFacts``."""

    _pod_requests: PodRequestCache
    _feasibility: Feasibility
    _objects: ClusterObjects
    _gangs: GangCache

    @property
    def dialects(self) -> Sequence[Dialect]:
        """All dialects, as the operator's policy configures them now."""
        return self._pod_requests.dialects

    @property
    def claims(self) -> ClaimCache:
        """All ResourceClaims, with their classes and devices."""
        return self._objects.claims

    @property
    def inventory(self) -> Inventory:
        """By node, committed allocations and this process's reservations."""
        return self._feasibility.ledgers.inventory

    @property
    def revision(self) -> Hashable:
        """Changes whenever a ledger, a quota, a gang or what an answer reads of a node does."""
        objects = self._objects
        own = objects.revision, objects.claims.revision, self._gangs.revision
        return *self._feasibility.revision, *own

    def nodes(self) -> Mapping[str, KubeNode]:
        """Return the nodes.

        Without an API server also those of the ledgers, which keep no pod away.
        """
        if self._objects.has_all_nodes:
            return self._objects.nodes()
        nodes = dict(self._objects.nodes())
        for name in (*self.inventory.names(), *self.unreadable()):
            if name not in nodes:
                nodes[name] = KubeNode(Metadata(name=name))
        return nodes

    def unreadable(self) -> Mapping[str, str]:
        """Return why the record of a node cannot be read, by name of the node."""
        return self._feasibility.ledgers.problems()

    def pods_on(self, node: str) -> Iterable[Pod]:
        """Return the pods that are bound to a node and may use cards."""
        return self._objects.pods_on(node)

    def read(self, pod: Pod) -> PodRequest | None:
        """Return what a pod requests, from the cache.

        Raises:
            DialectError: the request is invalid.
        """
        return self._pod_requests.read(pod)

    def evaluate(self, request: Request) -> NodeEvaluation:
        """Return a request against all ledgers, and the quota of its namespace."""
        return self._feasibility.evaluate_request(request)

    def gang(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod with all its pods; None where it may be bound alone."""
        return self._gangs.any_gang(pod)

    def over_quota(self, holder: PodRef, amounts: QuotaAmounts) -> str | None:
        """Return why the quota of a pod's namespace refuses some amounts.

        None where it does not.
        """
        return self._feasibility.over_quota(holder, amounts)


T = TypeVar("T")

NODES = 200
"""Nodes that are compared with an empty one before other calls run: at most about ten
milliseconds."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One pod against all nodes.

    Attributes:
        answer: where it fits, and why not elsewhere.
        preemption_may_help: rejected nodes that it would fit if they were empty.
        eviction: the fewest pods of lower priority whose eviction would make room; None where none
            would, and for a gang, which gets nothing by evictions.
        evicts: whether the service evicts them.
        remedies: what would make it fit.
    """

    answer: PodAnswer
    preemption_may_help: tuple[str, ...] = ()
    eviction: NodeEviction | None = None
    evicts: bool = False
    remedies: Remedies = NONE

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say beside the reasons."""
        if self.eviction is None:
            return self.answer.notes
        return *self.answer.notes, self.eviction.text(self.answer.pod, evicts=self.evicts)


async def explain(facts: ServiceFacts, pod: Pod, *, evicts: bool = False) -> Explanation:
    """Evaluate all nodes for a pod. Other calls run in between; the time grows with the nodes.

    Args:
        facts: of the cluster.
        pod: the pod.
        evicts: whether the service evicts pods for others.
    """
    judge = Judge(facts)
    answer = await yielding(judge.steps(pod))
    found: list[str] = []
    if answer.request is not None:
        barred = {*answer.excluded.names, *facts.unreadable()}
        names = [name for name in answer.rejected.names if name not in barred]
        for start in range(0, len(names), NODES):
            await asyncio.sleep(0)
            part = names[start : start + NODES]
            found += facts.evaluate(answer.request).resolvable(part)
    fixes = await yielding(remedies(judge, answer))
    best = min((each for each in fixes.evictions if each.preemption), key=cost, default=None)
    return Explanation(answer, tuple(sorted(found)), best, evicts, fixes)


async def yielding(steps: Generator[None, None, T]) -> T:
    """Return the result of work in steps; other calls run after each of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


SHARE = 20
"""Work and the pause after it take together this many times as long as the work: a twentieth of
one processor."""

AT_ONCE = 2 * MILLISECOND
"""Nanoseconds of work without a pause; one step of an evaluation may take longer."""

EVERY = SECOND
"""Nanoseconds between two rounds."""

PATIENCE = 5 * SECOND
"""Nanoseconds for which a pod waits before it is evaluated. Schedulers bind most pods sooner; of
pods that came at once the evaluation took a fifth of this process's time for each pod."""

LIMIT = 10_000
"""Pods whose answer is kept; the names of pods decide which ones."""


@dataclass(frozen=True, slots=True)
class WaitingAnswer:
    """Why one pod waits.

    Attributes:
        summary: in a sentence.
        best: the node that it would go to; None where it fits none.
        fitting: how many nodes it fits.
        groups: the nodes that it does not fit, by cause.
        at: when it held, in nanoseconds since 1970.
        devices: that its ResourceClaims request.
    """

    summary: str
    best: str | None
    fitting: int
    groups: tuple[NodeGroup, ...]
    at: int
    devices: Mapping[str, int] = field(default_factory=lambda: NO_AMOUNTS)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is the same for pods alike, and the state of the cluster that it is about.

    Of the nodes only the groups are kept: with the reason of each node, the answers about thousands
    of pods would take a gigabyte.
    """

    answer: WaitingAnswer
    waits: bool
    revision: object
    is_plain: bool
    gang: GangAnswer | None

    def of(self, uid: str) -> tuple[str, str | None]:
        """Return the text and the best node of one pod: those of a gang go to several nodes."""
        if self.gang is None:
            return self.answer.summary, self.answer.best
        return self.gang.text_of(uid), self.gang.node_of(uid)


class WaitingAnswers:
    """Why each pod that waits has no node, evaluated in the background.

    A scheduler asks about a waiting pod only when it tries again, after minutes or never, and knows
    nothing of what happened since. So this process evaluates the pods that have waited for
    ``PATIENCE`` itself, one after the other: pods alike are evaluated once, a pod again only after
    something changed, and all of it takes at most ``SHARE`` of one processor.
    """

    def __init__(self, facts: ServiceFacts, clock: Clock, readiness: Readiness) -> None:
        """Know no answer yet.

        Args:
            facts: of the cluster. Its results are its own: those that filters need stay.
            clock: of the service.
            readiness: nothing is evaluated before the service is ready.
        """
        self._facts = facts
        self._clock = clock
        self._readiness = readiness
        self._by_uid: dict[str, WaitingAnswer] = {}
        self._alike: dict[bytes, _Known] = {}
        self._busy = 0

    def get(self, uid: str) -> WaitingAnswer | None:
        """Return the latest answer about a pod; None where it was not evaluated yet."""
        return self._by_uid.get(uid)

    async def run(self, unbound: Callable[[], Sequence[Pod]]) -> NoReturn:
        """Evaluate the pods that no scheduler has bound, round by round, until cancelled."""
        since: dict[str, int] = {}
        while True:
            await self._clock.sleep(EVERY)
            if not self._readiness.awaited:
                now, pods = self._clock.now(), unbound()
                since = {pod.metadata.uid: since.get(pod.metadata.uid, now) for pod in pods}
                late = [pod for pod in pods if now - since[pod.metadata.uid] >= PATIENCE]
                await self.round(late)

    async def round(self, pods: Sequence[Pod]) -> None:
        """Evaluate each pod once."""
        judge = Judge(self._facts)
        waiting = sorted(pods, key=full_name)[:LIMIT]
        uids = {pod.metadata.uid for pod in waiting}
        self._by_uid = {uid: each for uid, each in self._by_uid.items() if uid in uids}
        seen: dict[bytes, _Known] = {}
        for pod in waiting:
            began = self._clock.now()
            template = template_of(pod)
            # A pod with cards, which count as free for it, or with claims is like no other.
            uid = pod.metadata.uid
            own = self._facts.inventory.nodes_of(uid) or requested(pod, self._facts.claims)
            made = pod.status.resource_claim_statuses
            key = template + f"{uid}{made}".encode() if own else template
            known = seen.get(key) or self._alike.get(key)
            self._busy += self._clock.now() - began
            # Devices of plugins change without a revision.
            is_stale = known and (known.is_plain or known.revision != self._facts.revision)
            if known is None or (key not in seen and is_stale):
                revision = self._facts.revision
                answer = await self._slowly(judge.steps(pod))
                devices = NO_AMOUNTS if answer.claims is None else answer.claims.requested
                fitting, groups = len(answer.fitting), answer.groups()
                known = _Known(
                    WaitingAnswer(answer.text(), answer.best, fitting, groups, 0, devices),
                    answer.waits,
                    revision,
                    answer.devices is not None,
                    answer.gang if answer.waits_for_gang else None,
                )
            seen[key] = known
            text, best = known.of(pod.metadata.uid)
            message = scheduler_message(pod, judge.node(best)) if known.waits else ""
            self._by_uid[pod.metadata.uid] = replace(
                known.answer, summary=joined(text, message), best=best, at=self._clock.wall()
            )
            await self._pause()
        self._alike = seen

    async def _slowly(self, steps: Generator[None, None, PodAnswer]) -> PodAnswer:
        while True:
            began = self._clock.now()
            try:
                next(steps)
            except StopIteration as end:
                answer: PodAnswer = end.value
                return answer
            finally:
                self._busy += self._clock.now() - began
            await self._pause()

    async def _pause(self) -> None:
        """Let other calls run for as long as this work's share of the time demands."""
        if self._busy >= AT_ONCE:
            busy, self._busy = self._busy, 0
            await self._clock.sleep(busy * (SHARE - 1))
