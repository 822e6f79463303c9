"""The node's containers, as the runtime reports them: their HAMi-core folders, and their ends.

The API server forgets a pod that is deleted by force at once; its containers run on for their grace
period. The service marks the pod's allocation in the ledger (``Allocation.release_by``), and
releases it when the agent confirms that the last container has ended.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from adapters.agent.grants import LedgerGrants
from adapters.agent.injection.cache_dirs import put_aside
from adapters.agent.injection.hami_core import cache_dir_name
from adapters.agent.log import log_event
from adapters.agent.nri.model import ContainerState, NriContainer, PodSandbox
from adapters.agent.nri.session import ContainerEvent, Creating, Removed, Stopped, Synchronized
from adapters.dialects.dra import DRA
from core.requests.limits import GrantError

ORPHAN_GRACE = 300.0
"""Seconds until a folder without a container is deleted; the same as in HAMi's monitor."""


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """A container of a pod, across restarts.

    Attributes:
        pod: its name; ``uid`` is the pod's too.
    """

    uid: str
    namespace: str
    pod: str
    container: str


@dataclass(slots=True)
class ContainerRegistry:
    """The containers of the node.

    Attributes:
        cache_root: the folder with a folder for each container; None without HAMi-core.
        now: seconds since 1970.
    """

    cache_root: Path | None
    now: Callable[[], float] = time.time
    _known: dict[str, ContainerInfo] = field(default_factory=dict[str, ContainerInfo])
    _lock: Lock = field(default_factory=Lock)

    def observe(self, event: ContainerEvent) -> None:
        """Follow the runtime; from any thread."""
        with self._lock:
            match event:
                case Synchronized():
                    self._known = {}
                    pods = {pod.id: pod for pod in event.pods}
                    for container in event.containers:
                        pod = pods.get(container.pod)
                        if pod is not None:
                            self._add(pod, container)
                    root, kept = self.cache_root, set(map(self._folder, self.present()))
                    for path in () if root is None or not root.is_dir() else root.iterdir():
                        if path not in kept and "_" in path.name:
                            # The inode's last change: the container can set the other times.
                            with suppress(FileNotFoundError):
                                if path.lstat().st_ctime < self.now() - ORPHAN_GRACE:
                                    self._discard(path)
                case Creating(_, pod, container):
                    self._add(pod, container)
                case Stopped():
                    pass  # its folder stays until it is removed
                case Removed(_, container):
                    # Only by its id: the runtime names no more of a failed creation.
                    known = self._known.pop(container.id, None)
                    # A restarted container uses the same folder.
                    if known is not None and known not in self._known.values():
                        self._discard(self._folder(known))

    def present(self) -> list[ContainerInfo]:
        """List the containers that exist."""
        return list(dict.fromkeys(list(self._known.values())))

    def cache_dirs(self) -> Iterator[tuple[ContainerInfo, Path]]:
        """Yield the containers that have a HAMi-core folder, with its path."""
        for container in self.present():
            path = self._folder(container)
            if path is not None and path.is_dir():
                yield container, path

    def _add(self, pod: PodSandbox, container: NriContainer) -> None:
        self._known[container.id] = ContainerInfo(pod.uid, pod.namespace, pod.name, container.name)

    def _folder(self, container: ContainerInfo) -> Path | None:
        if self.cache_root is None:
            return None
        try:
            return self.cache_root / cache_dir_name(container.uid, container.container)
        except GrantError:
            return None

    def _discard(self, path: Path | None) -> None:
        try:
            if path is not None:
                put_aside(str(path))
        except FileNotFoundError:
            return
        except OSError as error:
            log_event("hami_cache.delete_failed", folder=path, reason=str(error))


@dataclass(slots=True)
class StoppedPods:
    """Follows the runtime's containers, from any thread.

    A container counts before the ledger is read for it. So either the marked allocation keeps it
    from being created, or ``confirmed`` does not name its pod.

    Attributes:
        subscribers: called, from any thread, after the last container of a deleted pod has ended.
    """

    grants: LedgerGrants
    subscribers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _known: bool = False
    _pods: dict[str, str] = field(default_factory=dict[str, str])
    _lock: Lock = field(default_factory=Lock)

    def observe(self, event: ContainerEvent) -> None:
        """Follow the runtime."""
        match event:
            case Synchronized():
                uids = {pod.id: pod.uid for pod in event.pods}
                pods = {
                    container.id: uids[container.pod]
                    for container in event.containers
                    if container.pod in uids and container.state != ContainerState.STOPPED
                }
                with self._lock:
                    self._pods, self._known = pods, True
                self._notify()
            case Creating(_, pod, container):
                with self._lock:
                    self._pods[container.id] = pod.uid
            case Stopped(_, container) | Removed(_, container):
                # Only by the container's id: the runtime names no more of a failed creation.
                with self._lock:
                    uid = self._pods.pop(container.id, None)
                    ended = uid not in self._pods.values()
                if ended and uid in self._deleted():
                    self._notify()

    def confirmed(self) -> tuple[str, ...]:
        """Uids, ascending, of the deleted pods in the ledger that have no running container.

        None of them as long as no runtime has listed its containers.
        """
        deleted = self._deleted()
        if not deleted:
            return ()
        with self._lock:
            return tuple(sorted(deleted.difference(self._pods.values()))) if self._known else ()

    def _deleted(self) -> set[str]:
        """Return uids of pods only: which containers use a claim is not known here."""
        ledger = self.grants.ledger
        allocations = {} if ledger is None else ledger.allocations
        return {
            uid
            for uid, held in allocations.items()
            if held.release_by is not None and held.dialect != DRA
        }

    def _notify(self) -> None:
        for notify in self.subscribers:
            notify()
