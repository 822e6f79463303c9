"""The log of decisions: log lines, metrics, and the latest decisions for the dashboard."""

import secrets
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, islice
from time import perf_counter

import orjson
import structlog

from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.observe.metrics import Metrics
from adapters.wire.visible import escaped, visible, visible_lines

LATEST = 100
"""Decisions of ``/api/decisions``."""

KEPT = 1000
"""Decisions that the dashboard searches."""

LONGEST = 2000
"""Characters of a text of a decision; what a client sends as a name may be a megabyte."""

REFUSED_PODS = 2000
"""Pods whose latest refusal is kept, the most recently refused ones."""

_NO = frozenset({Outcome.REFUSED, Outcome.INVALID, Outcome.ERROR})

Logger = structlog.typing.FilteringBoundLogger


def logger(level: str, form: str) -> Logger:
    """Return a logger to standard error, from a level such as ``info`` on.

    The form is ``json`` for one object a line, ``text`` for people.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    as_json = form == "json"
    made: Logger = structlog.wrap_logger(
        structlog.BytesLogger(sys.stderr.buffer) if as_json else structlog.WriteLogger(sys.stderr),
        processors=[
            *shared,
            structlog.processors.JSONRenderer(serializer=_json) if as_json else _sentence,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return made


@dataclass(slots=True)
class RequestTimer:
    """What is measured of one request.

    Attributes:
        status: HTTP status of the answer; 0 where the client disconnected.
        size: bytes of the request body.
    """

    status: int = 0
    size: int = 0


class StructuredDecisionLog:
    """Logs and counts decisions; implements ``ports.DecisionLog``.

    Attributes:
        recorded: decisions since the process began.
    """

    def __init__(self, log: Logger, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics
        self._prefix = secrets.token_hex(3)
        self._numbers = count(1)
        self.recorded = 0
        self._latest: deque[Mapping[str, object]] = deque(maxlen=KEPT)
        self._refusals: OrderedDict[str, Mapping[str, object]] = OrderedDict()

    def record(self, decision: DecisionRecord) -> None:
        """Log and count a decision."""
        self._metrics.decided(decision)
        uid, text = decision.uid[:LONGEST], decision.text[:LONGEST]
        entry: dict[str, object] = {
            "decision": self._number(),
            "pod": decision.pod[:LONGEST],
            "uid": uid,
            "dialect": decision.dialect,
            "node": decision.node[:LONGEST],
        }
        if decision.cause:
            entry["reason"] = decision.cause
        if text:
            entry["text"] = text
        if decision.consumers:
            entry["consumers"] = tuple(each[:LONGEST] for each in decision.consumers)
        counted = ""
        if decision.nodes_evaluated:
            entry["nodes"], entry["asked"] = decision.nodes_fitting, decision.nodes_evaluated
            counted = f"{decision.nodes_fitting} of {decision.nodes_evaluated} fit"
        self._log.info(f"{decision.verb}.{decision.outcome.value}", **entry)
        kept = {
            **entry,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "verb": decision.verb,
            "outcome": decision.outcome.value,
            "text": text or counted,
        }
        self.recorded += 1
        self._latest.appendleft(kept)
        self._refusals.pop(uid, None)
        if uid and decision.outcome in _NO:
            self._refusals[uid] = kept
            if len(self._refusals) > REFUSED_PODS:
                self._refusals.popitem(last=False)

    def conflict(self, node: str) -> None:
        """Count a ledger write that lost a race."""
        self._metrics.conflict()
        self._log.debug("ledger.conflict", node=node)

    def latest(self) -> list[Mapping[str, object]]:
        """Return the latest decisions, newest first, each with its time in UTC."""
        return list(islice(self._latest, LATEST))

    def history(self) -> Sequence[Mapping[str, object]]:
        """Return all decisions that are kept, newest first."""
        return list(self._latest)

    def refusal(self, uid: str) -> Mapping[str, object] | None:
        """Return the latest decision about a pod if it was a no."""
        return self._refusals.get(uid)

    @contextmanager
    def timed(self, verb: str) -> Iterator[RequestTimer]:
        """Measure one request; nothing without the label of its endpoint."""
        timer, start = RequestTimer(), perf_counter()
        try:
            yield timer
        finally:
            if verb:
                self._metrics.called(verb, timer.status, perf_counter() - start, timer.size)

    def refused(self, reason: str) -> None:
        """Count a request or a connection that a limit of the port refused."""
        self._metrics.refused(reason)

    def failed(self, path: str, error: Exception) -> str:
        """Log an unexpected error with its traceback; return the number of the log line."""
        number = self._number()
        self._log.error("call.failed", path=path[:LONGEST], decision=number, exc_info=error)
        return number

    def _number(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"


def _json(value: object, **_: object) -> bytes:
    """Return ASCII: what a client sent can end no line, and does nothing on a terminal."""
    text = orjson.dumps(value, default=str)
    return text if text.isascii() and b"\x7f" not in text else escaped(text.decode()).encode()


def _sentence(_: object, __: str, event: structlog.typing.EventDict) -> str:
    """Return ``12:00:00 bind.bound  pod=default/a node=n1``, without empty values."""
    trace = event.pop("exception", "")
    clock = str(event.pop("timestamp"))[11:19]
    level = str(event.pop("level"))
    name = visible(str(event.pop("event")))
    shown = ((key, visible(str(value))) for key, value in event.items() if value not in ("", None))
    fields = " ".join(f"{key}={value}" for key, value in shown)
    mark = "" if level == "info" else f"{level}: "
    return f"{clock} {mark}{name:<20} {fields}" + (f"\n{visible_lines(trace)}" if trace else "")
