"""Which containers there are, as the runtime tells, and the folders that they leave behind."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from adapters.node.hook.hami_core import folder
from adapters.node.hook.host import discard
from adapters.node.log import log_event
from adapters.node.nri.session import Creating, Removed, Synchronized
from core.requests.limits import GrantError

GRACE = 300.0
"""Seconds that a folder without a container is kept, as HAMi's monitor keeps it."""

Key = tuple[str, str]
"""Uid of the pod, and name of the container."""


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """A container of a pod, whichever attempt of it is running.

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
        caches: the folder that has a folder for each container; None where there is none.
        now: seconds since 1970.
    """

    caches: Path | None
    now: Callable[[], float] = time.time
    _attempts: dict[Key, set[str]] = field(default_factory=dict[Key, set[str]])
    _known: dict[Key, ContainerInfo] = field(default_factory=dict[Key, ContainerInfo])

    def observe(self, said: Synchronized | Creating | Removed) -> None:
        """Take what the runtime says."""
        match said:
            case Synchronized():
                self._attempts, self._known = {}, {}
                pods = {pod.id: pod for pod in said.pods}
                for container in said.containers:
                    pod = pods.get(container.pod)
                    if pod is not None:
                        key = (pod.uid, container.name)
                        self._add(key, ContainerInfo(pod.namespace, pod.name, key[1]), container.id)
                self._sweep()
            case Creating(_, pod, container):
                key = (pod.uid, container.name)
                self._add(key, ContainerInfo(pod.namespace, pod.name, key[1]), container.id)
            case Removed(pod, container):
                self._remove((pod.uid, container.name), container.id)

    def present(self) -> Iterator[tuple[Key, ContainerInfo]]:
        """The containers that there are."""
        yield from list(self._known.items())

    def folders(self) -> Iterator[tuple[ContainerInfo, Path]]:
        """The containers that have a folder."""
        if self.caches is None:
            return
        for key, tenant in list(self._known.items()):
            path = self._folder(key)
            if path is not None and path.is_dir():
                yield tenant, path

    def _add(self, key: Key, tenant: ContainerInfo, attempt: str) -> None:
        self._known[key] = tenant
        self._attempts.setdefault(key, set()).add(attempt)

    def _remove(self, key: Key, attempt: str) -> None:
        attempts = self._attempts.get(key, set())
        attempts.discard(attempt)
        if attempts:
            return  # a later attempt uses the folder
        self._attempts.pop(key, None)
        if self._known.pop(key, None) is not None:
            self._discard(self._folder(key))

    def _sweep(self) -> None:
        if self.caches is None or not self.caches.is_dir():
            return
        kept = {self._folder(key) for key in self._known}
        for path in self.caches.iterdir():
            if path in kept or "_" not in path.name or path.is_symlink():
                continue
            if path.stat().st_mtime < self.now() - GRACE:
                self._discard(path)

    def _folder(self, key: Key) -> Path | None:
        try:
            return None if self.caches is None else self.caches / folder(*key)
        except GrantError:
            return None

    def _discard(self, path: Path | None) -> None:
        try:
            if path is not None:
                discard(str(path))
        except OSError as error:
            log_event("folder.kept", folder=path, reason=str(error))
