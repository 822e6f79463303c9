"""The commit point: one Binding, with what the node is to know in its metadata.

The server copies annotations and labels of a Binding to the pod in the same write that sets the
node. Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/storage.go, setPodNodeAndMetadata.
"""

from collections.abc import Mapping

import msgspec

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, NOT_FOUND, ClusterError, read
from adapters.cluster.api.paths import PODS
from adapters.wire.kube import Pod
from core.requests.pod_ref import PodRef

_POD: msgspec.json.Decoder[Pod] = msgspec.json.Decoder(Pod)


class BindingClient:
    """Binds pods to nodes."""

    def __init__(self, client: KubeClient) -> None:
        """Nothing is asked yet."""
        self._client = client

    async def bind(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> None:
        """Bind a pod; when this returns it is bound to the node with these annotations.

        One write. Where it is not known what became of it, or the pod is bound already, the pod
        is read: if it is bound just so, that is success.

        Raises:
            ClusterError: it is not bound so. Status 409: somebody else has bound it, or the
                server refuses; 404: it is gone. ``uncertain``: it may yet be bound so.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "annotations": dict(annotations),
                "labels": dict(labels),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create(PODS.path(pod.name, pod.namespace, "binding"), body)
        except ClusterError as error:
            if not error.uncertain and error.status != CONFLICT:
                raise
            found = await self._read(pod, error)
            if found is None or found.metadata.uid != pod.uid:
                raise ClusterError(NOT_FOUND, "NotFound", "the pod is gone") from error
            if not found.spec.node_name:
                raise
            if not _is_so(found, node, annotations):
                said = f"the pod is bound to {found.spec.node_name} by somebody else"
                raise ClusterError(CONFLICT, "Conflict", said) from error

    async def _read(self, pod: PodRef, problem: ClusterError) -> Pod | None:
        try:
            body = await self._client.find(PODS.path(pod.name, pod.namespace))
            return None if body is None else read(_POD, body)
        except ClusterError:
            raise problem from None


def _is_so(pod: Pod, node: str, annotations: Mapping[str, str]) -> bool:
    there = pod.metadata.annotations or {}
    return pod.spec.node_name == node and annotations.items() <= there.items()
