"""Evicts pods by the Eviction API, which PodDisruptionBudgets hold.

Source: kubernetes 1.37.1 pkg/registry/core/pod/storage/eviction.go.
"""

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, NOT_FOUND, UNANSWERED, ClusterError
from adapters.cluster.api.paths import PODS
from core.requests.request import PodRef


class EvictionClient:
    """Creates Evictions."""

    def __init__(self, client: KubeClient) -> None:
        """Send no request yet."""
        self._client = client

    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> bool:
        """Evict a pod with its own grace period; without an answer, ask once more.

        The first request may have evicted it; then it is the uid that makes the second one safe.

        Args:
            pod: its uid must be that of the pod that is there.
            dry_run: only ask whether the API server would.

        Returns:
            whether there was such a pod.

        Raises:
            ClusterError: the pod was not evicted; status 429 where a disruption budget forbids it.
        """
        try:
            return await self._evict(pod, dry_run=dry_run)
        except ClusterError as error:
            if error.status != UNANSWERED:
                raise
        return await self._evict(pod, dry_run=dry_run)

    async def _evict(self, pod: PodRef, *, dry_run: bool) -> bool:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = PODS.path(pod.name, pod.namespace, "eviction")
        query = {"dryRun": "All"} if dry_run else None
        try:
            await self._client.create(path, body, query, repeat_refused=False)
        except ClusterError as error:
            has_another_uid = error.status == CONFLICT and "UID in" in error.message
            if error.status == NOT_FOUND or has_another_uid:
                return False
            raise
        return True
