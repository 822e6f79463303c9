"""Records decisions in a file of JSON lines, which ``dragoman replay`` reads."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from adapters.dialects.dialect import Defaults, Documents
from adapters.service.decide.attempt import LedgerView
from adapters.service.decide.card_choice import Committed
from adapters.service.decide.ledger_cache import LedgerCache
from adapters.service.decide.pod_requests import PodRequest
from adapters.service.decide.quotas import Quotas
from adapters.service.decide.recorder import NoRecorder, PreemptionFacts, Recorder, Victims
from adapters.service.decide.rejections import NodeRejections
from adapters.service.observe.decision_log import Logger
from adapters.service.observe.recording_file import RecordingFile
from adapters.wire import ledger as ledgers_of
from adapters.wire import recording
from adapters.wire.grant import GrantRecord, grant_record
from adapters.wire.kube import Pod, full_name
from adapters.wire.ledger_records import AllocationRecord
from adapters.wire.name_index import NameList
from core.feasibility.arrays import Mask, Numbers
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, AllocationState, Grant, Placement
from core.requests.reason import Cause, Reason


class FileRecorder:
    """Files of bounded size; implements ``decide.recorder.Recorder``.

    Each file begins with everything that its decisions depend on, so that it can be replayed alone.
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
        """As in ``Recorder``."""
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

    def filtered(self, pod: PodRequest, names: NameList, fits: Mask) -> None:
        """As in ``Recorder``."""
        if not self._file.is_open:
            return
        fitting = None if fits.all() else tuple(names.select(fits))
        key, time = self._known(pod, names)
        self._file.write(recording.Filtered(key, time, fitting, self._refusal(pod)))

    def rejected(self, pod: PodRequest, names: NameList, rejections: NodeRejections) -> None:
        """As in ``Recorder``."""
        if not self._file.is_open:
            return
        reasons = rejections.texts()
        key, time = self._known(pod, names)
        self._file.write(recording.Rejected(key, time, reasons, self._refusal(pod)))

    def ranked(self, pod: PodRequest, names: NameList, ranks: Numbers) -> None:
        """As in ``Recorder``."""
        if not self._file.is_open:
            return
        key, time = self._known(pod, names)
        self._file.write(recording.Ranked(key, time, tuple(ranks.tolist()), self._refusal(pod)))

    def predicted(self, pod: PodRequest, node: str, reason: str) -> None:
        """As in ``Recorder``."""
        if not self._file.is_open:
            return
        key, time = self._known(pod)
        self._file.write(recording.Predicted(key, time, node, reason, self._refusal(pod)))

    def scored(self, pod: PodRequest, scores: Mapping[str, int], most: int) -> None:
        """As in ``Recorder``."""
        if not self._file.is_open:
            return
        key, time = self._known(pod)
        self._file.write(recording.Scored(key, time, {**scores}, most, self._refusal(pod)))

    def preempted(self, pod: PodRequest, facts: PreemptionFacts, answer: Victims) -> None:
        """As in ``Recorder``."""
        if not self._file.is_open:
            return
        key, time = self._known(pod)
        node = facts.ledger.node.name
        if self._written.get(node) is not facts.ledger:  # it changed while candidates were read
            self._put_ledger(node, facts.ledger)
            self._written[node], self._revision = facts.ledger, -1
        line = recording.Preempted(
            key,
            time,
            node,
            facts.priority,
            tuple(facts.candidates),
            tuple(facts.protected),
            () if isinstance(answer, Reason) else tuple(each.uid for each in answer),
            answer.text() if isinstance(answer, Reason) else "",
        )
        self._file.write(line)

    def held(self, pod: PodRequest, node: str, answer: Placement | Reason) -> None:
        """As in ``Recorder``."""
        if not self._file.is_open:
            return
        key, time = self._known(pod)
        self._file.write(recording.Held(key, time, node, *_answer(answer)))

    def reserved(
        self,
        pod: PodRequest,
        choice: Sequence[Grant],
        view: LedgerView,
        answer: Committed | Reason,
    ) -> None:
        """As in ``Recorder``."""
        self._chosen(recording.CardsReserved, pod, choice, view, answer)

    def committed(
        self,
        pod: PodRequest,
        choice: Sequence[Grant],
        view: LedgerView,
        answer: Committed | Reason,
    ) -> None:
        """As in ``Recorder``; a refusal of the quota is not a choice of cards."""
        if not isinstance(answer, Reason) or answer.cause is not Cause.QUOTA:
            self._chosen(recording.CardsCommitted, pod, choice, view, answer)

    def claimed(self, asked: Allocation, view: LedgerView, problem: str | None) -> None:
        """As in ``Recorder``."""
        if not self._file.is_open:
            return
        self._turn_over()
        line = recording.ClaimDecided(
            _now(),
            asked.node,
            ledgers_of.allocation_record(asked),
            msgspec.Raw(ledgers_of.encode(view.stored)),
            _reserved(view.reserved),
            problem or "",
        )
        self._file.write(line)

    def _chosen(
        self,
        line: type[recording.CardsCommitted],
        pod: PodRequest,
        choice: Sequence[Grant],
        view: LedgerView,
        answer: Committed | Reason,
    ) -> None:
        if not self._file.is_open:
            return
        own = view.own
        key, time = self._known(pod)
        self._file.write(
            line(
                key,
                time,
                msgspec.Raw(ledgers_of.encode(view.stored)),
                _reserved(view.reserved),
                None if own is None else ledgers_of.allocation_record(own),
                "" if own is None else own.node,
                _grants(choice),
                *_answer(answer.placement if isinstance(answer, Committed) else answer),
            )
        )

    def _refusal(self, pod: PodRequest) -> str | None:
        return self._quotas.refusal(pod.request)

    def _begin(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._names = b""
        self._revision = -1
        self._written: dict[str, NodeLedger | None] = {}
        self._file.write(recording.Began(recording.FORMAT, version("dragoman"), _now()))
        self._file.write(self._policy)

    def _turn_over(self) -> None:
        """Begin a new file where this one is full."""
        if self._file.is_full:
            self._file.turn_over()
            self._begin()

    def _known(self, pod: PodRequest, names: NameList | None = None) -> tuple[str, str]:
        """Record what a decision depends on; the pod's key and the time."""
        self._turn_over()
        key = pod.request.uid or full_name(pod.pod)
        if self._pods.get(key) is not pod.pod:
            self._pods[key] = pod.pod
            self._file.write(recording.PodSeen(key, pod.pod))
        if names is not None and names.compact != self._names:
            self._names = names.compact
            self._file.write(recording.NodesSeen(tuple(names.strings())))
        self._record_ledgers()
        return key, _now()

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


def _answer(answer: Placement | Reason) -> tuple[tuple[GrantRecord, ...], str]:
    return ((), answer.text()) if isinstance(answer, Reason) else (_grants(answer.grants), "")


def _grants(grants: Sequence[Grant]) -> tuple[GrantRecord, ...]:
    return tuple(map(grant_record, grants))


def _reserved(ledger: NodeLedger) -> tuple[AllocationRecord, ...]:
    held = ledger.allocations.values()
    return tuple(
        ledgers_of.allocation_record(each)
        for each in held
        if each.state is AllocationState.RESERVED
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
