"""Reads, annotates and binds pods, and reads the PodDisruptionBudgets that protect them.

A Binding is the commit point: one request, with the node agent's annotations in its metadata. The
server copies annotations and labels of a Binding to the pod in the same write that sets the node.
Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/storage.go, setPodNodeAndMetadata.
"""

from collections.abc import Mapping
from http import HTTPStatus

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, ClusterError, read
from adapters.cluster.api.paths import DISRUPTION_BUDGETS, PODS
from adapters.cluster.objects.lists import list_all
from adapters.cluster.watch.selection import Selection
from adapters.wire.api import Page
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import Pod
from adapters.wire.kube_policy import Budget
from core.requests.request import PodRef

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


PAGE = 500
"""Budgets in a page."""


_PAGE = PartialDecoder(Page)
_BUDGET = PartialDecoder(Budget)


class BudgetClient:
    """The server's PodDisruptionBudgets; implements ``BudgetReader`` of the service."""

    def __init__(self, client: KubeClient) -> None:
        """Send no request yet."""
        self._client = client

    async def all(self) -> list[Budget]:
        """Return all budgets as they are now.

        Raises:
            ClusterError: the server did not answer, or a budget cannot be decoded.
        """
        budgets: list[Budget] = []
        query = {"limit": str(PAGE)}
        while True:
            body = await self._client.get(DISRUPTION_BUDGETS.collection(), query)
            page = read(_PAGE, body)
            budgets += [read(_BUDGET, item) for item in page.items or ()]
            if not page.metadata.token:
                return budgets
            query = {"limit": str(PAGE), "continue": page.metadata.token}
