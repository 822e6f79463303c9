"""Reads and annotates single pods."""

from collections.abc import Mapping
from http import HTTPStatus

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, ClusterError, read
from adapters.cluster.api.paths import PODS
from adapters.cluster.objects.lists import list_all
from adapters.cluster.watch.selection import Selection
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import Pod
from core.requests.pod_ref import PodRef

_POD = PartialDecoder(Pod)


class PodClient:
    """The server's pods, without a cache."""

    def __init__(self, client: KubeClient) -> None:
        """Send no request yet."""
        self._client = client

    async def get(self, pod: PodRef) -> Pod | None:
        """Return the pod with this namespace and name, of any uid; None where there is none.

        What closes cards of a ledger, or keeps them, is for people where a pod's name would be.

        Raises:
            ClusterError: the server did not answer.
        """
        try:
            path = PODS.path(pod.name, pod.namespace)
        except ValueError:
            return None
        body = await self._client.find(path)
        return None if body is None else read(_POD, body)

    async def on_node(self, node: str) -> list[Pod]:
        """Return all pods that are bound to a node.

        Raises:
            ClusterError: the server did not answer, or a pod cannot be decoded.
        """
        return await list_all(self._client, Selection(PODS, fields=f"spec.nodeName={node}"), Pod)

    async def annotate(
        self,
        pod: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,
        version: str = "",
    ) -> Pod:
        """Set annotations and labels of the pod with this uid; None removes one.

        Args:
            pod: the pod.
            annotations: to set.
            labels: to set.
            version: the resourceVersion that the pod must have still; empty for any.

        Returns:
            the pod after the write.

        Raises:
            ClusterError: status 409 where the pod of this name has another uid or version, 404
                where there is none.
        """
        metadata = {
            "uid": pod.uid,
            **({"resourceVersion": version} if version else {}),
            "annotations": dict(annotations),
            "labels": dict(labels or {}),
        }
        try:
            path = PODS.path(pod.name, pod.namespace)
            return read(_POD, await self._client.patch(path, {"metadata": metadata}))
        except ClusterError as error:
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and "metadata.uid" in error.message:
                raise ClusterError(CONFLICT, "Conflict", error.message) from error
            raise
