"""Reads and annotates single nodes, publishes their extended resources, and locks them.

Merge patches only: they need no escape for a slash in a key, create a missing map, and may remove
a missing key. The lock is that of HAMi's device plugins: it names the pod that the plugin serves
next, and MetaX's device plugin reads the pod from it. All plugins of that family use the same key.
Source: Project-HAMi/HAMi pkg/util/nodelock/nodelock.go.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from adapters.cluster.api import timestamps as moment
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, ClusterError, read
from adapters.cluster.api.paths import NODES
from adapters.cluster.api.transport import delay
from adapters.cluster.objects.pods import PodClient
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import Changes, KubeNode
from core.requests.request import PodRef

_NODE = PartialDecoder(KubeNode)


class NodeClient:
    """The server's nodes, without a cache; every method may raise ``ClusterError``."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, name: str) -> KubeNode | None:
        """Return a node as it is now; None where there is none."""
        body = await self._client.find(NODES.path(name))
        return None if body is None else read(_NODE, body)

    async def publish(
        self, name: str, resources: Changes, annotations: Changes | None = None
    ) -> None:
        """Set capacity and allocatable of extended resources; None removes one.

        Annotations go in the same write, which the server allows for a status.

        A kubelet that restarts sets resources that it does not know to 0: publish them again.

        Raises:
            ClusterError: status 404 where there is no such node.
        """
        amounts = dict(resources)
        body: dict[str, object] = {"status": {"capacity": amounts, "allocatable": amounts}}
        if annotations:
            body["metadata"] = {"annotations": dict(annotations)}
        await self._client.patch(NODES.path(name, part="status"), body)

    async def annotate(
        self, name: str, annotations: Changes, expected: str | None = None
    ) -> KubeNode:
        """Set annotations; None removes one. A node of another version than ``expected`` stays.

        Raises:
            ClusterError: status 409 where the version has changed.
        """
        metadata: dict[str, object] = {"annotations": dict(annotations)}
        if expected is not None:
            metadata["resourceVersion"] = expected
        body = await self._client.patch(NODES.path(name), {"metadata": metadata})
        return read(_NODE, body)


# Source: Project-HAMi/HAMi pkg/util/nodelock/nodelock.go, NodeLockKey, NodeLockSep.
KEY = "hami.io/mutex.lock"
_SEPARATOR = ","

# Source: same file, NodeLockTimeout.
EXPIRY = timedelta(minutes=5)
_ATTEMPTS = 5


class LockedError(RuntimeError):
    """Another pod has the lock; nothing was changed.

    Attributes:
        owner: ``namespace/name`` of the pod; empty where the lock does not name it.
    """

    def __init__(self, node: str, owner: str) -> None:
        super().__init__(f"node {node} is locked for pod {owner or 'unknown'}")
        self.node = node
        self.owner = owner


@dataclass(frozen=True, slots=True)
class NodeLock:
    """The annotation.

    Attributes:
        since: when the lock was taken; None where that cannot be read.
        namespace: of the pod; empty where an early version of HAMi wrote the lock.
        name: of the pod; likewise.
    """

    since: datetime | None
    namespace: str = ""
    name: str = ""

    @classmethod
    def read(cls, text: str) -> "NodeLock":
        """Read an annotation; any text is a lock, an unreadable one too."""
        since, _, owner = text.partition(_SEPARATOR)
        namespace, _, name = owner.partition(_SEPARATOR)
        return cls(moment.read(since), namespace, name)

    def write(self) -> str:
        """Return the text of the annotation."""
        since = "" if self.since is None else moment.seconds(self.since)
        return _SEPARATOR.join((since, self.namespace, self.name))

    def is_of(self, pod: PodRef) -> bool:
        """Return whether the lock names this pod."""
        return (self.namespace, self.name) == (pod.namespace, pod.name)


@dataclass(eq=False, slots=True)
class NodeLockClient:
    """Takes and releases node locks; ``now`` is the wall clock, for the time in the lock."""

    _nodes: NodeClient
    _pods: PodClient
    _now: Callable[[], datetime] = moment.now

    async def acquire(self, node: str, pod: PodRef) -> bool:
        """Lock a node for a pod, and return whether the pod had no lock before, which stays.

        A lock is taken over when it is older than ``EXPIRY``, when its pod was deleted, runs
        already or is bound to another node, or when it cannot be read: in HAMi such a lock blocks
        the node for ever.

        Raises:
            LockedError: another pod has it.
            ClusterError: there is no such node, or the server did not answer.
        """
        for attempt in count(1):
            kube = await self._nodes.get(node)
            if kube is None:
                raise ClusterError(404, "NotFound", f"there is no node {node}")
            text = (kube.metadata.annotations or {}).get(KEY)
            if text is not None:
                lock = NodeLock.read(text)
                if lock.is_of(pod) and not self._is_old(lock):
                    return False
                if not await self._is_void(lock, node):
                    raise LockedError(node, "/".join(filter(None, (lock.namespace, lock.name))))
            mine = NodeLock(self._now(), pod.namespace, pod.name).write()
            if await self._write(kube, mine, attempt):
                break
        return True

    async def release(self, node: str, pod: PodRef) -> None:
        """Unlock a node if it is locked for this pod; otherwise do nothing.

        Raises:
            ClusterError: the server did not answer, or the node changed before each attempt.
        """
        for attempt in count(1):
            kube = await self._nodes.get(node)
            text = None if kube is None else (kube.metadata.annotations or {}).get(KEY)
            if kube is None or text is None or not NodeLock.read(text).is_of(pod):
                return
            if await self._write(kube, None, attempt):
                return

    async def _write(self, kube: KubeNode, lock: str | None, attempt: int) -> bool:
        """Write the lock if the node is still as it was read; else wait and return False."""
        try:
            meta = kube.metadata
            await self._nodes.annotate(meta.name, {KEY: lock}, meta.resource_version)
        except ClusterError as error:
            if error.status != CONFLICT or attempt == _ATTEMPTS:
                raise
            await asyncio.sleep(delay(attempt, first=0.1))
            return False
        return True

    def _is_old(self, lock: NodeLock) -> bool:
        return lock.since is None or abs(self._now() - lock.since) > EXPIRY

    async def _is_void(self, lock: NodeLock, node: str) -> bool:
        if self._is_old(lock):
            return True
        if not (lock.namespace and lock.name):
            return False
        pod = await self._pods.get(PodRef(lock.namespace, lock.name))
        if pod is None or (pod.spec.node_name or node) != node:
            return True
        # The kubelet asks the plugin for all containers before the first of them starts.
        return pod.status.phase in ("Running", "Succeeded", "Failed")
