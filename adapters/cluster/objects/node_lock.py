"""The node lock of HAMi's device plugins: it names the pod that the plugin serves next.

MetaX's device plugin reads the pod from it. All plugins of that family use the same key.
Source: Project-HAMi/HAMi pkg/util/nodelock/nodelock.go.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from adapters.cluster.api import timestamps as moment
from adapters.cluster.api.backoff import delay
from adapters.cluster.api.error import CONFLICT, ClusterError
from adapters.cluster.objects.nodes import NodeClient
from adapters.cluster.objects.pods import PodClient
from core.requests.pod_ref import PodRef

# Source: Project-HAMi/HAMi pkg/util/nodelock/nodelock.go, NodeLockKey, NodeLockSep.
KEY = "hami.io/mutex.lock"
_SEPARATOR = ","

# Source: same file, NodeLockTimeout.
EXPIRY = timedelta(minutes=5)
_ATTEMPTS = 5


class LockedError(RuntimeError):
    """Another pod has the lock; nothing was changed.

    Attributes:
        node: the locked node.
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


class NodeLockClient:
    """Takes and releases node locks."""

    def __init__(
        self, nodes: NodeClient, pods: PodClient, now: Callable[[], datetime] = moment.now
    ) -> None:
        """Send no request yet; ``now`` is the wall clock, for the time in the lock."""
        self._nodes = nodes
        self._pods = pods
        self._now = now

    async def acquire(self, node: str, pod: PodRef) -> bool:
        """Lock a node for a pod; a lock that the pod has already stays as it is.

        A lock is taken over when it is older than ``EXPIRY``, when its pod was deleted, runs
        already or is bound to another node, or when it cannot be read: in HAMi such a lock blocks
        the node for ever.

        Returns:
            whether the pod had no lock before.

        Raises:
            LockedError: another pod has it.
            ClusterError: there is no such node, or the server did not answer.
        """
        failures = 0
        while True:
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
            try:
                await self._nodes.annotate(node, {KEY: mine}, kube.metadata.resource_version)
            except ClusterError as error:
                failures += 1
                if error.status != CONFLICT or failures == _ATTEMPTS:
                    raise
            else:
                return True
            await asyncio.sleep(delay(failures, first=0.1))

    async def release(self, node: str, pod: PodRef) -> None:
        """Unlock a node if it is locked for this pod; otherwise do nothing.

        Raises:
            ClusterError: the server did not answer, or the node changed before each attempt.
        """
        failures = 0
        while True:
            kube = await self._nodes.get(node)
            text = None if kube is None else (kube.metadata.annotations or {}).get(KEY)
            if kube is None or text is None or not NodeLock.read(text).is_of(pod):
                return
            try:
                await self._nodes.annotate(node, {KEY: None}, kube.metadata.resource_version)
            except ClusterError as error:
                failures += 1
                if error.status != CONFLICT or failures == _ATTEMPTS:
                    raise
            else:
                return
            await asyncio.sleep(delay(failures, first=0.1))

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
