"""The pods that were deleted past their kubelet and of which no container runs any more.

The API server forgets a pod that is deleted by force at once; its containers run on for their grace
period. The service marks the pod's allocation in the ledger (``Allocation.release_by``), and
releases it when the agent confirms that the last container has ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from adapters.agent.grants import LedgerGrants
from adapters.agent.nri.model import ContainerState
from adapters.agent.nri.session import ContainerEvent, Creating, Removed, Stopped, Synchronized
from adapters.dialects.dra import DRA


@dataclass(slots=True)
class StoppedPods:
    """Follows the runtime's containers, from any thread.

    A container counts before the ledger is read for it. So either the marked allocation keeps it
    from being created, or ``confirmed`` does not name its pod.

    Attributes:
        grants: with the node's ledger.
        subscribers: called, from any thread, after the last container of a deleted pod has ended.
    """

    grants: LedgerGrants
    subscribers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _known: bool = False
    _pods: dict[str, str] = field(default_factory=dict[str, str])
    _containers: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _lock: Lock = field(default_factory=Lock)

    def observe(self, event: ContainerEvent) -> None:
        """Follow the runtime."""
        match event:
            case Synchronized():
                self._replace(event)
            case Creating(_, pod, container):
                with self._lock:
                    self._pods[container.id] = pod.uid
                    self._containers.setdefault(pod.uid, set()).add(container.id)
            case Stopped(_, container) | Removed(_, container):
                # Only by the container's id: the runtime names no more of a failed creation.
                ended = self._discard(container.id)
                if ended in self._deleted():
                    self._notify()

    def confirmed(self) -> tuple[str, ...]:
        """Uids, ascending, of the deleted pods in the ledger that have no running container.

        None of them as long as no runtime has listed its containers.
        """
        deleted = self._deleted()
        if not deleted:
            return ()
        with self._lock:
            return tuple(sorted(deleted - self._containers.keys())) if self._known else ()

    def _deleted(self) -> set[str]:
        """Uids of pods only: which containers use a claim is not known here."""
        ledger = self.grants.ledger
        allocations = {} if ledger is None else ledger.allocations
        return {
            uid
            for uid, held in allocations.items()
            if held.release_by is not None and held.dialect != DRA
        }

    def _replace(self, event: Synchronized) -> None:
        uids = {pod.id: pod.uid for pod in event.pods}
        pods = {
            container.id: uids[container.pod]
            for container in event.containers
            if container.pod in uids and container.state != ContainerState.STOPPED
        }
        containers: dict[str, set[str]] = {}
        for container, uid in pods.items():
            containers.setdefault(uid, set()).add(container)
        with self._lock:
            self._pods, self._containers, self._known = pods, containers, True
        self._notify()

    def _discard(self, container: str) -> str | None:
        """Remove a container; the uid of its pod where it was the last one."""
        with self._lock:
            uid = self._pods.pop(container, None)
            if uid is None:
                return None
            rest = self._containers[uid]
            rest.discard(container)
            if rest:
                return None
            del self._containers[uid]
            return uid

    def _notify(self) -> None:
        for notify in self.subscribers:
            notify()
