"""The service in a Kubernetes cluster: what stands for its ports, and the tasks that feed them."""

import asyncio
import math
import secrets
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import monotonic
from typing import Any

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeconfigSource, load
from adapters.cluster.api.error import CONFLICT, NOT_FOUND, ClusterError
from adapters.cluster.api.paths import (
    CONFIG_MAPS,
    DEVICES,
    NODE_LEDGERS,
    NODES,
    PODS,
)
from adapters.cluster.objects.binding import BindingClient as ApiBinder
from adapters.cluster.objects.budgets import BudgetClient as ApiBudgets
from adapters.cluster.objects.events import EventRecorder as ApiEvents
from adapters.cluster.objects.events import EventSubject
from adapters.cluster.objects.lease import Election
from adapters.cluster.objects.node_lock import NodeLockClient as ApiLocks
from adapters.cluster.objects.nodes import NodeClient as ApiNodes
from adapters.cluster.objects.pods import PodClient as LivePods
from adapters.cluster.watch.reflector import Reflector
from adapters.cluster.watch.selection import Selection
from adapters.dialects import registry
from adapters.dialects.dialect import Documents
from adapters.sidecar.certificates.tls_context import CertificateText
from adapters.sidecar.decide.ports import BindError
from adapters.sidecar.decide.service import Service
from adapters.sidecar.in_cluster.node_locks import ClusterNodeLocks
from adapters.sidecar.in_cluster.scheduler_config import (
    SchedulerConfig,
    SchedulerConfigHandler,
    config_map_names,
)
from adapters.sidecar.observe.decision_log import Logger
from adapters.sidecar.reconcile.agent_status import AgentStatusFeed
from adapters.sidecar.reconcile.cluster_cache import ClusterCache, ClusterCacheHandler, ObjectKey
from adapters.sidecar.reconcile.controller import Reconciler, unadopted
from adapters.sidecar.reconcile.node_resources import NodeResourcePublisher
from adapters.sidecar.reconcile.reporter import ReconcileReporter
from adapters.sidecar.reconcile.requeue import PodRequeuer
from adapters.sidecar.reconcile.unbound import UnboundScanner
from adapters.sidecar.runtime import Cluster, ServiceRuntime
from adapters.sidecar.settings import Managed, Settings, SettingsError
from adapters.stores.kubernetes import KubernetesStore, LedgerObject
from adapters.stores.kubernetes import LedgerHandler as LedgerSink
from adapters.wire.kube import ConfigMap, DeviceObject, KubeNode, Pod, full_name, pod_ref
from core.requests.pod_ref import PodRef

LEASE = "dragoman-reconciler"

RETRIED_AT = "dragoman.dev/retry"
"""Annotation of a pod that was refused and has room now; its value only has to be a new one."""

PODS_SEEN, NODES_SEEN, DEVICES_SEEN, ADOPTED = "pods", "nodes", "devices", "bound pods"
SETTINGS_SEEN = "the schedulers' settings"
CERTIFICATE = "the certificate"
"""What is missing until the watches have told it, and until what is bound is in the ledgers."""

CERTIFICATE_TROUBLES = frozenset(("certificate.failed", "certificate.lost", "certificate.unusable"))

Task = Coroutine[Any, Any, Any]


class ClusterBinder:
    """Implements ``ports.Binder``."""

    def __init__(self, binder: ApiBinder) -> None:
        self._binder = binder

    async def bind(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> None:
        """Bind a pod with one Binding.

        Raises:
            BindError: it is not known to be bound so.
        """
        try:
            await self._binder.bind(pod, node, annotations, labels)
        except ClusterError as error:
            raise BindError(0 if error.uncertain else error.status, error.message) from error


class ClusterPods:
    """Implements ``ports.Pods``: from the mirror, else from the API server."""

    def __init__(self, live: LivePods) -> None:
        self._live = live
        self.mirror: ClusterCache | None = None

    async def get(self, pod: PodRef) -> Pod | None:
        """A pod as it was last seen, or as it is.

        Raises:
            OSError: it was never seen, and the API server did not answer.
        """
        seen = None if self.mirror is None else self.mirror.pod(pod.namespace, pod.name)
        return seen or await self._live.get(pod)

    async def newest(self, pod: PodRef) -> Pod | None:
        """A pod as it is; else as ``get``."""
        return await self._live.get(pod)


class ClusterEvents:
    """Implements ``ports.Events``."""

    def __init__(self, events: ApiEvents) -> None:
        self._events = events

    def emit(self, pod: Pod, reason: str, message: str, *, warning: bool) -> None:
        """Tell of a pod, in the background."""
        about = EventSubject.pod(pod)
        self._events.emit(about, reason, message, kind="Warning" if warning else "Normal")


class InCluster:
    """One service in a cluster."""

    def __init__(self, settings: Settings, log: Logger) -> None:
        """Read the credentials.

        Raises:
            OSError: there are none.
        """
        self._log = log
        self._client = KubeClient(load(KubeconfigSource(settings.kubeconfig)))
        self.store = KubernetesStore(self._client, self._follow_ledgers)
        self._live = LivePods(self._client)
        self._pods = ClusterPods(self._live)
        self._identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._events = ApiEvents(self._client, self._identity)
        self._namespace = settings.namespace
        self._publish = settings.publish
        self._locks = ClusterNodeLocks(
            ApiLocks(ApiNodes(self._client), self._live),
            lambda node, text: log.warning("lock.kept", node=node, text=text),
        )
        # A published dialect has no device plugin on the nodes that could release the lock.
        published = filter(None, map(registry.named, settings.publish))
        self._locking = settings.node_lock == "auto" and not any(
            info.uses_node_lock for info in published
        )
        self._agents = AgentStatusFeed(
            lambda node, text: log.warning("agent.unread", node=node, text=text)
        )
        self._ledgers_staleness: Callable[[], float] = lambda: math.inf
        self._lease_problem = self._certificate_problem = ""

    def cluster(self) -> Cluster:
        """What the service sees of the cluster."""
        binder = ClusterBinder(ApiBinder(self._client))
        budgets = ApiBudgets(self._client)
        return Cluster(binder, self._pods, ClusterEvents(self._events), self._locks, budgets)

    def tasks(self, runtime: ServiceRuntime) -> list[Task]:
        """What keeps a service fed; not ready before all of it has come once."""
        service = runtime.service
        for what in (PODS_SEEN, NODES_SEEN, DEVICES_SEEN, SETTINGS_SEEN, ADOPTED):
            service.mark_unsynced(what)

        def look_at(node: str) -> None:
            reconciler.look_at(node)
            publisher.look_at(node)

        mirror = ClusterCache(look_at)
        self._pods.mirror = mirror
        self._agents.tell(mirror.put_hardware)
        if self._locking:
            self._locks.mirror = mirror
        told = ReconcileReporter(
            runtime.metrics.registry,
            self._events,
            self._log,
            lambda name: mirror.nodes[name].metadata.uid if name in mirror.nodes else "",
        )
        reconciler = Reconciler(
            service, mirror, self.store, self._live, runtime.decision_log, witness=told
        )
        runtime.metrics.gauge(
            "dragoman_reconciler_drift",
            "Problems between ledgers and cluster that no repair can help; 0 where not the leader.",
            lambda: reconciler.drifting,
        )

        publisher = NodeResourcePublisher(
            mirror,
            ApiNodes(self._client),
            lambda: service.pod_requests.dialects,
            self._publish,
            monotonic,
            lambda node, text: self._log.warning("publishing.failed", node=node, text=text),
        )

        def drop_pod(what: ObjectKey) -> None:
            service.forget(what.uid)
            mirror.drop_pod(what)

        pods = self._reflector(
            Selection(PODS),
            Pod,
            ClusterCacheHandler(
                "Pod", mirror, mirror.put_pod, drop_pod, _known(runtime, PODS_SEEN)
            ),
        )
        nodes = self._reflector(
            Selection(NODES),
            KubeNode,
            ClusterCacheHandler(
                "Node", mirror, mirror.put_node, mirror.drop_node, _known(runtime, NODES_SEEN)
            ),
        )
        devices = self._reflector(
            Selection(DEVICES, optional=True),
            DeviceObject,
            ClusterCacheHandler(
                "Device",
                mirror,
                mirror.put_device,
                mirror.drop_device,
                _known(runtime, DEVICES_SEEN),
            ),
        )
        for name, reflector in (("pods", pods), ("nodes", nodes), ("devices", devices)):
            runtime.metrics.watch(name, reflector.staleness)
        runtime.metrics.watch("ledgers", lambda: self._ledgers_staleness())
        leftover = UnboundScanner(service.ledgers, mirror, reconciler.look_at)
        runtime.lost, runtime.changed = reconciler.look_at, leftover.changed

        def learn(documents: Documents) -> None:
            service.mark_synced(SETTINGS_SEEN)
            runtime.learn(documents)
            self._log.info("settings.learned", files=[f"{name}/{key}" for name, key in documents])
            for node in mirror.nodes:
                look_at(node)

        election = Election(
            self._client, self._namespace, LEASE, self._identity, report=self._lease_failed
        )
        runtime.metrics.gauge(
            "dragoman_reconciler_leader",
            "1 while this process reconciles.",
            lambda: int(election.leading),
        )
        settings = SchedulerConfig(
            learn, lambda text: self._log.warning("settings.unusable", text=text)
        )
        return [
            *(self._follow_settings(name, settings).run() for name in config_map_names()),
            pods.run(),
            nodes.run(),
            devices.run(),
            self._events.run(),
            self._reconcile(election, runtime, reconciler.run, publisher.run),
            _until_adopted(runtime, mirror),
            leftover.run(),
            self._retrying(service).run(),
        ]

    async def check(self) -> None:
        """See that the cluster knows our records; where it does not answer, the watches will wait.

        Raises:
            SettingsError: it does not.
        """
        try:
            await self._client.get(NODE_LEDGERS.collection(), {"limit": "1"})
        except ClusterError as error:
            if error.status == NOT_FOUND:
                told = "the cluster does not know NodeLedgers; install configs/crd/nodeledgers.yaml"
                raise SettingsError(f"store: 'kubernetes': {told}") from error
            self._log.warning("cluster.unreachable", text=str(error))

    async def close(self) -> None:
        """End the store and the connection."""
        await self.store.close()
        await self._client.close()

    async def _reconcile(
        self, election: Election, runtime: ServiceRuntime, *works: Callable[[], Task]
    ) -> None:
        """Reconcile whenever the Lease is ours, once all that there is has been told."""

        async def work() -> None:
            needed = {PODS_SEEN, NODES_SEEN, DEVICES_SEEN, SETTINGS_SEEN}
            while needed & runtime.service.missing:
                await asyncio.sleep(0.05)
            self._log.info("reconciler.leads", identity=self._identity)
            await asyncio.gather(*(each() for each in works))

        await election.run(work)

    def certificate(
        self, runtime: ServiceRuntime, text: CertificateText, managed: Managed
    ) -> Sequence[Task]:
        """Serve the certificate that the Secret has; not ready before there is one."""
        # Here: what makes certificates takes 8 MiB, and a sidecar has no use for it.
        from adapters.sidecar.certificates.secret import ServedCertificate
        from adapters.sidecar.certificates.tasks import tasks

        runtime.service.mark_unsynced(CERTIFICATE)
        served = ServedCertificate(text, _known(runtime, CERTIFICATE), self._tell_certificate)
        runtime.metrics.gauge(
            "dragoman_certificate_end_timestamp_seconds",
            "Until when the serving certificate is valid; 0 while there is none.",
            lambda: served.ends,
        )
        return tasks(
            self._client,
            self._namespace,
            self._identity,
            managed,
            served,
            self._tell_certificate,
            lambda error: self._tell_certificate("certificate.failed", str(error)),
        )

    def _tell_certificate(self, event: str, text: str) -> None:
        if event not in CERTIFICATE_TROUBLES:
            self._log.info(event, text=text)
        elif text != self._certificate_problem:
            self._certificate_problem = text
            self._log.warning(event, text=text)

    def _lease_failed(self, error: ClusterError) -> None:
        """Without the Lease nobody describes nodes: such as where its namespace is not there."""
        text = str(error)
        if text != self._lease_problem:
            self._lease_problem = text
            self._log.warning("lease.failed", namespace=self._namespace, text=text)

    def _retrying(self, service: Service) -> PodRequeuer:
        async def wake(pod: Pod, turn: str) -> None:
            await self._live.annotate(pod_ref(pod), {RETRIED_AT: turn})

        def failed(pod: Pod, error: OSError) -> bool:
            self._log.info("retry.failed", pod=full_name(pod), text=str(error))
            return not isinstance(error, ClusterError) or error.status not in (NOT_FOUND, CONFLICT)

        return PodRequeuer(service, wake, failed)

    def _reflector(self, selection: Selection, kind: type[Any], sink: Any) -> "Reflector[Any]":
        def told(error: ClusterError) -> None:
            self._log.warning("watch.failed", kind=selection.resource.plural, text=str(error))

        return Reflector(self._client, selection, kind, sink, report=told)

    def _follow_settings(self, name: str, settings: SchedulerConfig) -> "Reflector[Any]":
        chosen = Selection(CONFIG_MAPS, fields=f"metadata.name={name}")
        return self._reflector(chosen, ConfigMap, SchedulerConfigHandler(name, settings))

    def _follow_ledgers(self, sink: LedgerSink) -> Coroutine[object, object, None]:
        told = self._agents.tee(sink)
        reflector = self._reflector(Selection(NODE_LEDGERS), LedgerObject, told)
        self._ledgers_staleness = reflector.staleness
        return reflector.run()


def _known(runtime: ServiceRuntime, what: str) -> Callable[[], None]:
    return lambda: runtime.service.mark_synced(what)


async def _until_adopted(runtime: ServiceRuntime, mirror: ClusterCache) -> None:
    """Nothing is decided before every bound pod is in the ledger of its node."""
    while runtime.service.missing != {ADOPTED} or unadopted(runtime.service, mirror):
        await asyncio.sleep(0.1)
    runtime.service.mark_synced(ADOPTED)
