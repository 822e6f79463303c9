"""Reads, annotates, binds and evicts pods, and reads the budgets that protect them from that.

A Binding is the commit point: one request, with the node agent's annotations in its metadata. The
server copies annotations and labels of a Binding to the pod in the same write that sets the node.
Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/storage.go, setPodNodeAndMetadata;
eviction.go beside it.
"""

from adapters.cluster.api.client import KubeClient, list_all
from adapters.cluster.api.error import CONFLICT, NOT_FOUND, UNANSWERED, ClusterError, read
from adapters.cluster.api.paths import DISRUPTION_BUDGETS, PODS, Selection
from adapters.cluster.objects.annotations import annotate
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import Changes, Entries, Pod
from adapters.wire.kube_policy import Budget
from core.requests.request import PodRef

_POD = PartialDecoder(Pod)


class PodClient:
    """The server's pods and budgets, without a cache; every method may raise ``ClusterError``."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, pod: PodRef) -> Pod | None:
        """Return the pod with this namespace and name, of any uid; None where there is none.

        What closes cards of a ledger, or keeps them, is for people where a pod's name would be.
        """
        try:
            path = PODS.path(pod.name, pod.namespace)
        except ValueError:
            return None
        body = await self._client.find(path)
        return None if body is None else read(_POD, body)

    async def on_node(self, node: str) -> list[Pod]:
        """Return all pods that are bound to a node."""
        return await list_all(self._client, Selection(PODS, fields=f"spec.nodeName={node}"), Pod)

    async def annotate(
        self, pod: PodRef, annotations: Changes, labels: Changes | None = None, version: str = ""
    ) -> Pod:
        """Annotate the pod with this uid, and return it; see ``annotate``."""
        path = PODS.path(pod.name, pod.namespace)
        body = await annotate(self._client, path, pod.uid, annotations, labels, version)
        return read(_POD, body)

    async def bind(
        self, pod: PodRef, node: str, annotations: Entries, labels: Entries, version: str = ""
    ) -> None:
        """Create the Binding of a pod: one write, which adds annotations and labels to the pod.

        The pod must still have the resourceVersion ``version``, where that is not empty: a
        precondition in setPodNodeAndMetadata.

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

    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> bool:
        """Evict a pod with its own grace period; without an answer, ask once more.

        The first request may have evicted it; then it is the uid that makes the second one safe. A
        ``dry_run`` only asks whether the API server would. Return whether there was such a pod.

        Raises:
            ClusterError: the pod was not evicted; status 429 where a disruption budget forbids it.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = PODS.path(pod.name, pod.namespace, "eviction")
        query = {"dryRun": "All"} if dry_run else None
        for is_last in (False, True):
            try:
                await self._client.create(path, body, query, repeat_refused=False)
            except ClusterError as error:
                has_another_uid = error.status == CONFLICT and "UID in" in error.message
                if error.status == NOT_FOUND or has_another_uid:
                    return False
                if error.status != UNANSWERED or is_last:
                    raise
            else:
                break
        return True

    async def budgets(self) -> list[Budget]:
        """Return all PodDisruptionBudgets as they are now."""
        return await list_all(self._client, Selection(DISRUPTION_BUDGETS), Budget)
