"""The ports in a cluster: from the cluster cache if it has the answer, else the API server.

The credentials of the API server are here too, and the check that it serves what is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from adapters.accounting.claim_cache import ClaimCache
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials, own_credentials
from adapters.cluster.api.error import CONFLICT, NOT_FOUND, ClusterError
from adapters.cluster.api.paths import DEVICE_CLASSES, NODE_LEDGERS
from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.cluster.objects.nodes import LockedError, NodeLockClient
from adapters.cluster.objects.pods import PodClient
from adapters.dialects.merge import read_node
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.ports import BindError, NodeLocked
from adapters.service.decide.service import Service
from adapters.service.observe.decision_log import Logger
from adapters.service.settings.settings import SettingsError
from adapters.wire.kube import Entries, KubeNode, Pod, full_name, pod_ref
from core.requests.request import PodRef

RETRIED_AT = "dragoman.dev/retry"
"""Annotation of a rejected pod that may fit now; its value must be new each time."""


@dataclass(eq=False, slots=True)
class ClusterPods:
    """Implements ``ports.Binder`` and ``ports.PodReader``."""

    _pods: PodClient
    _cache: ClusterCache

    async def bind(
        self, pod: PodRef, node: str, annotations: Entries, labels: Entries, version: str = ""
    ) -> None:
        """Bind a pod with one Binding, as the port says.

        The status of a ``BindError`` is 0 where the Binding may have been made all the same.
        """
        try:
            await self._pods.bind(pod, node, annotations, labels, version)
        except ClusterError as error:
            raise BindError(0 if error.uncertain else error.status, error.message) from error

    async def get(self, pod: PodRef) -> Pod | None:
        """Return a pod from the cache; if it is not there, from the API server."""
        return self._cache.pod(pod.namespace, pod.name) or await self._pods.get(pod)

    async def newest(self, pod: PodRef) -> Pod | None:
        """Return a pod from the API server."""
        return await self._pods.get(pod)


class ClusterEvents:
    """Implements ``ports.EventEmitter``."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events

    def emit(self, pod: Pod, reason: str, message: str, *, warning: bool) -> None:
        """Queue an Event about a pod; the recorder writes it in the background."""
        subject = EventSubject.pod(pod)
        self._events.emit(subject, reason, message, kind="Warning" if warning else "Normal")


@dataclass(eq=False, slots=True)
class ClusterNodeLocks:
    """Implements ``ports.NodeLocks``: the lock of MetaX's device plugin, for the time of a bind.

    The plugin serves the pod that the lock names. A node that the cache does not have is never
    locked. ``release_failed`` is called with the node and the error where a lock was not released.
    """

    _locks: NodeLockClient
    _cache: ClusterCache
    _release_failed: Callable[[str, str], None]

    async def acquire(self, pod: Pod, node: str, needed: Callable[[KubeNode], bool]) -> bool:
        """Lock a node for a pod; see ``ports.NodeLocks``."""
        kube = self._cache.nodes.get(node)
        if kube is None or not needed(kube):
            return False
        try:
            return await self._locks.acquire(node, pod_ref(pod))
        except LockedError as error:
            raise NodeLocked(
                f"the device plugin of node {node} has not served pod {error.owner or 'unknown'}"
                " yet; it serves one pod at a time"
            ) from error

    async def release(self, pod: Pod, node: str) -> None:
        """Unlock a node; see ``ports.NodeLocks``."""
        try:
            await self._locks.release(node, pod_ref(pod))
        except ClusterError as error:
            self._release_failed(node, str(error))


class ClusterView:
    """Implements ``ports.ClusterObjects``.

    Attributes:
        has_all_nodes: the API server lists them.
    """

    has_all_nodes = True

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    @property
    def revision(self) -> int:
        """Changes whenever a node's labels, taints, cordon or devices do."""
        return self._cache.node_revision

    @property
    def claims(self) -> ClaimCache:
        """All ResourceClaims, with their classes and devices."""
        return self._cache.claims

    def nodes(self) -> Mapping[str, KubeNode]:
        """Return the nodes in order of their names, in which the API server lists them."""
        return dict(sorted(self._cache.nodes.items()))

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Return the pods that are bound to a node, or may be, and may hold cards of it."""
        by_claims = (pod for pod in self._cache.consumers(node) if not pod.spec.containers)
        return *self._cache.holding(node), *by_claims

    def counted(self, pod: Pod) -> Pod:
        """Return a pod without the requests that the ledger counts as those of its claims."""
        return self._cache.counted(pod)


def follow_descriptions(cache: ClusterCache, service: Service) -> None:
    """Let a service know of which nodes something describes cards, though they have no ledger.

    A plain pod is not bound there before the leader has made the ledger: pods may have the cards.
    """

    def is_described(name: str) -> bool:
        node = cache.nodes.get(name)
        if node is None:
            return False
        sources = cache.devices.get(name), service.pod_requests.dialects, cache.hardware.get(name)
        return bool(read_node(node, *sources, cache.claims.described(name))[0].cards)

    service.ledgers.is_described = is_described
    cache.subscribe(service.ledgers.look_at)


class PodWaker:
    """Writes the annotation ``RETRIED_AT``, so that schedulers look at a rejected pod again."""

    def __init__(self, pods: PodClient, log: Logger) -> None:
        self._pods = pods
        self._log = log

    async def wake(self, pod: Pod, value: str) -> None:
        """Change the annotation; OSError where the API server did not accept it."""
        await self._pods.annotate(pod_ref(pod), {RETRIED_AT: value})

    def failed(self, pod: Pod, error: OSError) -> bool:
        """Log an error; return whether to try again, which is false for a pod that is gone."""
        self._log.info("retry.failed", pod=full_name(pod), text=str(error))
        return not isinstance(error, ClusterError) or error.status not in (NOT_FOUND, CONFLICT)


def credentials(kubeconfig: Path | None) -> KubeCredentials:
    """Return credentials of the settings' file, else of our pod, else of those that kubectl reads.

    Raises:
        SettingsError: there are none, or they cannot be used.
    """
    try:
        return own_credentials(kubeconfig)
    except ClusterError as error:
        problem = error.message.replace("--kubeconfig", "the setting kubeconfig")
        raise SettingsError(f"store: 'kubernetes': {problem.partition('; pass one')[0]}") from error


async def check_served(client: KubeClient, log: Logger, *, claims: bool) -> None:
    """Check that the API server serves NodeLedgers; if it does not answer, log that.

    Args:
        client: of the API server.
        log: of this process.
        claims: whether ResourceClaims count. Where the API server does not serve them, that is
            logged too: there are none to see.

    Raises:
        SettingsError: the custom resource definition is not installed.
    """
    try:
        await client.get(NODE_LEDGERS.collection(), {"limit": "1"})
        if claims and await client.find(DEVICE_CLASSES.collection(), {"limit": "1"}) is None:
            log.warning(
                "dra.unavailable",
                text="dra.claims: the API server does not serve resource.k8s.io/v1, so that no"
                " ResourceClaim is seen: use Kubernetes 1.34 or later, with this API on",
            )
    except ClusterError as error:
        if error.status == NOT_FOUND:
            raise SettingsError(
                "store: 'kubernetes': the cluster does not know NodeLedgers;"
                " install configs/crd/nodeledgers.yaml"
            ) from error
        log.warning("cluster.unreachable", text=str(error))
