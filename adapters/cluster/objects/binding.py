"""The commit point of a bind: one Binding, with the node agent's annotations in its metadata.

The server copies annotations and labels of a Binding to the pod in the same write that sets the
node. Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/storage.go, setPodNodeAndMetadata.
"""

from collections.abc import Mapping

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.paths import PODS
from core.requests.pod_ref import PodRef


class BindingClient:
    """Creates Bindings."""

    def __init__(self, client: KubeClient) -> None:
        """Send no request yet."""
        self._client = client

    async def bind(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str],
        version: str = "",
    ) -> None:
        """Create the Binding of a pod: one write.

        Args:
            pod: the pod.
            node: the name of the node.
            annotations: to add to the pod.
            labels: to add to the pod.
            version: the resourceVersion that the pod must have still; empty for any. Source:
                k8s.io/kubernetes/pkg/registry/core/pod/storage/storage.go, the preconditions in
                setPodNodeAndMetadata.

        Raises:
            ClusterError: the server rejected it. Status 409: the pod is bound already, has another
                uid or another version; 404: there is no such pod. ``uncertain``: the pod may have
                been bound.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                **({"resourceVersion": version} if version else {}),
                "annotations": dict(annotations),
                "labels": dict(labels),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.create(PODS.path(pod.name, pod.namespace, "binding"), body)
