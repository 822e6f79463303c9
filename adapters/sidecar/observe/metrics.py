"""What Prometheus is told, but for the cards (``card_metrics``)."""

from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from platform import python_version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)

from adapters.sidecar.decide.ports import DecisionRecord

_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds. kube-scheduler gives up after 5, vc-scheduler after 1, if nothing else is set."""


class Metrics:
    """All counters of one process. Children are kept: finding one costs a third of a microsecond.

    Attributes:
        registry: for those who add their own.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        decisions = Counter(
            "dragoman_decisions",
            "Decisions by vocabulary, question, answer and the cause of a no.",
            ["dialect", "verb", "result", "reason"],
            registry=self.registry,
        )
        self._decision = cache(decisions.labels)
        calls = Histogram(
            "dragoman_call_seconds",
            "Time from the whole request to the answer.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._call = cache(calls.labels)
        answers = Counter(
            "dragoman_calls",
            "Calls by question and HTTP status; 0 where the asker had gone.",
            ["verb", "status"],
            registry=self.registry,
        )
        self._answer = cache(answers.labels)
        sizes = Counter(
            "dragoman_call_bytes",
            "Bytes of the bodies of calls; vc-scheduler sends a whole node with each question.",
            ["verb"],
            registry=self.registry,
        )
        self._size = cache(sizes.labels)
        self._conflicts = Counter(
            "dragoman_ledger_conflicts",
            "Writes of a ledger that somebody else was faster with.",
            registry=self.registry,
        )
        self._staleness = Gauge(
            "dragoman_watch_staleness_seconds",
            "Time since a watch was last known to be up to date.",
            ["watch"],
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        Info("dragoman_build", "Which Dragoman this is.", registry=self.registry).info(
            {"version": version("dragoman"), "python": python_version()}
        )

    def decided(self, decided: DecisionRecord) -> None:
        """Count a decision."""
        result, reason = decided.outcome.value, decided.cause
        self._decision(decided.dialect, decided.verb, result, reason).inc()

    def conflict(self) -> None:
        """Count a lost race."""
        self._conflicts.inc()

    def called(self, verb: str, status: int, seconds: float, size: int = 0) -> None:
        """Count a call."""
        self._call(verb).observe(seconds)
        self._size(verb).inc(size)
        self._answer(verb, str(status)).inc()

    def watch(self, name: str, staleness: Callable[[], float]) -> None:
        """Show how old a watch's knowledge is, in seconds, whenever it is asked for."""
        self._staleness.labels(name).set_function(staleness)

    def gauge(self, name: str, help_: str, value: Callable[[], float]) -> None:
        """Show a number whenever it is asked for."""
        Gauge(name, help_, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)
