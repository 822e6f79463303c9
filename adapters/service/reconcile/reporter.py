"""Reports what the reconciler repairs and finds."""

from collections.abc import Callable, Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter

from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.repairs.repairs import ReleaseCause
from adapters.service.observe.decision_log import Logger
from adapters.wire.kube import Pod, full_name

KINDS = (
    "described",
    "adopted",
    "adopted_unread",
    "closed",
    "opened",
    "allocated_late",
    *(cause.name.lower() for cause in ReleaseCause),
    "kept",
    "recounted",
    "annotated",
    "mirrored",
)
"""Kinds of repairs, as values of a metric's label."""


class RepairReporter:
    """Reports repairs and problems; this one reports none. Its methods neither wait nor fail."""

    def repaired(self, kind: str) -> None:
        """Count a repair."""

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:
        """Emit an Event about a pod."""

    def of_node(self, node: str, reason: str, text: str) -> None:
        """Emit an Event about a node."""

    def inventory(self, node: str, problems: Sequence[str]) -> None:
        """Log what is invalid in a node's description of its cards."""


class ReconcileReporter(RepairReporter):
    """Reports as a metric, Events and log lines."""

    def __init__(
        self,
        registry: CollectorRegistry,
        events: EventRecorder,
        log: Logger,
        uid_of: Callable[[str], str],
    ) -> None:
        """Register the counter; ``uid_of`` returns a node's uid, empty for no such node."""
        repairs = Counter(
            "dragoman_reconciler_repairs",
            "Repairs of ledgers and of pods' annotations by the reconciler, by kind.",
            ["kind"],
            registry=registry,
        )
        self._repairs = cache(repairs.labels)
        for kind in KINDS:  # a rate would miss the first increment of a series that begins with it
            self._repairs(kind)
        self._events = events
        self._log = log
        self._uid_of = uid_of

    def repaired(self, kind: str) -> None:
        """Count a repair."""
        self._repairs(kind).inc()

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:
        """Log a repair and emit an Event about a pod."""
        self._log.warning("ledger.repaired", pod=full_name(pod), reason=reason, text=text)
        self._events.emit(EventSubject.pod(pod), reason, text, kind="Warning", action="Reconciling")

    def of_node(self, node: str, reason: str, text: str) -> None:
        """Log a problem and emit an Event about a node."""
        self._log.warning("ledger.drift", node=node, reason=reason, text=text)
        subject = EventSubject("Node", node, uid=self._uid_of(node))
        self._events.emit(subject, reason, text, kind="Warning", action="Reconciling")

    def inventory(self, node: str, problems: Sequence[str]) -> None:
        """Log what is invalid in a node's description of its cards."""
        self._log.warning("inventory.problem", node=node, text="; ".join(problems))
