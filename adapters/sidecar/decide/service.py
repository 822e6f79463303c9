"""The scheduling service: one book, one way to give cards away, for whoever asks.

The flows of each kind of scheduler (``kube_flow``, ``volcano_flow``, ``admission_flow``) and the
gRPC service are made of what stands here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from adapters.dialects import record
from adapters.dialects.dialect import Dialect, DialectError, Result
from adapters.sidecar.decide.committer import Committed, Committer
from adapters.sidecar.decide.feasibility import Feasibility
from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.decide.ledger_writer import LedgerContended
from adapters.sidecar.decide.pod_requests import PodRequest, PodRequestCache
from adapters.sidecar.decide.ports import (
    Binder,
    BindError,
    BudgetReader,
    Clock,
    DecisionLog,
    DecisionRecord,
    EventEmitter,
    NoBudgets,
    NodeLocks,
    NoLocks,
    Outcome,
    PodReader,
)
from adapters.stores.store import Store
from adapters.wire.kube import Pod, annotations, full_name, pod_ref
from core.feasibility.allocate import allocate
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.results import Rejection
from core.requests.decision import Decision
from core.requests.grant import Grant
from core.requests.pod_ref import PodRef
from core.requests.reason import Reason

SECOND = 1_000_000_000

HOLD = 30
"""Seconds for which a tentative placement holds its cards, if nothing else is set."""

WAITING = 10_000
"""Refused pods that are remembered, so that their schedulers try again when room is made."""


class NotReady(RuntimeError):  # noqa: N818 (it is no error: ask again soon)
    """The ledgers are not known yet, so nothing can be decided."""


class UnknownPod(LookupError):  # noqa: N818 (the asker is told, and asks again)
    """Nobody has seen this pod."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All that the service sees of the world."""

    store: Store
    binder: Binder
    pods: PodReader
    events: EventEmitter
    clock: Clock
    decision_log: DecisionLog
    locks: NodeLocks = field(default_factory=NoLocks)
    budgets: BudgetReader = field(default_factory=NoBudgets)


class Service:
    """Decides.

    Attributes:
        book: all ledgers.
        readings: pods and their wishes.
        feasibility: which nodes fit a pod, and why the others do not.
        ports: the world.
        committer: the one way to give cards away.
        hold_seconds: for how long a tentative placement holds its cards.
    """

    def __init__(self, dialects: Sequence[Dialect], ports: Ports, hold_seconds: int = HOLD) -> None:
        self.ledgers = LedgerCache()
        self.pod_requests = PodRequestCache(dialects)
        self.ports = ports
        self.committer = Committer(self.ledgers, ports.store, ports.clock, ports.decision_log)
        self.hold_seconds = hold_seconds
        self.feasibility = Feasibility(self.ledgers)
        self._waiting: dict[str, PodRequest] = {}
        self._posting: dict[str, tuple[str, Committed]] = {}
        self._missing: set[str] = {"ledgers"}

    @property
    def missing(self) -> frozenset[str]:
        """What must be known before anything is decided, and is not."""
        return frozenset(self._missing)

    def mark_synced(self, what: str) -> None:
        """Something that decisions wait for is known now."""
        self._missing.discard(what)

    def mark_unsynced(self, what: str) -> None:
        """Something that decisions need is not known (any more)."""
        self._missing.add(what)

    def check_ready(self) -> None:
        """See that decisions can be made.

        Raises:
            NotReady: not yet.
        """
        if self._missing:
            raise NotReady(f"not known yet: {', '.join(sorted(self._missing))}")
        self.ledgers.expire(self.ports.clock.now())

    def evaluate(self, asking: PodRequest) -> NodeEvaluation:
        """All nodes as they are now, for one pod; the same one until something changes."""
        return self.feasibility.evaluate(asking)

    async def find(self, ref: PodRef) -> Pod:
        """A pod from the cluster's cache, else as a scheduler has sent it.

        Raises:
            UnknownPod: there is none, or it has another uid.
            OSError: the cluster did not answer.
        """
        pod = await self.ports.pods.get(ref)
        if pod is not None and ref.uid in ("", pod.metadata.uid):
            return pod
        asking = self.pod_requests.get(ref.uid)
        if asking is not None and full_name(asking.pod) == str(ref):
            return asking.pod
        if pod is None:
            raise UnknownPod(f"pod {ref} is not known (yet)")
        return await self.newest(ref)  # the pod may have been created again, and the cache be stale

    async def newest(self, ref: PodRef) -> Pod:
        """A pod from the API server, past every cache; errors as of ``find``."""
        pod = await self.ports.pods.newest(ref)
        if pod is None:
            raise UnknownPod(f"pod {ref} is not known (yet)")
        if ref.uid not in ("", pod.metadata.uid):
            raise UnknownPod(f"pod {ref} has uid {pod.metadata.uid}, not {ref.uid}")
        return pod

    def decide(self, asking: PodRequest, names: Sequence[str] | None = None) -> Decision:
        """The best node for a pod, or all reasons why there is none; nothing is given away."""
        return allocate(self.evaluate(asking), names, explain=names is not None)

    def written(self, asking: PodRequest, committed: Committed) -> Result:
        """The annotations and labels that tell a pod's node what it was given."""
        placement = committed.placement
        node = self.ledgers.inventory.ledger(placement.node).node
        result = asking.dialect.write_result(
            asking.pod, asking.request, placement, node, self.ports.clock.wall()
        )
        if record.KEY in annotations(asking.pod) and record.KEY not in result.annotations:
            ours = {record.KEY: record.encode(placement.grants)}
            return replace(result, annotations={**result.annotations, **ours})
        return result

    async def commit(
        self, asking: PodRequest, node: str, claimed: Sequence[Grant] = ()
    ) -> tuple[Committed | Reason, bool]:
        """Give a pod its cards on a node, and the turn at its device plugin if it has turns.

        Returns:
            what the committer says, and whether there is a turn to give back if the pod is not
            bound.

        Raises:
            NodeLocked: it is another pod's turn; nothing was given.
            Busy: the ledger could not be written.
            OSError: the store or the cluster did not answer.
        """
        needed = partial(asking.dialect.needs_node_lock, asking.request)
        locked = await self.ports.locks.acquire(asking.pod, node, needed)
        try:
            found = await self.committer.commit(asking, node, claimed)
        except (LedgerContended, OSError):
            if locked:
                await self.ports.locks.release(asking.pod, node)
            raise
        if locked and isinstance(found, Reason):
            await self.ports.locks.release(asking.pod, node)
            locked = False
        return found, locked

    async def bind(self, asking: PodRequest, node: str) -> Committed | Reason:
        """Give a pod its cards on a node, and bind it there with one Binding.

        Raises:
            NodeLocked: it is another pod's turn at the node's device plugin.
            BindError: the Binding was not answered with success. What was given away for it is
                taken back if the pod is sure not to be bound; else it stays until that is known.
            Busy: the ledger could not be written.
            OSError: the store did not answer.
        """
        committed, locked = await self.commit(asking, node)
        if isinstance(committed, Reason):
            return committed
        result = self.written(asking, committed)
        pod = asking.pod
        self._posting[asking.request.uid] = (node, committed)
        try:
            await self._post(pod, node, result)
        except BindError as error:
            if not await self._bound_already(pod, node, error):
                if error.definite and committed.new:
                    await self._take_back(asking, node, committed.since)
                if error.definite and locked:
                    await self.ports.locks.release(pod, node)
                raise
        finally:
            self._posting.pop(asking.request.uid, None)
        await self._leave_others(asking.request.uid, node)
        return committed

    def waits(self, asking: PodRequest, *, refused: bool) -> None:
        """A scheduler was told that a pod fits nowhere; or that it fits."""
        uid = asking.request.uid
        if not refused:
            self._waiting.pop(uid, None)
        elif uid and len(self._waiting) < WAITING:
            self._waiting[uid] = asking

    @property
    def waiting(self) -> int:
        """How many refused pods are remembered."""
        return len(self._waiting)

    def retry(self, most: int) -> list[Pod]:
        """Pods that were refused and fit somewhere now; each is told once, until refused again.

        Args:
            most: how many waiting pods are looked at; the others come next time.
        """
        names = self.ledgers.inventory.names()
        found: list[Pod] = []
        for uid, asking in [*self._waiting.items()][:most]:
            del self._waiting[uid]
            if any(map(self.evaluate(asking).fits, names)):
                found.append(asking.pod)
            else:
                self._waiting[uid] = asking
        return found

    def forget(self, uid: str) -> None:
        """A pod has gone."""
        self._waiting.pop(uid, None)
        self.pod_requests.forget(uid)
        self.feasibility.forget(uid)

    def posting(self, uid: str, node: str) -> Committed | None:
        """What a pod was given whose Binding to a node we have just sent and await."""
        found = self._posting.get(uid)
        return found[1] if found is not None and found[0] == node else None

    def chose(self, uid: str, node: str) -> bool:
        """Whether it is this process that chose the cards on a node for which a pod goes there."""
        held = self.ledgers.reservation(uid)
        return self.posting(uid, node) is not None or (held is not None and held.node == node)

    async def bind_plain(self, pod: Pod, node: str) -> None:
        """Bind a pod that asks for no share.

        Raises:
            BindError: it was not answered with success.
        """
        await self._post(pod, node, Result({}, {}))

    async def release(self, uid: str) -> tuple[str, ...]:
        """Take back all that a pod holds.

        Returns:
            the nodes on which it held something.

        Raises:
            Busy: a ledger could not be written.
            OSError: the store did not answer.
        """
        nodes = self.ledgers.inventory.nodes_of(uid)
        for node in nodes:
            await self.committer.release(uid, node)
        self.forget(uid)
        return nodes

    def refusal(
        self, verb: str, pod: Pod, refused: Mapping[str, Rejection], asking: PodRequest, asked: int
    ) -> DecisionRecord:
        """The decision that nothing fits, told in one line."""
        text = Decision(None, {name: one.reason for name, one in refused.items()}).summary()
        return DecisionRecord(
            verb,
            Outcome.REFUSED,
            full_name(pod),
            pod.metadata.uid,
            asking.dialect.name,
            cause=main_cause([one.reason for one in refused.values()]),
            text=text,
            nodes_evaluated=asked,
        )

    async def _post(self, pod: Pod, node: str, result: Result) -> None:
        await self.ports.binder.bind(pod_ref(pod), node, result.annotations, result.labels)

    async def _bound_already(self, pod: Pod, node: str, error: BindError) -> bool:
        """Whether an earlier Binding of ours, whose answer was lost, has bound the pod here."""
        if error.status != 409:
            return False
        try:
            found = await self.ports.pods.newest(pod_ref(pod))
        except OSError:
            return False
        if found is None or found.metadata.uid != pod.metadata.uid:
            return False
        return found.spec.node_name == node

    async def _take_back(self, asking: PodRequest, node: str, since: int) -> None:
        """Release after a refused Binding; what cannot be released now, the reconciler will."""
        try:
            await self.committer.release(asking.request.uid, node, since)
        except (LedgerContended, OSError) as error:
            told = f"cards on {node} stay booked until the next reconciliation: {error}"
            self.ports.events.emit(asking.pod, "ReleaseFailed", told, warning=True)

    async def _leave_others(self, uid: str, node: str) -> None:
        """A pod that is bound here holds nothing elsewhere, whatever earlier attempts left."""
        for other, _ in [*self.ledgers.committed(uid)]:
            if other != node:
                try:
                    await self.committer.release(uid, other)
                except (LedgerContended, OSError):
                    continue  # the reconciler will


def main_cause(reasons: Sequence[Reason]) -> str:
    """The cause that most reasons share, as one word for a metric."""
    causes = Counter(
        reason.cause or (reason.counts[0].cause if reason.counts else None) for reason in reasons
    )
    cause = causes.most_common(1)[0][0] if causes else None
    return cause.name.lower() if cause else "no_node"


def invalid(verb: str, pod: Pod, error: DialectError) -> DecisionRecord:
    """The decision that a request cannot be meant."""
    return DecisionRecord(
        verb,
        Outcome.INVALID,
        full_name(pod),
        pod.metadata.uid,
        cause="invalid",
        text=str(error),
    )


def with_annotations(pod: Pod, annotations: Mapping[str, str]) -> Pod:
    """A pod with other annotations."""
    metadata = msgspec.structs.replace(pod.metadata, annotations=dict(annotations))
    return msgspec.structs.replace(pod, metadata=metadata)
