"""Reports rejected containers, containers without their share, and bypasses of a share.

Each report is a line in the log, and an Event on the pod where the agent has a cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from adapters.agent.hook.audit import Bypass, MissingShare
from adapters.agent.log import log_event
from adapters.agent.nri.model import NriContainer, PodSandbox
from adapters.agent.nri.session import Creating


@dataclass(slots=True)
class HookCounters:
    """What the hook has done since the agent started.

    Attributes:
        adjusted: containers that got an adjustment.
        untouched: containers that needed no adjustment.
        rejected: containers that the agent kept from starting.
        late: rejected containers for which there was no answer in time.
        connections: connections to the runtime that became active.
        without_share: containers that run without their share, as far as audits have seen.
        with_bypass: containers that can reach cards outside their share, as far as is known.
        active: whether the runtime calls the agent now.
    """

    adjusted: int = 0
    untouched: int = 0
    rejected: int = 0
    late: int = 0
    connections: int = 0
    without_share: int = 0
    with_bypass: int = 0
    active: bool = False


EmitEvent = Callable[[PodSandbox, str, str, str], None]
"""Writes an Event, from any thread: the pod, the reason, a sentence, and the action."""


def without_cluster(_pod: PodSandbox, _reason: str, _note: str, _action: str) -> None:
    """The agent has no cluster to write Events to."""


@dataclass(slots=True)
class ContainerReporter:
    """Reports, and counts containers without their share or with a bypass until they are removed.

    Attributes:
        counters: of the hook.
        emit: writes Events.
    """

    counters: HookCounters = field(default_factory=HookCounters)
    emit: EmitEvent = without_cluster
    _without_share: set[str] = field(default_factory=set[str])
    _with_bypass: set[str] = field(default_factory=set[str])

    def report_rejected(self, creating: Creating, reason: str, *, late: bool) -> None:
        """Report that the agent kept a container from starting."""
        self.counters.rejected += 1
        self.counters.late += late
        _log("container.rejected", creating.pod, creating.container, reason)
        note = f"container {creating.container.name}: {reason}"
        self.emit(creating.pod, "ShareRefused", note, "CreatingContainer")

    def reset(self) -> None:
        """Forget all containers: a runtime has connected and lists those that run."""
        self._without_share.clear()
        self._with_bypass.clear()
        self._count()

    def report_audit(self, missing: Sequence[MissingShare], bypasses: Sequence[Bypass]) -> None:
        """Report what the audit of the running containers has found."""
        self._without_share |= {each.container.id for each in missing}
        self._with_bypass |= {each.container.id for each in bypasses}
        self._count()
        for each in missing:
            _log("container.share_missing", each.pod, each.container, each.missing)
            note = f"container {each.container.name} runs without {each.missing}"
            self.emit(each.pod, "ShareMissing", note, "Auditing")
        for bypass in bypasses:
            self._write_bypass(bypass)

    def report_bypass(self, bypass: Bypass) -> None:
        """Report a new container that can reach cards outside its share."""
        self._with_bypass.add(bypass.container.id)
        self._count()
        self._write_bypass(bypass)

    def forget(self, container: NriContainer) -> None:
        """Stop counting a container that the runtime removed."""
        self._without_share.discard(container.id)
        self._with_bypass.discard(container.id)
        self._count()

    def _write_bypass(self, bypass: Bypass) -> None:
        _log("container.bypass_found", bypass.pod, bypass.container, bypass.paths)
        name = bypass.container.name
        note = f"container {name} can reach cards outside its share: {bypass.paths}"
        self.emit(bypass.pod, "CardsExposed", note, "Auditing")

    def _count(self) -> None:
        self.counters.without_share = len(self._without_share)
        self.counters.with_bypass = len(self._with_bypass)


def _log(event: str, pod: PodSandbox, container: NriContainer, reason: str) -> None:
    log_event(
        event,
        pod=f"{pod.namespace}/{pod.name}",
        uid=pod.uid,
        container=container.name,
        reason=reason,
    )
