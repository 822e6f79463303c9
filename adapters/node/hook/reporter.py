"""What people are told of containers that were refused, or run otherwise than they were sold.

A line in the log each time; an Event on the pod, where there is a cluster to write it to.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from adapters.node.hook.counters import HookCounters
from adapters.node.hook.policy import Exposed, Unserved
from adapters.node.log import log_event
from adapters.node.nri.model import NriContainer, PodSandbox
from adapters.node.nri.session import Creating

Emit = Callable[[PodSandbox, str, str, str], None]
"""Writes an Event, from any thread: about a pod, a word for the reason, a sentence, what was
being done."""


def _silent(_pod: PodSandbox, _reason: str, _note: str, _action: str) -> None:
    """There is no cluster."""


@dataclass(slots=True)
class ContainerReporter:
    """Tells, and counts who runs otherwise than he was sold until he is gone.

    Attributes:
        counts: what was done.
        emit: writes Events.
    """

    counts: HookCounters = field(default_factory=HookCounters)
    emit: Emit = _silent
    _unserved: set[str] = field(default_factory=set[str])
    _exposed: set[str] = field(default_factory=set[str])

    def refused(self, creating: Creating, reason: str, *, late: bool) -> None:
        """A container was kept from starting."""
        self.counts.refused += 1
        self.counts.late += late
        _log("container.refused", creating.pod, creating.container, reason)
        note = f"container {creating.container.name}: {reason}"
        self.emit(creating.pod, "ShareRefused", note, "CreatingContainer")

    def begin(self) -> None:
        """A runtime has told what runs; what was known before is gone, or told again."""
        self._unserved.clear()
        self._exposed.clear()
        self._count()

    def audited(self, unserved: Sequence[Unserved], exposed: Sequence[Exposed]) -> None:
        """What ran at the beginning was looked at: these run otherwise than they were sold."""
        self._unserved |= {each.container.id for each in unserved}
        self._exposed |= {each.container.id for each in exposed}
        self._count()
        for each in unserved:
            _log("container.unserved", each.pod, each.container, each.lacking)
            note = f"container {each.container.name} runs without {each.lacking}"
            self.emit(each.pod, "ShareMissing", note, "Auditing")
        for found in exposed:
            self._tell_exposed(found)

    def exposed(self, found: Exposed) -> None:
        """A new container can reach cards past its share."""
        self._exposed.add(found.container.id)
        self._count()
        self._tell_exposed(found)

    def gone(self, container: NriContainer) -> None:
        """A container was removed."""
        self._unserved.discard(container.id)
        self._exposed.discard(container.id)
        self._count()

    def _tell_exposed(self, found: Exposed) -> None:
        _log("container.exposed", found.pod, found.container, found.way)
        note = f"container {found.container.name} reaches cards past its share: {found.way}"
        self.emit(found.pod, "CardsExposed", note, "Auditing")

    def _count(self) -> None:
        self.counts.unserved = len(self._unserved)
        self.counts.exposed = len(self._exposed)


def _log(event: str, pod: PodSandbox, container: NriContainer, reason: str) -> None:
    log_event(
        event,
        pod=f"{pod.namespace}/{pod.name}",
        uid=pod.uid,
        container=container.name,
        reason=reason,
    )
