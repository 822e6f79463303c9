"""Where record and cluster did not agree, as metrics and as events."""

from collections.abc import Callable
from functools import cache

from prometheus_client import CollectorRegistry, Counter

from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.sidecar.observe.decision_log import Logger
from adapters.wire.kube import Pod


class ReconcileReporter:
    """Implements ``reconciling.Witness``."""

    def __init__(
        self,
        registry: CollectorRegistry,
        events: EventRecorder,
        log: Logger,
        uid_of: Callable[[str], str],
    ) -> None:
        """Nothing is told yet.

        Args:
            registry: where the counter goes.
            events: where people look.
            log: where operators look.
            uid_of: a node's uid, by its name.
        """
        repairs = Counter(
            "dragoman_reconciler_repairs",
            "What the reconciler has put right, by kind.",
            ["kind"],
            registry=registry,
        )
        self._repairs = cache(repairs.labels)
        self._events = events
        self._log = log
        self._uid_of = uid_of

    def repaired(self, kind: str) -> None:
        """Count a repair."""
        self._repairs(kind).inc()

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:
        """Tell people of a pod."""
        meta = pod.metadata
        self._log.warning(
            "ledger.repaired", pod=f"{meta.namespace}/{meta.name}", reason=reason, text=text
        )
        self._events.emit(EventSubject.pod(pod), reason, text, kind="Warning", action="Reconciling")

    def of_node(self, node: str, reason: str, text: str) -> None:
        """Tell people of a node."""
        self._log.warning("ledger.drift", node=node, reason=reason, text=text)
        about = EventSubject("Node", node, uid=self._uid_of(node))
        self._events.emit(about, reason, text, kind="Warning", action="Reconciling")
