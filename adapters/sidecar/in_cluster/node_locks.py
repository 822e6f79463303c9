"""The lock by which MetaX's device plugin learns whom it serves, taken around a pod's bind."""

from collections.abc import Callable

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.node_lock import LockedError
from adapters.cluster.objects.node_lock import NodeLockClient as ApiLocks
from adapters.sidecar.decide.ports import NodeLocked
from adapters.sidecar.reconcile.cluster_cache import ClusterCache
from adapters.wire.kube import KubeNode, Pod, pod_ref


class ClusterNodeLocks:
    """Implements ``ports.NodeLocks``.

    Attributes:
        mirror: the nodes as watches tell them; no lock is taken before they are known.
    """

    def __init__(self, locks: ApiLocks, failed: Callable[[str, str], None]) -> None:
        """Nothing is locked yet.

        Args:
            locks: takes locks and gives them back.
            failed: told the node and why its lock could not be given back.
        """
        self._locks = locks
        self._failed = failed
        self.mirror: ClusterCache | None = None

    async def acquire(self, pod: Pod, node: str, needed: Callable[[KubeNode], bool]) -> bool:
        """Lock a node for a pod; see ``ports.NodeLocks``."""
        kube = None if self.mirror is None else self.mirror.nodes.get(node)
        if kube is None or not needed(kube):
            return False
        try:
            return await self._locks.acquire(node, pod_ref(pod))
        except LockedError as error:
            told = f"the device plugin of node {node} has not served pod {error.owner or 'unknown'}"
            raise NodeLocked(f"{told} yet; it serves one pod at a time") from error

    async def release(self, pod: Pod, node: str) -> None:
        """Unlock a node; see ``ports.NodeLocks``."""
        try:
            await self._locks.release(node, pod_ref(pod))
        except ClusterError as error:
            self._failed(node, str(error))
