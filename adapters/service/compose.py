"""The two compositions of the service: in a cluster, and on its own without one."""

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.dialects.dialect import Documents
from adapters.service import standalone
from adapters.service.certificates.tls_context import CertificateText, ServingCertificate
from adapters.service.decide.service import Service
from adapters.service.observe.decision_log import Logger
from adapters.service.reconcile.quotas import QuotaReconciler
from adapters.service.runtime import Cluster, ServiceRuntime
from adapters.service.settings.settings import Settings, SettingsError
from adapters.service.standalone import StaticInventory, seed
from adapters.service.web.app import Route
from adapters.stores.memory import MemoryQuotas, MemoryStore
from adapters.stores.sqlite import SqliteStore
from adapters.stores.store import Store

Task = Coroutine[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Composition:
    """A service with what it needs in its surroundings.

    Attributes:
        runtime: the service.
        routes: HTTP routes that only this composition has.
        tasks: feed the service; it runs them until it stops.
    """

    runtime: ServiceRuntime
    routes: Mapping[tuple[str, str], Route] = field(default_factory=dict)
    tasks: Sequence[Task] = ()


async def in_cluster(
    settings: Settings,
    documents: Documents,
    certificates: Sequence[ServingCertificate],
    log: Logger,
    stack: AsyncExitStack,
) -> Composition:
    """Compose the service of a Kubernetes cluster.

    Args:
        settings: with ``store: kubernetes``.
        documents: the schedulers' own settings files.
        certificates: of the HTTP ports; the service makes those that are managed.
        log: of this process.
        stack: closes what is opened here.

    Raises:
        SettingsError: there are no credentials, or the custom resource definition is not installed.
    """
    from adapters.service.in_cluster.tasks import InCluster  # its client is slow to import

    cluster = InCluster(settings, log)
    stack.push_async_callback(cluster.close)
    await cluster.check()
    runtime = ServiceRuntime(settings, documents, cluster.store, cluster.cluster(), log)
    tasks = cluster.tasks(runtime)
    for certificate in certificates:
        if isinstance(certificate, CertificateText) and settings.tls and settings.tls.managed:
            tasks += cluster.certificate(runtime, certificate, settings.tls.managed)
    return Composition(runtime, cluster.routes(runtime.service), tasks)


async def without_cluster(
    settings: Settings,
    documents: Documents,
    inventory: StaticInventory,
    log: Logger,
    stack: AsyncExitStack,
) -> Composition:
    """Compose a service whose nodes and pods are given; it binds pods in its own table.

    Args:
        settings: with a store in memory or in a file.
        documents: the schedulers' own settings files.
        inventory: the nodes and pods.
        log: of this process.
        stack: closes what is opened here.

    Raises:
        OSError: the store cannot be opened or read.
        SettingsError: the store needs a cluster.
    """
    store = open_store(settings.store)
    stack.push_async_callback(store.close)
    table = standalone.LocalCluster(
        inventory.pods, inventory.nodes, inventory.claims, inventory.groups
    )
    quotas = MemoryQuotas(tuple(inventory.quotas))
    cluster = Cluster(
        binder=table,
        pods=table,
        events=table,
        quotas=quotas,
        unbound=table.unbound,
        objects=table,
        gangs=table.gangs,
    )
    runtime = ServiceRuntime(settings, documents, store, cluster, log)
    for problem in inventory.problems:
        log.warning("inventory.problem", text=problem)
    await seed(inventory.ledgers, store)
    await runtime.load()
    tasks = await _limited(runtime.service, quotas)
    return Composition(runtime, standalone.routes(table, runtime.service), tasks)


async def _limited(service: Service, quotas: MemoryQuotas) -> Sequence[Task]:
    """Count what pods have of quotas; the tasks that go on with it, none without a quota."""
    if not quotas.all():
        return ()
    for each in quotas.all():
        service.quotas.restrict(each.quota.namespace, each.quota.host_limits)
        service.quotas.put(each)
    reconciler = QuotaReconciler(service, quotas)
    await reconciler.round()
    return (reconciler.run(),)


def open_store(setting: str) -> Store:
    """Return the store that ``store`` in the settings names.

    Raises:
        SettingsError: it needs a cluster.
    """
    kind, _, path = setting.partition(":")
    if kind == "memory":
        return MemoryStore()
    if kind == "sqlite":
        return SqliteStore(Path(path))
    raise SettingsError(
        f"store: {setting!r}: must be memory or sqlite:PATH where there is no cluster"
    )
