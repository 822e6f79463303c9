"""Reads and annotates single nodes, and publishes their extended resources.

Merge patches only: they need no escape for a slash in a key, create a missing map, and may remove
a missing key.
"""

from collections.abc import Mapping

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import read
from adapters.cluster.api.paths import NODES
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import KubeNode

_NODE = PartialDecoder(KubeNode)


class NodeClient:
    """The server's nodes, without a cache."""

    def __init__(self, client: KubeClient) -> None:
        """Send no request yet."""
        self._client = client

    async def get(self, name: str) -> KubeNode | None:
        """Return a node as it is now; None where there is none.

        Raises:
            ClusterError: the server did not answer.
        """
        body = await self._client.find(NODES.path(name))
        return None if body is None else read(_NODE, body)

    async def publish(
        self,
        name: str,
        resources: Mapping[str, str | None],
        annotations: Mapping[str, str | None] | None = None,
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
        self, name: str, annotations: Mapping[str, str | None], expected: str | None = None
    ) -> KubeNode:
        """Set annotations; None removes one.

        Args:
            name: of the node.
            annotations: to set.
            expected: the resourceVersion that the node must have, or None for any.

        Raises:
            ClusterError: status 409 where the version has changed.
        """
        metadata: dict[str, object] = {"annotations": dict(annotations)}
        if expected is not None:
            metadata["resourceVersion"] = expected
        body = await self._client.patch(NODES.path(name), {"metadata": metadata})
        return read(_NODE, body)
