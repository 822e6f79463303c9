"""Makes the decisions of a recording again, each on what it depended on then."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from adapters.accounting.gang_cache import Gang, GangPart
from adapters.accounting.gang_members import GangMembers
from adapters.accounting.pod_requests import PodRequest, read
from adapters.dialects.dialect import Defaults, Dialect, DialectError, SchedulingPolicy
from adapters.dialects.registry import dialects
from adapters.service.decide.advice.rejections import reject
from adapters.service.decide.advice.scores import scaled
from adapters.service.decide.commit.attempt import LedgerView
from adapters.service.decide.commit.card_choice import Committed, choose_cards
from adapters.service.decide.commit.claim_choice import conflict
from adapters.service.decide.commit.kept_place import kept_for
from adapters.wire.kube import Pod, full_name
from adapters.wire.records import ledger as ledgers
from adapters.wire.records import recording
from adapters.wire.records.grant import GrantRecord, grant_record, read_grant
from adapters.wire.records.ledger_records import AllocationRecord
from core.feasibility.cache import FeasibilityCache
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory
from core.feasibility.node_names import NodeNames
from core.feasibility.preempt import EvictedTogether, victims
from core.ledger.node_ledger import NodeLedger
from core.requests.gang import GangApi, GangRef
from core.requests.grant import Allocation, AllocationState, Placement
from core.requests.reason import Reason

Answer = object
"""Text of a reason, names of nodes, ranks by node, counts by reason, or grants."""


class ReplayError(ValueError):
    """A line that cannot be replayed; the text says why."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision that was made again.

    Attributes:
        decision: as it was recorded.
        pod: ``namespace/name``; of a decision about a claim, the claim's.
        before: the recorded answer.
        after: the answer now.
    """

    decision: recording.Decision
    pod: str
    before: Answer
    after: Answer


class Replayer:
    """The state after the lines so far."""

    def __init__(self, changed: Defaults) -> None:
        """Begin.

        Args:
            changed: policies that replace the recorded ones.
        """
        self._changed = changed
        self._dialects: tuple[Dialect, ...] = ()
        self._pods: dict[str, Pod] = {}
        self._names = NodeNames(())
        self._inventory = Inventory()
        self._unreadable: set[str] = set()
        self._cache = FeasibilityCache()

    def replay(self, lines: Iterator[recording.Line]) -> Iterator[Replayed]:
        """Make each decision again.

        Raises:
            ReplayError: a line contradicts those before it.
        """
        for line in lines:
            match line:
                case recording.Began():
                    pass
                case recording.PolicyInForce():
                    self._dialects = self._configured(line)
                case recording.PodSeen():
                    self._pods[line.key] = line.pod
                case recording.NodesSeen():
                    self._names = NodeNames(line.names)
                case recording.LedgerSeen():
                    self._put(line)
                case recording.LedgerGone():
                    self._remove(line)
                case recording.ClaimDecided():
                    yield _claim_again(line)
                case recording.GangPlaced():
                    yield self._gang_again(line)
                case _:
                    yield self._again(line)

    def _configured(self, policy: recording.PolicyInForce) -> tuple[Dialect, ...]:
        recorded = Defaults(
            None if policy.node is None else SchedulingPolicy(policy.node),
            None if policy.card is None else SchedulingPolicy(policy.card),
            policy.topology_aware,
        )
        settings = {(each.name, each.key): each.content for each in policy.documents}
        changed = self._changed
        return dialects(
            settings,
            replace(
                recorded,
                node_policy=changed.node_policy or recorded.node_policy,
                card_policy=changed.card_policy or recorded.card_policy,
            ),
        )

    def _put(self, line: recording.LedgerSeen) -> None:
        self._unreadable.discard(line.node)
        self._inventory.put(_with(ledgers.decode(line.ledger), line.reserved))

    def _remove(self, line: recording.LedgerGone) -> None:
        self._inventory.remove(line.node)
        if line.unreadable:
            self._unreadable.add(line.node)
        else:
            self._unreadable.discard(line.node)

    def _again(self, line: recording.PodDecision) -> Replayed:
        pod = self._seen(line.pod)
        name = full_name(pod)
        before = self._recorded(line)
        try:
            request = read(pod, self._dialects)
        except DialectError as error:
            return Replayed(line, name, before, str(error))
        if request is None:
            return Replayed(line, name, before, "requests no share")
        return Replayed(line, name, before, self._answer(line, request))

    def _gang_again(self, line: recording.GangPlaced) -> Replayed:
        """Plan the pods of a gang again, without those that became invalid."""
        lists = [NodeNames(each) for each in line.lists]
        choices: dict[str, recording.PodChoice] = {}
        waiting: list[PodRequest] = []
        before: dict[str, str] = {}
        for each in line.pods:
            pod = self._seen(each.pod)
            if not 0 <= each.nodes < len(lists):
                raise ReplayError(f"the pod {each.pod} has no list of nodes {each.nodes}")
            if each.node:
                before[full_name(pod)] = each.node
            try:
                request = read(pod, self._dialects)
            except DialectError:
                continue
            if request is not None:
                choices[request.request.uid] = each
                waiting.append(request)
        name = GangRef(GangApi.KUBERNETES, "", "")  # no plan depends on it
        part = GangPart(name, len(waiting), tuple(each.pod for each in waiting))
        members = GangMembers(Gang(name, (part,)), frozenset(), tuple(waiting))
        plan = members.plan(
            lambda _, request: self._cache.evaluate(
                request, self._inventory, self._unreadable, choices[request.uid].refusal
            ),
            lambda each: lists[choices[each.request.uid].nodes],
            lambda holder, _: "over the quota" if choices[holder.uid].over else None,
        )
        after = {
            full_name(each.pod): plan.placed[each.request.uid].node
            for each in waiting
            if each.request.uid in plan.placed
        }
        asked = full_name(self._seen(line.pod))
        return Replayed(line, asked, _planned(before), _planned(after))

    def _seen(self, key: str) -> Pod:
        pod = self._pods.get(key)
        if pod is None:
            raise ReplayError(f"no line before it has the pod {key}")
        return pod

    def _recorded(self, line: recording.PodDecision) -> Answer:
        match line:
            case recording.Filtered():
                return self._names.names if line.fitting is None else line.fitting
            case recording.Rejected():
                return line.reasons
            case recording.Ranked():
                return dict(zip(self._names.names, line.ranks, strict=True))
            case recording.Predicted():
                return line.reason
            case recording.Scored():
                return line.scores
            case recording.Preempted():
                return self._evicting(line.node, line.reason or line.victims)
            case recording.Held() | recording.CardsCommitted():
                return line.reason or line.grants

    def _answer(self, line: recording.PodDecision, pod: PodRequest) -> Answer:
        match line:
            case recording.Preempted():
                request = replace(pod.request, priority=line.priority)
                ledger = self._ledger(line.node)
                groups = [
                    EvictedTogether(frozenset(each.uids), each.pods, each.priority)
                    for each in line.groups
                ]
                found = victims(request, ledger, line.candidates, line.protected, groups)
                return self._evicting(
                    line.node,
                    found.text() if isinstance(found, Reason) else [each.uid for each in found],
                )
            case recording.Held():
                return _given(fit(pod.request, self._ledger(line.node)))
            case recording.CardsCommitted():
                view = _view(line)
                hold = kept_for(pod.pod, pod.request, view.stored)
                choice = tuple(map(read_grant, line.claimed))
                chosen = choose_cards(pod.request, view, choice, hold)
                return _given(chosen.placement if isinstance(chosen, Committed) else chosen)
            case _:
                return self._choice(line, pod)

    def _choice(self, line: recording.Choice, pod: PodRequest) -> Answer:
        evaluation = self._evaluation(pod, line.refusal)
        match line:
            case recording.Filtered():
                fits = evaluation.fitting(self._names.rows(self._inventory))
                each = zip(self._names.names, fits, strict=True)
                return tuple(n for n, yes in each if yes or evaluation.is_untouched(n))
            case recording.Rejected():
                evaluation.classify(self._names.rows(self._inventory), len(self._names))
                return reject(evaluation, self._names).texts()
            case recording.Ranked():
                ranks = evaluation.ranks(self._names.rows(self._inventory))
                return dict(zip(self._names.names, ranks.tolist(), strict=True))
            case recording.Predicted():
                rejection = None if evaluation.fits(line.node) else evaluation.rejection(line.node)
                return "" if rejection is None else rejection.reason.text()
            case recording.Scored():
                return scaled({n: evaluation.values(n) for n in line.scores}, line.most)

    def _ledger(self, node: str) -> NodeLedger:
        ledger = self._inventory.get(node)
        if ledger is None:
            raise ReplayError(f"no line before it has the ledger of {node}")
        return ledger

    def _evicting(self, node: str, answer: str | Sequence[str]) -> str:
        """Say which pods a node evicts, or why that does not help."""
        if isinstance(answer, str):
            return f"{node}: {answer}"
        held = self._ledger(node).allocations
        pods = [held[uid].pod if uid in held else uid for uid in answer]
        return f"{node}: evicts {', '.join(pods) or 'no pod'}"

    def _evaluation(self, pod: PodRequest, refusal: str | None) -> NodeEvaluation:
        return self._cache.evaluate(pod.request, self._inventory, self._unreadable, refusal)


def _planned(nodes: Mapping[str, str]) -> str:
    return "; ".join(f"{pod}: {nodes[pod]}" for pod in sorted(nodes)) or "no room for any pod"


def _claim_again(line: recording.ClaimDecided) -> Replayed:
    stored = ledgers.decode(line.ledger)
    asked = ledgers.read_allocation(line.asked, line.node)
    found = conflict(asked, LedgerView(stored, _with(stored, line.reserved)))
    before, after = (each or line.asked.grants for each in (line.reason, found))
    return Replayed(line, line.asked.pod, before, after)


def _view(line: recording.CardsCommitted) -> LedgerView:
    stored = ledgers.decode(line.ledger)
    own = None if line.own is None else ledgers.read_allocation(line.own, line.own_node)
    return LedgerView(stored, _with(stored, line.reserved), own)


def _with(ledger: NodeLedger, reserved: Sequence[AllocationRecord]) -> NodeLedger:
    """The ledger with its holds, and reservations on top."""
    ledger = ledger.with_holds()
    for record in reserved:
        allocation: Allocation = ledgers.read_allocation(record, ledger.node.name)
        ledger = ledger.reserve(replace(allocation, state=AllocationState.RESERVED))
    return ledger


def _given(answer: Placement | Reason) -> str | tuple[GrantRecord, ...]:
    return answer.text() if isinstance(answer, Reason) else tuple(map(grant_record, answer.grants))
