"""What vc-scheduler's extender plugin asks: predicate, prioritize, events, and who may be evicted.

Its events tell of plans, not of facts: an allocate may be repeated for other nodes and is never
followed by a commit. So it places a hold that lapses, and the Binding commits (``admission_flow``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from adapters.dialects.dialect import DialectError
from adapters.sidecar.decide.pod_requests import PodRequest
from adapters.sidecar.decide.ports import DecisionRecord, Outcome
from adapters.sidecar.decide.scores import scaled
from adapters.sidecar.decide.service import SECOND, Service, invalid, main_cause
from adapters.wire import volcano
from adapters.wire.kube import Pod, full_name
from adapters.wire.volcano import PredicateStatus, StatusCode, Task, Vote
from core.feasibility.fit import fit
from core.feasibility.preempt import victims
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation
from core.requests.reason import Reason

MOST_SCORE = 100
"""The best node's score; vc-scheduler adds the scores of all its plugins."""

ABOVE_ALL = (1 << 31) - 1
"""A priority that may evict every pod: who may go is the scheduler's to say."""

Evictees = Sequence[tuple[Task, msgspec.Raw]]
"""Who may go, each as a task and as it came."""


class VolcanoExtender:
    """Answers the plugin's hooks, bytes in and bytes out; raises as ``KubeFlow`` does."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._leaving: dict[str, int] = {}

    async def predicate(self, content: bytes) -> bytes:
        """Whether a task fits a node. Only an empty text is a yes; the code says what helps."""
        self._service.check_ready()
        args = volcano.read_predicate(content)
        pod = volcano.pod_of(args.task)
        node = args.node.name
        try:
            asking = self._service.pod_requests.read(pod)
        except DialectError as error:
            self._tell(invalid("predicate", pod, error))
            return volcano.predicate_result(StatusCode.UNRESOLVABLE, str(error))
        if asking is None:
            return volcano.predicate_result(StatusCode.SUCCESS)
        evaluation = self._service.evaluate(asking)
        refused = None if evaluation.fits(node) else evaluation.rejection(node)
        if refused is None:
            return volcano.predicate_result(StatusCode.SUCCESS)
        told = self._service.refusal("predicate", pod, {node: refused}, asking, 1)
        self._tell(replace(told, node=node, text=refused.reason.text()))
        code = StatusCode.UNRESOLVABLE if refused.unresolvable else StatusCode.UNSCHEDULABLE
        return volcano.predicate_result(code, refused.reason.text())

    async def prioritize(self, content: bytes) -> bytes:
        """How good each node is, 0 to 100."""
        self._service.check_ready()
        args = volcano.read_prioritize(content)
        pod = volcano.pod_of(args.task)
        names = [node.name for node in args.nodes or ()]
        try:
            asking = self._service.pod_requests.read(pod)
        except DialectError as error:
            self._tell(invalid("prioritize", pod, error))
            return volcano.prioritize_result({}, str(error))
        if asking is None:
            return volcano.prioritize_result(dict.fromkeys(names, 0))
        survey = self._service.evaluate(asking)
        scores = scaled({name: survey.values(name) for name in names}, MOST_SCORE)
        return volcano.prioritize_result(scores)

    async def allocate(self, content: bytes) -> bytes:
        """A task is planned onto a node: hold its cards there, or say why that cannot be."""
        self._service.check_ready()
        task = volcano.read_event(content)
        pod = volcano.pod_of(task)
        if task.status == PredicateStatus.RUNNING:
            self._leaving.pop(pod.metadata.uid, None)
            return volcano.event_result()
        try:
            asking = self._service.pod_requests.read(pod)
        except DialectError as error:
            self._tell(invalid("allocate", pod, error))
            return volcano.event_result(str(error))
        if asking is None:
            return volcano.event_result()
        problem = self._service.ledgers.problem(task.node_name)
        ledger = self._service.ledgers.ledger(task.node_name)
        if ledger is None:
            text = problem or f"node {task.node_name} has no cards"
            return self._refused(asking, task, "no_cards", text)
        if task.status == PredicateStatus.PIPELINED:
            return self._pipelined(asking, task, ledger)
        return self._hold(asking, task, ledger)

    async def deallocate(self, content: bytes) -> bytes:
        """A plan is undone: let go of the hold.

        Or a running task is to be evicted: it holds its cards until its containers are gone, but
        others may plan with them.
        """
        self._service.check_ready()
        task = volcano.read_event(content)
        pod = volcano.pod_of(task)
        uid = pod.metadata.uid
        if task.status == PredicateStatus.RELEASING:
            now = self._service.ports.clock.now()
            self._leaving = {key: until for key, until in self._leaving.items() if until > now}
            self._leaving[uid] = now + self._service.hold_seconds * SECOND
        elif self._service.ledgers.unreserve(uid, task.node_name):
            told = DecisionRecord(
                "deallocate", Outcome.RELEASED, full_name(pod), uid, node=task.node_name
            )
            self._tell(told)
        return volcano.event_result()

    async def preemptable(self, content: bytes) -> bytes:
        """Who of a node's tasks may go so that a task of the same queue fits."""
        return self._evict("preemptable", content)

    async def reclaimable(self, content: bytes) -> bytes:
        """Who of a node's tasks may go so that a task of another queue fits."""
        return self._evict("reclaimable", content)

    def _hold(self, asking: PodRequest, task: Task, ledger: NodeLedger) -> bytes:
        uid = asking.request.uid
        now = self._service.ports.clock.now()
        stored = self._service.ledgers.stored(task.node_name)
        if stored is not None and uid in stored.ledger.allocations:
            return volcano.event_result()
        found = fit(asking.request, ledger)
        if isinstance(found, Reason):
            return self._refused(asking, task, main_cause([found]), found.text())
        try:
            expires = now + self._service.hold_seconds * SECOND
            self._service.ledgers.reserve(Allocation.of(asking.request, found), expires)
        except LedgerError as error:
            return self._refused(asking, task, "ledger", str(error))
        self._tell(self._decided(Outcome.HELD, asking, task))
        return volcano.event_result()

    def _pipelined(self, asking: PodRequest, task: Task, ledger: NodeLedger) -> bytes:
        """A plan with cards that others still hold: no bind follows in this cycle, so no hold."""
        now = self._service.ports.clock.now()
        for uid in [*ledger.allocations]:
            if self._leaving.get(uid, 0) > now:
                ledger = ledger.release(uid)
        found = fit(asking.request, ledger)
        if isinstance(found, Reason):
            return self._refused(asking, task, main_cause([found]), found.text())
        return volcano.event_result()

    def _evict(self, verb: str, content: bytes) -> bytes:
        self._service.check_ready()
        evictor, evictees = volcano.read_eviction(content)
        pod = volcano.pod_of(evictor)
        try:
            asking = self._service.pod_requests.read(pod)
        except DialectError as error:
            self._tell(invalid(verb, pod, error))
            return volcano.eviction_result(Vote.REJECT)
        if asking is None:
            return volcano.eviction_result(Vote.ABSTAIN)
        going = self._going(asking, evictees)
        if going is None:
            return volcano.eviction_result(Vote.ABSTAIN)
        kept = [raw for task, raw in evictees if _uid(task) in going]
        outcome = Outcome.FITS if kept else Outcome.REFUSED
        told = DecisionRecord(
            verb,
            outcome,
            full_name(pod),
            pod.metadata.uid,
            asking.dialect.name,
            cause="" if kept else "no_victims",
            nodes_fitting=len(kept),
            nodes_evaluated=len(evictees),
        )
        self._tell(told)
        return volcano.eviction_result(Vote.PERMIT if kept else Vote.REJECT, kept)

    def _going(self, asking: PodRequest, evictees: Evictees) -> frozenset[str] | None:
        """The uids of those who may go; None where cards are not what is short.

        Those without cards may go: they make room for something else.
        """
        request = replace(asking.request, priority=ABOVE_ALL)
        going: set[str] = set()
        short = False
        for node, uids in _by_node(evictees).items():
            ledger = self._service.ledgers.ledger(node)
            if ledger is None:
                short = True
                continue
            found = victims(request, ledger, uids)
            if isinstance(found, Reason):
                short = True
                continue
            short = short or bool(found)
            going.update(uid for uid in uids if uid not in ledger.allocations)
            going.update(one.uid for one in found)
        return frozenset(going) if short else None

    def _refused(self, asking: PodRequest, task: Task, cause: str, text: str) -> bytes:
        told = self._decided(Outcome.REFUSED, asking, task)
        self._tell(replace(told, cause=cause, text=text))
        return volcano.event_result(f"{task.node_name}: {text}")

    def _decided(self, outcome: Outcome, asking: PodRequest, task: Task) -> DecisionRecord:
        request = asking.request
        name = asking.dialect.name
        return DecisionRecord("allocate", outcome, request.pod, request.uid, name, task.node_name)

    def _tell(self, decided: DecisionRecord) -> None:
        self._service.ports.decision_log.record(decided)


def _uid(task: Task) -> str:
    pod: Pod | None = task.pod
    return task.uid or (pod.metadata.uid if pod else "")


def _by_node(evictees: Evictees) -> Mapping[str, list[str]]:
    nodes: dict[str, list[str]] = {}
    for task, _ in evictees:
        nodes.setdefault(task.node_name, []).append(_uid(task))
    return nodes
