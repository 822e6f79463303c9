"""The node's containers, as the runtime reports them, and their HAMi-core folders."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from adapters.agent.injection.cache_dirs import put_aside
from adapters.agent.injection.hami_core import cache_dir_name
from adapters.agent.log import log_event
from adapters.agent.nri.model import NriContainer, PodSandbox
from adapters.agent.nri.session import ContainerEvent, Creating, Removed, Stopped, Synchronized
from core.requests.limits import GrantError

ORPHAN_GRACE = 300.0
"""Seconds until a folder without a container is deleted; the same as in HAMi's monitor."""

ContainerKey = tuple[str, str]
"""Uid of the pod, and name of the container."""


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """A container of a pod, across restarts.

    Attributes:
        namespace: of the pod.
        pod: its name.
        container: the container's name.
    """

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
    _attempts: dict[ContainerKey, set[str]] = field(default_factory=dict[ContainerKey, set[str]])
    _keys: dict[str, ContainerKey] = field(default_factory=dict[str, ContainerKey])
    _known: dict[ContainerKey, ContainerInfo] = field(
        default_factory=dict[ContainerKey, ContainerInfo]
    )
    _lock: Lock = field(default_factory=Lock)

    def observe(self, event: ContainerEvent) -> None:
        """Follow the runtime; from any thread."""
        with self._lock:
            match event:
                case Synchronized():
                    self._attempts, self._keys, self._known = {}, {}, {}
                    pods = {pod.id: pod for pod in event.pods}
                    for container in event.containers:
                        pod = pods.get(container.pod)
                        if pod is not None:
                            self._add(pod, container)
                    self._sweep()
                case Creating(_, pod, container):
                    self._add(pod, container)
                case Stopped():
                    pass  # its folder stays until it is removed
                case Removed(_, container):
                    self._remove(container.id)

    def present(self) -> Iterator[tuple[ContainerKey, ContainerInfo]]:
        """The containers that exist."""
        yield from list(self._known.items())

    def cache_dirs(self) -> Iterator[tuple[ContainerInfo, Path]]:
        """The containers that have a HAMi-core folder, with its path."""
        if self.cache_root is None:
            return
        for key, container in list(self._known.items()):
            path = self._folder(key)
            if path is not None and path.is_dir():
                yield container, path

    def _add(self, pod: PodSandbox, container: NriContainer) -> None:
        key = (pod.uid, container.name)
        self._known[key] = ContainerInfo(pod.namespace, pod.name, container.name)
        self._keys[container.id] = key
        self._attempts.setdefault(key, set()).add(container.id)

    def _remove(self, attempt: str) -> None:
        # Only by the container's id: the runtime names no more of a failed creation.
        key = self._keys.pop(attempt, None)
        if key is None:
            return
        attempts = self._attempts[key]
        attempts.discard(attempt)
        if attempts:
            return  # a restarted container uses the folder
        del self._attempts[key], self._known[key]
        self._discard(self._folder(key))

    def _sweep(self) -> None:
        if self.cache_root is None or not self.cache_root.is_dir():
            return
        kept = {self._folder(key) for key in self._known}
        for path in self.cache_root.iterdir():
            if path not in kept and "_" in path.name and self._is_old(path):
                self._discard(path)

    def _is_old(self, path: Path) -> bool:
        """Whether nothing has changed a folder for a while.

        By the time of its inode's last change: the container can set the other times.
        """
        try:
            return path.lstat().st_ctime < self.now() - ORPHAN_GRACE
        except FileNotFoundError:
            return False

    def _folder(self, key: ContainerKey) -> Path | None:
        try:
            return None if self.cache_root is None else self.cache_root / cache_dir_name(*key)
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
