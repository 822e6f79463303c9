"""Records decisions in a file of JSON lines, which ``dragoman replay`` reads."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.dialect import Defaults, Documents
from adapters.service.decide.advice.recorded import (
    GangPlanned,
    NodePredicted,
    NodesFiltered,
    NodesRanked,
    NodesRejected,
    NodesScored,
    PlanReserved,
    VictimsSelected,
)
from adapters.service.decide.commit.card_choice import Committed
from adapters.service.decide.commit.recorded import CardsChosen, ClaimChecked
from adapters.service.decide.recorder import NoRecorder, RecordedDecision, Recorder
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.service.observe.decision_log import Logger
from adapters.service.observe.recording_file import RecordingFile
from adapters.wire.kube import Pod, full_name
from adapters.wire.records import ledger as ledgers_of
from adapters.wire.records import recording
from adapters.wire.records.grant import GrantRecord, grant_record
from adapters.wire.records.ledger_records import AllocationRecord
from core.feasibility.node_names import NodeNames
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import AllocationState, Grant, Placement
from core.requests.reason import Cause, Reason


class FileRecorder:
    """Files of bounded size; implements ``decide.recorder.Recorder``.

    Each file begins with everything that its decisions depend on, and is replayed without others.
    """

    def __init__(self, file: RecordingFile) -> None:
        """Begin a file.

        Args:
            file: empty.
        """
        self._file = file
        self._policy = recording.PolicyInForce()
        self._ledgers = LedgerCache()
        self._quotas = Quotas(self._ledgers)
        self._begin()

    def follow(self, ledgers: LedgerCache, quotas: Quotas) -> None:
        """Implements ``Recorder.follow``."""
        self._ledgers, self._quotas = ledgers, quotas

    def configured(self, defaults: Defaults, documents: Documents) -> None:
        """The policy and the schedulers' own settings from now on."""
        node, card = defaults.node_policy, defaults.card_policy
        self._policy = recording.PolicyInForce(
            None if node is None else node.value,
            None if card is None else card.value,
            defaults.topology_aware,
            tuple(recording.DocumentRecord(*key, content) for key, content in documents.items()),
        )
        self._file.write(self._policy)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def record(self, decision: RecordedDecision) -> None:
        """Implements ``Recorder.record``."""
        if self._file.is_open and not _is_refused_by_quota(decision):
            self._file.write(self._line(decision))

    def _line(self, decision: RecordedDecision) -> recording.Decision:
        """A decision as a line, after the lines of what it depends on and the file lacks."""
        match decision:
            case NodesFiltered(pod, names, fits):
                fitting = None if fits.all() else names.select(fits).names
                key, time = self._known(pod, names)
                return recording.Filtered(key, time, fitting, self._refusal(pod))
            case NodesRejected(pod, names, rejections):
                key, time = self._known(pod, names)
                return recording.Rejected(key, time, rejections.texts(), self._refusal(pod))
            case NodesRanked(pod, names, ranks):
                key, time = self._known(pod, names)
                return recording.Ranked(key, time, tuple(ranks.tolist()), self._refusal(pod))
            case GangPlanned():
                return self._gang(decision)
            case NodePredicted(pod, node, reason):
                key, time = self._known(pod)
                return recording.Predicted(key, time, node, reason, self._refusal(pod))
            case NodesScored(pod, scores, most):
                key, time = self._known(pod)
                return recording.Scored(key, time, {**scores}, most, self._refusal(pod))
            case VictimsSelected():
                return self._victims(decision)
            case PlanReserved(pod, node, answer):
                key, time = self._known(pod)
                return recording.Held(key, time, node, *_answer(answer))
            case CardsChosen():
                return self._cards(decision)
            case ClaimChecked(asked, view, problem):
                self._turn_over()
                return recording.ClaimDecided(
                    _now(),
                    asked.node,
                    ledgers_of.allocation_record(asked),
                    msgspec.Raw(ledgers_of.encode(view.stored)),
                    _reserved(view.reserved),
                    problem or "",
                )
            case _:
                raise TypeError(f"{type(decision).__name__} has no line")

    def _gang(self, decision: GangPlanned) -> recording.GangPlaced:
        key, time = self._known(decision.pod)
        lists: dict[int, NodeNames] = {id(each): each for each in decision.names.values()}
        numbers = {known: number for number, known in enumerate(lists)}
        pods: list[recording.PodChoice] = []
        for each in decision.waiting:
            uid = each.request.uid
            to = decision.plan.placed.get(uid)
            choice = recording.PodChoice(
                self._seen(each),
                numbers[id(decision.names[uid])],
                "" if to is None else to.node,
                self._refusal(each),
                uid in decision.plan.over,
            )
            pods.append(choice)
        names = tuple(each.names for each in lists.values())
        return recording.GangPlaced(key, time, names, tuple(pods))

    def _victims(self, decision: VictimsSelected) -> recording.Preempted:
        key, time = self._known(decision.pod)
        ledger, answer = decision.ledger, decision.answer
        node = ledger.node.name
        if self._written.get(node) is not ledger:  # it changed while candidates were read
            self._put_ledger(node, ledger)
            self._written[node], self._revision = ledger, -1
        return recording.Preempted(
            key,
            time,
            node,
            decision.priority,
            tuple(decision.candidates),
            tuple(decision.protected),
            () if isinstance(answer, Reason) else tuple(each.uid for each in answer),
            answer.text() if isinstance(answer, Reason) else "",
            tuple(
                recording.GroupRecord(tuple(sorted(each.uids)), each.pods, each.priority)
                for each in decision.groups
            ),
        )

    def _cards(self, decision: CardsChosen) -> recording.CardsCommitted:
        line = recording.CardsCommitted if decision.is_written else recording.CardsReserved
        view, answer = decision.view, decision.answer
        own = view.own
        key, time = self._known(decision.pod)
        return line(
            key,
            time,
            msgspec.Raw(ledgers_of.encode(view.stored)),
            _reserved(view.reserved),
            None if own is None else ledgers_of.allocation_record(own),
            "" if own is None else own.node,
            _grants(decision.choice),
            *_answer(answer.placement if isinstance(answer, Committed) else answer),
        )

    def _refusal(self, pod: PodRequest) -> str | None:
        return self._quotas.refusal(pod.request)

    def _begin(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._names: tuple[str, ...] = ()
        self._revision = -1
        self._written: dict[str, NodeLedger | None] = {}
        self._file.write(recording.Began(recording.FORMAT, version("dragoman"), _now()))
        self._file.write(self._policy)

    def _turn_over(self) -> None:
        """Begin a new file where this one is full."""
        if self._file.is_full:
            self._file.turn_over()
            self._begin()

    def _known(self, pod: PodRequest, names: NodeNames | None = None) -> tuple[str, str]:
        """Record what a decision depends on; the pod's key and the time."""
        self._turn_over()
        key = self._seen(pod)
        if names is not None and names.names != self._names:
            self._names = names.names
            self._file.write(recording.NodesSeen(names.names))
        self._record_ledgers()
        return key, _now()

    def _seen(self, pod: PodRequest) -> str:
        """Record a pod that the file lacks; its key."""
        key = pod.request.uid or full_name(pod.pod)
        if self._pods.get(key) is not pod.pod:
            self._pods[key] = pod.pod
            self._file.write(recording.PodSeen(key, pod.pod))
        return key

    def _record_ledgers(self) -> None:
        """Record each ledger that differs from the one that the file has."""
        if self._revision == self._ledgers.revision:
            return
        self._revision = self._ledgers.revision
        now: dict[str, NodeLedger | None] = {
            each.node.name: each for each in self._ledgers.inventory
        }
        now.update(dict.fromkeys(self._ledgers.problems()))
        for node in self._written.keys() - now.keys():
            self._file.write(recording.LedgerGone(node, unreadable=False))
        for node, ledger in now.items():
            if node in self._written and self._written[node] is ledger:
                continue
            if ledger is None:
                self._file.write(recording.LedgerGone(node, unreadable=True))
            else:
                self._put_ledger(node, ledger)
        self._written = now

    def _put_ledger(self, node: str, ledger: NodeLedger) -> None:
        encoded = msgspec.Raw(ledgers_of.encode(ledger))
        self._file.write(recording.LedgerSeen(node, encoded, _reserved(ledger)))


def recorder(path: Path | None, mib: int, log: Logger) -> Recorder:
    """The recorder of a service.

    Args:
        path: of the file; None records nothing.
        mib: size of the file after which a new one is begun.
        log: gets why a recording ended.

    Raises:
        OSError: the file cannot be created.
    """
    if path is None:
        return NoRecorder()

    def failed(error: OSError) -> None:
        log.error("recording.stopped", file=str(path), text=error.strerror or str(error))

    try:
        return FileRecorder(RecordingFile(path, mib << 20, failed))
    except OSError as error:
        raise OSError(f"decisions.record: {path}: cannot be written: {error.strerror}") from error


def _is_refused_by_quota(decision: RecordedDecision) -> bool:
    """Whether the quota refused a commit's write, which is not a choice of cards."""
    if not isinstance(decision, CardsChosen) or not decision.is_written:
        return False
    return isinstance(decision.answer, Reason) and decision.answer.cause is Cause.QUOTA


def _answer(answer: Placement | Reason) -> tuple[tuple[GrantRecord, ...], str]:
    return ((), answer.text()) if isinstance(answer, Reason) else (_grants(answer.grants), "")


def _grants(grants: Sequence[Grant]) -> tuple[GrantRecord, ...]:
    return tuple(map(grant_record, grants))


def _reserved(ledger: NodeLedger) -> tuple[AllocationRecord, ...]:
    """The reservations of a ledger; its record has the holds."""
    holds = {hold.id for hold in ledger.holds}
    return tuple(
        ledgers_of.allocation_record(each)
        for each in ledger.allocations.values()
        if each.state is AllocationState.RESERVED and each.uid not in holds
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
