"""The node's containers, as the runtime reports them, and their HAMi-core folders."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from adapters.node.hook.hami_core import cache_dir_name
from adapters.node.hook.host import remove_cache_dir
from adapters.node.log import log_event
from adapters.node.nri.session import ContainerEvent, Creating, Removed, Stopped, Synchronized
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
    _known: dict[ContainerKey, ContainerInfo] = field(
        default_factory=dict[ContainerKey, ContainerInfo]
    )

    def observe(self, event: ContainerEvent) -> None:
        """Follow the runtime."""
        match event:
            case Synchronized():
                self._attempts, self._known = {}, {}
                pods = {pod.id: pod for pod in event.pods}
                for container in event.containers:
                    pod = pods.get(container.pod)
                    if pod is not None:
                        key = (pod.uid, container.name)
                        self._add(key, ContainerInfo(pod.namespace, pod.name, key[1]), container.id)
                self._sweep()
            case Creating(_, pod, container):
                key = (pod.uid, container.name)
                self._add(key, ContainerInfo(pod.namespace, pod.name, key[1]), container.id)
            case Stopped():
                pass  # its folder stays until it is removed
            case Removed(pod, container):
                self._remove((pod.uid, container.name), container.id)

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

    def _add(self, key: ContainerKey, container: ContainerInfo, attempt: str) -> None:
        self._known[key] = container
        self._attempts.setdefault(key, set()).add(attempt)

    def _remove(self, key: ContainerKey, attempt: str) -> None:
        attempts = self._attempts.get(key, set())
        attempts.discard(attempt)
        if attempts:
            return  # a restarted container uses the folder
        self._attempts.pop(key, None)
        if self._known.pop(key, None) is not None:
            self._discard(self._folder(key))

    def _sweep(self) -> None:
        if self.cache_root is None or not self.cache_root.is_dir():
            return
        kept = {self._folder(key) for key in self._known}
        for path in self.cache_root.iterdir():
            if path in kept or "_" not in path.name or path.is_symlink():
                continue
            if path.stat().st_mtime < self.now() - ORPHAN_GRACE:
                self._discard(path)

    def _folder(self, key: ContainerKey) -> Path | None:
        try:
            return None if self.cache_root is None else self.cache_root / cache_dir_name(*key)
        except GrantError:
            return None

    def _discard(self, path: Path | None) -> None:
        try:
            if path is not None:
                remove_cache_dir(str(path))
        except OSError as error:
            log_event("hami_cache.delete_failed", folder=path, reason=str(error))
