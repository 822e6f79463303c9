"""The composition root: composes the service, serves it, and stops it in order."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from adapters.dialects.dialect import DialectError, Documents
from adapters.service import standalone
from adapters.service.certificates.tls_context import (
    CertificateFiles,
    CertificateText,
    ServingCertificate,
    serving,
)
from adapters.service.decide.ports import RESTART
from adapters.service.observe.decision_log import Logger, logger
from adapters.service.reconcile.quotas import QuotaReconciler
from adapters.service.runtime import Cluster, ServiceRuntime
from adapters.service.settings.settings import UNIX, Settings, SettingsError, read
from adapters.service.standalone import StaticInventory, seed
from adapters.service.web import server
from adapters.service.web.app import Route
from adapters.service.web.routes import WEBHOOK_PATHS
from adapters.stores.memory import MemoryQuotas, MemoryStore
from adapters.stores.sqlite import SqliteStore
from adapters.stores.store import Store
from adapters.wire.records.ledger import LedgerRecordError

Task = Coroutine[Any, Any, Any]

POLL = 1.0
"""Seconds between two looks at files that may change."""

OPEN_FILES = 1 << 18
"""Open files for two ports with the most connections that can be set."""


@dataclass(slots=True)
class Tasks:
    """Tasks that run until they are stopped; the error of one is logged and stops the service."""

    log: Logger
    stop_service: Callable[[], None]
    running: list["asyncio.Task[Any]"] = field(default_factory=list)
    failed: bool = False

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task."""

        def ended(task: "asyncio.Task[Any]") -> None:
            if not task.cancelled() and task.exception() is not None:
                self.log.error("task.failed", exc_info=task.exception())
                self.failed = True
                self.stop_service()

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        self.running.append(task)

    async def stop(self) -> None:
        """Cancel all tasks and wait for their end."""
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Composition:
    """A service with HTTP routes that only this composition has, and tasks that feed it."""

    runtime: ServiceRuntime
    routes: Mapping[tuple[str, str], Route] = field(default_factory=dict)
    tasks: Sequence[Task] = ()


async def in_cluster(
    settings: Settings,
    documents: Documents,
    certificate: ServingCertificate | None,
    log: Logger,
    stack: AsyncExitStack,
) -> Composition:
    """Compose the service of a Kubernetes cluster.

    It makes a certificate that is managed. The stack closes what is opened here.

    Raises:
        SettingsError: there are no credentials, or the custom resource definition is not installed.
    """
    from adapters.service.in_cluster.tasks import InCluster  # its client is slow to import

    cluster = InCluster(settings, log)
    stack.push_async_callback(cluster.close)
    await cluster.check()
    runtime = ServiceRuntime(settings, documents, cluster.store, cluster.cluster(), log)
    tasks = cluster.tasks(runtime)
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

    The stack closes what is opened here.

    Raises:
        OSError: the store cannot be opened or read.
        SettingsError: the store needs a cluster.
    """
    store = open_store(settings.store)
    stack.push_async_callback(store.close)
    table = standalone.LocalCluster(
        inventory.pods,
        inventory.nodes,
        inventory.groups,
        inventory.claims,
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
    routes = standalone.routes(table, runtime.service)
    if not quotas.all():
        return Composition(runtime, routes)
    for each in quotas.all():
        runtime.service.quotas.restrict(each.quota.namespace, each.quota.host_limits)
        runtime.service.quotas.put(each)
    reconciler = QuotaReconciler(runtime.service, quotas)
    await reconciler.round()
    return Composition(runtime, routes, (reconciler.run(),))


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


class StartError(RuntimeError):
    """The service cannot start; the text says why."""


class TaskFailedError(RuntimeError):
    """A task of the service failed, so that the service stopped."""

    def __init__(self) -> None:
        """Refer to the log, which has the task's own error."""
        super().__init__("a task failed, and the service stopped: see task.failed in its log")


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How the service is started.

    Attributes:
        config: the settings file; None for the defaults.
        overrides: settings that win over file and environment, by the names of variables.
        announce: called with the URL of each port once it accepts requests.
    """

    config: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    inventory: StaticInventory = field(default_factory=StaticInventory)
    documents: Documents = field(default_factory=dict)
    announce: Callable[[str], None] = lambda _: None

    def settings(self) -> Settings:
        """Read the settings as they are now.

        Raises:
            SettingsError: a setting is invalid.
        """
        return read(self.config, {**os.environ, **self.overrides})


def serve(options: StartOptions) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        StartError: the service cannot start, or cannot go on.
        TaskFailedError: a task failed.
    """
    sys.setswitchinterval(0.0005)
    # Each connection is an open file: as many as there may be.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        settings = options.settings()
        log = logger(settings.log.level, settings.log.format)
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
        with suppress(ImportError):  # uvloop is faster, and does nothing else
            import uvloop

            loop_factory = uvloop.new_event_loop
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(_serve(options, settings, log))
    except (SettingsError, DialectError, LedgerRecordError, OSError) as error:
        raise StartError(str(error)) from error


async def _serve(options: StartOptions, settings: Settings, log: Logger) -> None:
    async with AsyncExitStack() as stack:
        tls = settings.tls
        certificate = None if tls is None else serving(tls)
        # A port of its own for TLS serves webhooks only: it is open to every pod.
        secure = None if tls is None else tls.listen
        ports = [(server.listener(settings.listen), None if secure else certificate)]
        stack.callback(ports[0][0].close)
        if secure:
            ports.append((server.listener(secure), certificate))
            stack.callback(ports[1][0].close)
        if settings.store == "kubernetes":
            composition = await in_cluster(settings, options.documents, certificate, log, stack)
        else:
            composition = await without_cluster(
                settings, options.documents, options.inventory, log, stack
            )
        runtime = composition.runtime
        stack.callback(runtime.service.committer.close)
        app = runtime.app(composition.routes)

        def started(address: str) -> None:
            log.info("service.started", address=address, store=settings.store)
            options.announce(address)

        servers = [
            server.server(
                app.restricted_to(WEBHOOK_PATHS) if number else app,
                proof,
                partial(started, server.address(listener, proof)),
                settings.limits,
            )
            for number, (listener, proof) in enumerate(ports)
        ]

        def stop() -> None:
            for each in servers:
                each.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop)

        def fail() -> None:
            runtime.service.readiness.mark_unsynced(RESTART)
            stop()

        tasks = Tasks(log, fail)
        stack.push_async_callback(tasks.stop)
        for task in (
            *composition.tasks,
            runtime.follow(),
            runtime.tick(),
            runtime.answer_waiting(),
            _follow_settings(options, runtime, log),
        ):
            tasks.start(task)
        for task in await _start_grpc(settings, runtime, stack, log):
            tasks.start(task)
        if isinstance(certificate, CertificateFiles):
            tasks.start(server.renew(certificate, POLL, _unusable(log)))

        await asyncio.gather(
            *(
                each.serve(sockets=[listener])
                for each, (listener, _) in zip(servers, ports, strict=True)
            )
        )
        log.info("service.stopped")
    if tasks.failed:
        raise TaskFailedError


async def _start_grpc(
    settings: Settings, runtime: ServiceRuntime, stack: AsyncExitStack, log: Logger
) -> Sequence[Task]:
    """Start the gRPC server, if there is to be one; return the tasks that it needs.

    Raises:
        OSError, SettingsError: the port in the settings cannot be opened.
    """
    if settings.grpc == "off":
        return ()
    try:
        from adapters.service.grpc import server as grpc_server  # slow, and an optional extra
    except ModuleNotFoundError as missing:
        text = f"{missing.name} is not installed: pip install 'dragoman[grpc]', or set grpc: off"
        if settings.grpc != "auto":
            raise SettingsError(f"grpc: {settings.grpc!r}: {text}") from missing
        log.info("grpc.off", text=text)
        return ()
    tls = settings.grpc_tls
    proof = None if tls is None else grpc_server.credentials(tls, _unusable(log))
    listen = settings.grpc
    try:
        if listen == "auto":
            listen = f"{UNIX}{grpc_server.default_socket(os.environ)}"
        started = grpc_server.GrpcServer(
            runtime.service, listen, runtime.decision_log.failed, proof
        )
    except OSError as error:
        if settings.grpc != "auto":
            raise
        log.info("grpc.off", text=f"{error}; set grpc to unix:PATH, or to off")
        return ()
    await started.start()
    stack.push_async_callback(started.stop)
    log.info("grpc.started", address=listen)
    return (started.run(),)


def _unusable(log: Logger) -> Callable[[str], None]:
    return lambda text: log.error("certificate.unusable", text=text)


async def _follow_settings(options: StartOptions, runtime: ServiceRuntime, log: Logger) -> None:
    """Apply the settings file when it changes; most settings take effect at a restart only."""
    applied = _modified(options.config)
    while True:
        await asyncio.sleep(POLL)
        now = _modified(options.config)
        if now == applied:
            continue
        applied = now
        try:
            runtime.configure(options.settings())
        except (SettingsError, DialectError) as error:
            log.warning("settings.invalid", text=f"the earlier settings stay in use: {error}")
        else:
            log.info("settings.applied")


def _modified(file: Path | None) -> int | None:
    """Return when a file was written, in nanoseconds; None without one."""
    try:
        return None if file is None else file.stat().st_mtime_ns
    except OSError:
        return None
