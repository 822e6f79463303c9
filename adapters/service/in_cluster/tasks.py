"""The service in a Kubernetes cluster: its store, its ports, and the tasks that feed them."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from time import monotonic
from typing import Any

from adapters.accounting.gang_cache import GangCache
from adapters.cluster.api.client import KubeClient, PlainReader
from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.access import AccessClient
from adapters.cluster.objects.claims import ClaimClient, ShadowClaimClient
from adapters.cluster.objects.events import EventKind, EventRecorder, EventSubject
from adapters.cluster.objects.lease import Election
from adapters.cluster.objects.move_plans import MovePlanClient
from adapters.cluster.objects.nodes import NodeClient, NodeLockClient
from adapters.cluster.objects.pods import PodClient
from adapters.dialects import registry
from adapters.dialects.dialect import Documents
from adapters.dialects.formats.hami_policies import DEVICE_CONFIG
from adapters.service.certificates.tls_context import CertificateText
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.ports import LEDGERS
from adapters.service.decide.service import Service
from adapters.service.in_cluster import ports
from adapters.service.in_cluster.agent_metrics import AgentMetrics, AgentPods
from adapters.service.in_cluster.handlers import ResourceQuotaHandler, SchedulerConfig
from adapters.service.in_cluster.watches import CLAIMS, WATCHED, ClusterLedgerWatch, Sync, Watches
from adapters.service.observe.decision_log import Logger
from adapters.service.reconcile.looks import GangWatch, UnboundScanner
from adapters.service.reconcile.move_coordinator import MoveCoordinator
from adapters.service.reconcile.nodes.controller import Reconciler, unadopted
from adapters.service.reconcile.nodes.node_reader import ClusterEndedPods
from adapters.service.reconcile.nodes.node_resources import NodeResourcePublisher
from adapters.service.reconcile.preemptor import Preemptor
from adapters.service.reconcile.quotas import QuotaReconciler
from adapters.service.reconcile.reporter import ReconcileReporter, RepairReporter
from adapters.service.reconcile.requeue import PodRequeuer
from adapters.service.reconcile.shadows import ShadowPublisher
from adapters.service.runtime import Cluster, ServiceRuntime
from adapters.service.settings.sections import Managed
from adapters.service.settings.settings import Settings
from adapters.service.web.routes import Routes, arbiter
from adapters.stores.kubernetes import KubernetesQuotas, KubernetesStore
from adapters.wire.kube import Pod
from adapters.wire.records.move_plan import API_VERSION, KIND, MovePlanObject

LEASE = "dragoman-reconciler"

Task = Coroutine[Any, Any, Any]


class InCluster:
    """One service in a cluster.

    Attributes:
        store: the ledgers, in NodeLedger objects.
    """

    def __init__(self, settings: Settings, log: Logger) -> None:
        """Read the credentials; send no request yet.

        Raises:
            SettingsError: there are no credentials.
        """
        self._settings = settings
        self._confirm_always = settings.confirm_stop == "always"
        self._log = log
        replica = os.environ.get("POD_UID") or secrets.token_hex(4)
        self._identity = f"{socket.gethostname()}-{replica}"
        self._client = KubeClient(ports.credentials(settings.kubeconfig))
        self._pods = PodClient(self._client)
        self._claims = ClaimClient(self._client)
        self._nodes = NodeClient(self._client)
        self._events = EventRecorder(self._client, self._identity)
        self._cache = ClusterCache(claims_count=settings.dra.claims)
        self._gangs = GangCache()
        self._cache.follow_pods(self._gangs)
        self._watches = Watches(self._client, log)
        self._ledgers = ClusterLedgerWatch(self._watches, self._cache, log)
        self.store = KubernetesStore(self._client, self._ledgers.follow)
        self._quotas = KubernetesQuotas(self._client)
        self._agent_pods, self._http = AgentPods(), PlainReader()
        self._agents: AgentMetrics | None = None
        if (port := settings.agent_port) is not None:
            read = partial(self._http.get, port=port, path="/metrics")
            self._agents = AgentMetrics(self._agent_pods.address, read)
        self._plans = MovePlanClient(self._client)

    def cluster(self) -> Cluster:
        """Return the ports of the service."""
        locks = ports.ClusterNodeLocks(
            NodeLockClient(self._nodes, self._pods),
            self._cache,
            self._warning("node_lock.release_failed"),
        )
        # A published dialect has no device plugin on the nodes that could release the lock.
        published = filter(None, map(registry.named, self._settings.publish))
        is_locked = self._settings.node_lock != "never" and not any(
            info.uses_node_lock for info in published
        )
        authorize = self._settings.web.authorize
        pods = ports.ClusterPods(self._pods, self._cache)
        return Cluster(
            binder=pods,
            pods=pods,
            events=ports.ClusterEvents(self._events),
            locks=locks if is_locked else None,
            budgets=self._pods.budgets,
            quotas=self._quotas,
            unbound=self._cache.unbound,
            objects=ports.ClusterView(self._cache),
            agents=None if self._agents is None else self._agents.reports,
            gangs=self._gangs,
            ended=ClusterEndedPods(
                self._cache, self._pods, self._claims, confirm_always=self._confirm_always
            ),
            plans=self._plans.list if self._settings.moves.enabled else None,
            review=AccessClient(self._client).may_list_pods if authorize else None,
        )

    def tasks(self, runtime: ServiceRuntime) -> list[Task]:
        """Return the tasks that feed a service; it is not ready before all watches have synced."""
        service = runtime.service
        awaited = WATCHED | CLAIMS if self._settings.dra.claims else WATCHED
        for sync in (*awaited, Sync.ADOPTION):
            service.readiness.mark_unsynced(sync)

        ports.follow_descriptions(self._cache, service)
        watches = self._watches.cluster(self._cache, service)
        host_quotas, watches["resourcequotas"] = self._watches.resource_quotas(service)
        if self._settings.dra.claims:
            watches |= self._watches.claims(self._cache.claims, service)
        renamed = {DEVICE_CONFIG[0]: self._settings.hami_device_config}
        watches |= self._watches.gangs(self._gangs, service)
        config = SchedulerConfig(
            self._settings.scheduler_namespaces,
            partial(self._apply_scheduler_config, runtime, host_quotas),
            lambda problem: self._log.warning("scheduler_config.invalid", text=problem),
            renamed,
        )
        waker = ports.PodWaker(self._pods, self._log)
        requeuer = PodRequeuer(service, waker.wake, waker.failed, self._cache.unbound)
        runtime.staleness = self._ledgers.staleness
        runtime.metrics.watch("ledgers", self._ledgers.staleness)
        for name, watch in watches.items():
            runtime.metrics.watch(name, watch.staleness)

        async def until_adopted() -> None:
            """Make the service ready when the ledgers have all bound pods of their nodes."""
            ready = service.readiness
            while ready.awaited != {Sync.ADOPTION} or unadopted(service, self._cache):
                await asyncio.sleep(0.1)
            ready.mark_synced(Sync.ADOPTION)

        tasks = [
            *(each.run() for each in self._watches.scheduler_config(config, renamed)),
            *(each.run() for each in watches.values()),
        ]
        if self._agents is not None:
            tasks.append(self._watches.agents(self._agent_pods, self._settings.namespace).run())
        for kind in self._watches.kinds:
            runtime.metrics.unreadable(kind, partial(self._watches.unreadable, kind))
        return [
            *tasks,
            self._events.run(),
            *self._leading(runtime),
            until_adopted(),
            requeuer.run(),
            *([self._preemptor(runtime).run()] if self._settings.preemption.enabled else ()),
        ]

    def routes(self, service: Service) -> Routes:
        """Return the HTTP routes that only a service in a cluster has."""
        if not self._settings.dra.arbiter:
            return {}
        return arbiter(service, self._cache.claims, self._claims)

    def certificate(
        self, runtime: ServiceRuntime, text: CertificateText, managed: Managed
    ) -> Sequence[Task]:
        """Return the tasks of a managed certificate; the service is not ready before it has one."""
        # Imported here: cryptography takes 8 MiB, and a sidecar makes no certificate.
        from adapters.service.in_cluster.certificate import certificate_tasks

        return certificate_tasks(
            runtime,
            self._client,
            self._settings.namespace,
            self._identity,
            text,
            managed,
            self._log,
        )

    async def check(self) -> None:
        """Check that the API server serves what this service needs.

        Raises:
            SettingsError: the custom resource definition is not installed.
        """
        await ports.check_served(self._client, self._log, claims=self._settings.dra.claims)

    async def close(self) -> None:
        """Close the store and the connections."""
        if self._agents is not None:
            await self._agents.close()
        await self._http.close()
        await self.store.close()
        await self._client.close()

    def _leading(self, runtime: ServiceRuntime) -> list[Task]:
        """Return the election, and what the leader runs or each replica does for it."""
        service, metrics = runtime.service, runtime.metrics
        reporter = ReconcileReporter(
            metrics.registry, self._events, self._log, self._cache.node_uid
        )
        reconciler = Reconciler(
            service,
            self._cache,
            self.store,
            self._pods,
            runtime.decision_log,
            reporter=reporter,
            confirm_always=self._confirm_always,
            live_claims=self._claims if self._settings.dra.claims else None,
        )
        self._cache.subscribe(reconciler.look_at)
        self._cache.subscribe_to_ends(reconciler.look_at_once)
        runtime.ledger_deleted.subscribe(reconciler.look_at)
        unbound = UnboundScanner(service.ledgers, self._cache, reconciler.look_at)
        runtime.ledger_written.subscribe(unbound.changed)
        election = self._election()
        runtime.leads, runtime.led_for = lambda: election.leading, election.led_for
        metrics.gauge(
            "dragoman_reconciler_drift",
            "Problems between ledgers and cluster that the reconciler cannot repair;"
            " 0 where it does not lead.",
            lambda: reconciler.drifting,
        )
        metrics.gauge(
            "dragoman_reconciler_leader",
            "1 while this process is the leader, which reconciles.",
            lambda: int(election.leading),
        )
        controllers = [reconciler.run, *self._controllers(runtime, reporter)]
        lead = partial(self._lead, service, election, reconciler, controllers)
        return [election.run(lead), unbound.run()]

    def _controllers(
        self, runtime: ServiceRuntime, reporter: RepairReporter
    ) -> Sequence[Callable[[], Task]]:
        """Return what the leader runs beside the reconciler, with the events that wake it."""
        service, changed = runtime.service, self._cache.subscribe
        publisher = NodeResourcePublisher(
            self._cache,
            self._nodes.publish,
            lambda: service.pod_requests.dialects,
            self._settings.publish,
            monotonic,
            self._warning("node_resources.write_failed"),
        )
        changed(publisher.look_at)

        def requests_share(pod: Pod) -> bool:
            return any(dialect.matches(pod) for dialect in service.pod_requests.dialects)

        gangs = GangWatch(self._gangs, requests_share, reporter)
        runtime.metrics.gauge(
            "dragoman_gangs_bound_in_part",
            "Gangs of which fewer pods are bound than are bound together; 0 where it does not"
            " lead.",
            lambda: gangs.count,
        )
        quotas = QuotaReconciler(service, self._quotas)

        def report(plan: MovePlanObject, reason: str, text: str, *, warning: bool) -> None:
            metadata = plan.metadata
            subject = EventSubject(KIND, metadata.name, uid=metadata.uid, api_version=API_VERSION)
            kind: EventKind = "Warning" if warning else "Normal"
            self._events.emit(subject, reason, text, kind=kind, action="Moving")

        def failed(text: str) -> None:
            self._log.warning("moves.not_listed", text=text)

        moves = MoveCoordinator(
            service,
            self._plans,
            self._cache.controlled_by,
            report,
            failed,
            enabled=self._settings.moves.enabled,
        )
        running = [publisher.run, quotas.run, gangs.run, moves.run]
        if self._settings.dra.shadows:
            namespace = self._settings.namespace
            shadows = ShadowPublisher(
                service.ledgers,
                self._cache.claims,
                ShadowClaimClient(self._client, namespace),
                namespace,
                monotonic,
                self._warning("shadow_claims.write_failed"),
            )
            for subscribe in (
                changed,
                runtime.ledger_written.subscribe,
                runtime.ledger_deleted.subscribe,
            ):
                subscribe(shadows.look_at)
            running.append(shadows.run)
        return running

    def _preemptor(self, runtime: ServiceRuntime) -> Preemptor:
        made = Preemptor(runtime.service, self._pods, self._cache.unbound)
        runtime.ledger_written.subscribe(made.changed)
        self._cache.subscribe_to_ends(made.changed)
        runtime.metrics.gauge(
            "dragoman_preemptions_waiting",
            "Pods for which this process evicted others and that have no cards yet.",
            lambda: made.waiting,
        )
        return made

    def _election(self) -> Election:
        last = ""

        def failed(error: ClusterError) -> None:
            """Log each problem once: no replica reconciles while there is one."""
            nonlocal last
            text = str(error)
            if text != last:
                last = text
                self._log.warning("lease.failed", namespace=self._settings.namespace, text=text)

        return Election(
            self._client, self._settings.namespace, LEASE, self._identity, report=failed
        )

    async def _lead(
        self,
        service: Service,
        election: Election,
        reconciler: Reconciler,
        controllers: Sequence[Callable[[], Task]],
    ) -> None:
        """Run the leader's controllers, after the first list of each watch.

        The ledgers bring the agents' reports, without which a pod that has no cards yet counts as
        one whose cards are unknown.
        """
        while (WATCHED | CLAIMS | {LEDGERS}) & service.readiness.awaited:
            await asyncio.sleep(0.05)
        self._log.info("reconciler.leads", identity=self._identity)
        if election.took_over:
            reconciler.take_over()
        await asyncio.gather(*(controller() for controller in controllers))

    def _apply_scheduler_config(
        self, runtime: ServiceRuntime, host_quotas: ResourceQuotaHandler, documents: Documents
    ) -> None:
        """Read pods and nodes by the schedulers' settings from now on.

        Raises:
            DialectError: a document is invalid; the service keeps the earlier ones.
        """
        runtime.service.readiness.mark_synced(Sync.SCHEDULER_CONFIG)
        runtime.learn(documents)
        host_quotas.read_again()
        files = [f"{name}/{key}" for name, key in documents]
        self._log.info("scheduler_config.applied", files=files)
        self._cache.notify_all()

    def _warning(self, event: str) -> Callable[[str, str], None]:
        """Return a function that logs an event of a node, with a sentence about it."""
        return lambda node, text: self._log.warning(event, node=node, text=text)
