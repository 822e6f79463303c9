"""The extender of vc-scheduler: predicate, prioritize, allocate events, and evictions.

Its events report plans, not facts: an allocate may be repeated for other nodes and is never
followed by a commit. So it makes a reservation that expires, and the Binding commits
(``admission``).
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.dialect import DialectError
from adapters.service.decide.advice.feasibility import scaled
from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.decide.service import Service
from adapters.service.endpoints.outcomes import read_request
from adapters.wire import volcano
from adapters.wire.kube import full_name
from adapters.wire.volcano import PredicateStatus, StatusCode, Task, Vote
from core.durations import SECOND
from core.feasibility.fit import fit
from core.feasibility.preempt import victims
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.decision import main_cause
from core.requests.grant import Allocation
from core.requests.reason import Cause, Reason

MOST_SCORE = 100
"""The best node's score; vc-scheduler adds the scores of all its plugins."""

ABOVE_ALL = (1 << 31) - 1
"""A priority above that of every pod: the scheduler decides which pods may be evicted."""

Evictees = Sequence[tuple[Task, msgspec.Raw]]
"""The tasks that may be evicted, each decoded and as it was received."""


class VolcanoExtender:
    """Answers the plugin's hooks, bytes in and bytes out; raises as ``KubeExtender`` does."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._decision_log = service.ports.decision_log
        self._releasing: dict[str, int] = {}

    async def predicate(self, content: bytes) -> bytes:
        """Return whether a task fits a node. Only an empty text is a yes.

        The code says what may help.
        """
        self._service.check_ready()
        args = volcano.read_predicate(content)
        node = args.node.name
        pod_request = read_request(self._service, "predicate", volcano.pod_of(args.task))
        if isinstance(pod_request, DialectError):
            return volcano.predicate_result(StatusCode.UNRESOLVABLE, str(pod_request))
        if pod_request is None:
            return volcano.FITS
        place = self._service.kept_place(pod_request)
        if place is not None:
            text = place.refusal(node)
            if not text:
                return volcano.FITS
            decision = _decision("predicate", Outcome.REFUSED, pod_request, node)
            self._decision_log.record(replace(decision, cause="kept", text=text, nodes_evaluated=1))
            return volcano.predicate_result(StatusCode.UNRESOLVABLE, text)
        evaluation = self._service.feasibility.evaluate(pod_request)
        rejection = None if evaluation.fits(node) else evaluation.rejection(node)
        if rejection is None:
            return volcano.FITS
        text = rejection.reason.text()
        decision = DecisionRecord.refused("predicate", pod_request, [(rejection, 1)], 1)
        self._decision_log.record(replace(decision, node=node, text=text))
        code = StatusCode.UNRESOLVABLE if rejection.unresolvable else StatusCode.UNSCHEDULABLE
        # vc-scheduler lists each different text in the condition of the pod, once a session.
        return volcano.predicate_result(code, rejection.reason.text(amounts=False))

    async def prioritize(self, content: bytes) -> bytes:
        """Return how good each node is, 0 to 100."""
        self._service.check_ready()
        args = volcano.read_prioritize(content)
        names = [node.name for node in args.nodes or ()]
        pod_request = read_request(self._service, "prioritize", volcano.pod_of(args.task))
        if isinstance(pod_request, DialectError):
            return volcano.prioritize_result({}, str(pod_request))
        if pod_request is None:
            return volcano.prioritize_result(dict.fromkeys(names, 0))
        evaluation = self._service.feasibility.evaluate(pod_request)
        if any(map(evaluation.is_untouched, names)):
            return volcano.prioritize_result(dict.fromkeys(names, 0))
        scores = scaled({name: evaluation.values(name) for name in names}, MOST_SCORE)
        return volcano.prioritize_result(scores)

    async def allocate(self, content: bytes) -> bytes:
        """Reserve the cards of a task that is planned onto a node, or say why not."""
        self._service.check_ready()
        task = volcano.read_event(content)
        pod = volcano.pod_of(task)
        if task.status == PredicateStatus.RUNNING:
            self._releasing.pop(pod.metadata.uid, None)
            return volcano.event_result()
        pod_request = read_request(self._service, "allocate", pod)
        if isinstance(pod_request, DialectError):
            return volcano.event_result(str(pod_request))
        if pod_request is None:
            return volcano.event_result()
        if self._service.feasibility.evaluate(pod_request).is_untouched(task.node_name):
            return volcano.event_result()
        ledger = self._service.ledgers.ledger(task.node_name)
        if ledger is None:
            problem = self._service.ledgers.problem(task.node_name)
            text = problem or f"node {task.node_name} has no cards"
            return self._refuse(pod_request, task, "no_cards", text)
        refusal = self._service.quotas.refusal(pod_request.request)
        if refusal is not None:
            return self._refuse(pod_request, task, Cause.QUOTA.name.lower(), refusal)
        place = self._service.kept_place(pod_request)
        if place is not None:
            text = place.refusal(task.node_name)
            if text:
                return self._refuse(pod_request, task, "kept", text)
            return volcano.event_result()  # the Binding gets the place that is kept
        if task.status == PredicateStatus.PIPELINED:
            # Cards are still in use: no bind follows in this cycle, so there is no reservation.
            now = self._service.ports.clock.now()
            leaving = (uid for uid in ledger.allocations if self._releasing.get(uid, 0) > now)
            placement = fit(pod_request.request, ledger.release(*leaving))
            if not isinstance(placement, Reason):
                return volcano.event_result()
            return self._refuse(pod_request, task, main_cause((placement, 1)), placement.text())
        return self._reserve(pod_request, task, ledger)

    async def deallocate(self, content: bytes) -> bytes:
        """End the reservation of a plan that is undone.

        Or a running task is to be evicted: it keeps its cards until its containers are gone, but
        other tasks may plan with them.
        """
        self._service.check_ready()
        task = volcano.read_event(content)
        pod = volcano.pod_of(task)
        uid = pod.metadata.uid
        if task.status == PredicateStatus.RELEASING:
            if not self._service.ledgers.inventory.nodes_of(uid):
                return volcano.event_result()  # it has no cards with which others could plan
            now = self._service.ports.clock.now()
            self._releasing = {key: until for key, until in self._releasing.items() if until > now}
            self._releasing[uid] = now + self._service.hold_seconds * SECOND
        elif self._service.ledgers.unreserve(uid, task.node_name):
            self._decision_log.record(
                DecisionRecord(
                    "deallocate", Outcome.RELEASED, full_name(pod), uid, node=task.node_name
                )
            )
        return volcano.event_result()

    async def preemptable(self, content: bytes) -> bytes:
        """Return the tasks of a node that may be evicted so that a task of the same queue fits."""
        return self._evict("preemptable", content)

    async def reclaimable(self, content: bytes) -> bytes:
        """Return the tasks of a node that may be evicted so that a task of another queue fits."""
        return self._evict("reclaimable", content)

    def _reserve(self, pod_request: PodRequest, task: Task, ledger: NodeLedger) -> bytes:
        uid = pod_request.request.uid
        now = self._service.ports.clock.now()
        stored = self._service.ledgers.stored(task.node_name)
        if stored is not None and uid in stored.ledger.allocations:
            return volcano.event_result()
        placement = fit(pod_request.request, ledger)
        if isinstance(placement, Reason):
            return self._refuse(pod_request, task, main_cause((placement, 1)), placement.text())
        try:
            expires = now + self._service.hold_seconds * SECOND
            self._service.ledgers.reserve(Allocation.of(pod_request.request, placement), expires)
        except LedgerError as error:
            return self._refuse(pod_request, task, "ledger", str(error))
        self._decision_log.record(_decision("allocate", Outcome.HELD, pod_request, task.node_name))
        return volcano.event_result()

    def _evict(self, verb: str, content: bytes) -> bytes:
        self._service.check_ready()
        evictor, evictees = volcano.read_eviction(content)
        pod_request = read_request(self._service, verb, volcano.pod_of(evictor))
        if isinstance(pod_request, DialectError):
            return volcano.eviction_result(Vote.REJECT)
        if pod_request is None:
            return volcano.eviction_result(Vote.ABSTAIN)
        chosen = self._choose(pod_request, evictees)
        if chosen is None:
            return volcano.eviction_result(Vote.ABSTAIN)
        evicted = [raw for task, raw in evictees if volcano.uid_of(task) in chosen]
        outcome = Outcome.FITS if evicted else Outcome.REFUSED
        self._decision_log.record(
            replace(
                _decision(verb, outcome, pod_request),
                cause="" if evicted else "no_victims",
                nodes_fitting=len(evicted),
                nodes_evaluated=len(evictees),
            )
        )
        return volcano.eviction_result(Vote.PERMIT if evicted else Vote.REJECT, evicted)

    def _choose(self, pod_request: PodRequest, evictees: Evictees) -> frozenset[str] | None:
        """Return the uids of the tasks to evict.

        None where the pod lacks something else than cards.

        On a node where the quota refuses the pod also after the evictions, none is evicted.

        Tasks without cards may be evicted: they make room for something else.
        """
        request = replace(pod_request.request, priority=ABOVE_ALL)
        chosen: set[str] = set()
        lacks_cards = False
        by_node: dict[str, list[str]] = {}
        for task, _ in evictees:
            by_node.setdefault(task.node_name, []).append(volcano.uid_of(task))
        for node, uids in by_node.items():
            if self._service.feasibility.evaluate(pod_request).is_untouched(node):
                continue
            ledger = self._service.ledgers.ledger(node)
            if ledger is None:
                lacks_cards = True
                continue
            found = victims(request, ledger, uids)
            if isinstance(found, Reason) or self._service.quotas.refusal_after(
                request, ledger, uids if not found else [victim.uid for victim in found]
            ):
                lacks_cards = True
                continue
            lacks_cards = lacks_cards or bool(found)
            chosen.update(uid for uid in uids if uid not in ledger.allocations)
            chosen.update(victim.uid for victim in found)
        return frozenset(chosen) if lacks_cards else None

    def _refuse(self, pod_request: PodRequest, task: Task, cause: str, text: str) -> bytes:
        decision = _decision("allocate", Outcome.REFUSED, pod_request, task.node_name)
        self._decision_log.record(replace(decision, cause=cause, text=text))
        return volcano.event_result(f"{task.node_name}: {text}")


def _decision(
    verb: str, outcome: Outcome, pod_request: PodRequest, node: str = ""
) -> DecisionRecord:
    request, dialect = pod_request.request, pod_request.dialect.name
    return DecisionRecord(verb, outcome, request.pod, request.uid, dialect, node)
