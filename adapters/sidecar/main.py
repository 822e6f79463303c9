"""The composition root: puts the service together, serves it, and ends it in order."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from adapters.dialects.dialect import DialectError, Documents
from adapters.sidecar.certificates.tls_context import (
    CertificateFiles,
    CertificateText,
    ServingCertificate,
    serving,
)
from adapters.sidecar.observe.decision_log import Logger, logger
from adapters.sidecar.runtime import Cluster, ServiceRuntime, Tasks
from adapters.sidecar.settings import UNIX, Settings, SettingsError, read
from adapters.sidecar.standalone import cluster as local
from adapters.sidecar.standalone.seed import StaticInventory, seed
from adapters.sidecar.web import server
from adapters.sidecar.web.app import Route
from adapters.stores.memory import MemoryStore
from adapters.stores.sqlite import SqliteStore
from adapters.stores.store import Store
from adapters.wire.ledger import LedgerRecordError

POLL = 1.0
"""Seconds between two looks at files that may change."""


Task = Coroutine[Any, Any, Any]


class StartError(RuntimeError):
    """The service cannot start; the text says why."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How the service is started.

    Attributes:
        config: the settings file; None for the defaults.
        overrides: settings that win over file and environment, by the names of variables.
        given: the inventory, where there is no cluster.
        documents: the schedulers' own settings files.
        announce: called with the address once it answers.
    """

    config: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    given: StaticInventory = field(default_factory=StaticInventory)
    documents: Documents = field(default_factory=dict)
    announce: Callable[[str], None] = lambda _: None

    def settings(self) -> Settings:
        """The settings as they are now.

        Raises:
            SettingsError: a value cannot be meant.
        """
        return read(self.config, {**os.environ, **self.overrides})


def serve(wish: StartOptions) -> None:
    """Serve until a signal says stop.

    Raises:
        StartError: it cannot start, or cannot go on.
    """
    sys.setswitchinterval(0.0005)
    try:
        settings = wish.settings()
        log = logger(settings.log.level, settings.log.format)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(wish, settings, log))
    except (SettingsError, DialectError, LedgerRecordError, OSError) as error:
        raise StartError(str(error)) from error


async def _serve(wish: StartOptions, settings: Settings, log: Logger) -> None:
    async with AsyncExitStack() as stack:
        ports = _ports(settings)
        for port in ports:
            stack.callback(port.listener.close)
        shown = [port.certificate for port in ports if port.certificate is not None]
        runtime, routes, work = await _composed(wish, settings, log, stack, shown)
        app = runtime.app(routes)
        tasks = Tasks(log)
        stack.push_async_callback(tasks.stop)
        stack.callback(runtime.service.committer.close)

        def started(address: str) -> None:
            log.info("service.started", address=address, store=settings.store)
            wish.announce(address)

        servers = [
            server.server(app, port.certificate, partial(started, port.address)) for port in ports
        ]

        def stop() -> None:
            for one in servers:
                one.should_exit = True

        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, stop)
        for task in (*work, runtime.follow(), runtime.tick(), _follow_policy(wish, runtime, log)):
            tasks.start(task, stop)
        if settings.grpc != "off":
            for task in await _grpc(settings, runtime, stack, log):
                tasks.start(task, stop)
        for each in shown:
            if isinstance(each, CertificateFiles):
                tasks.start(server.renew(each, POLL, _unusable(log)), stop)
        await asyncio.gather(
            *(one.serve(sockets=[port.listener]) for one, port in zip(servers, ports, strict=True))
        )
        log.info("service.stopped")


async def _grpc(
    settings: Settings, runtime: ServiceRuntime, stack: AsyncExitStack, log: Logger
) -> Sequence[Task]:
    """Answer over gRPC as well; what must run beside it.

    Raises:
        OSError, SettingsError: the port that is set cannot be had.
    """
    try:
        from adapters.sidecar.grpc import credentials  # slow to import, and an optional extra
        from adapters.sidecar.grpc import server as port
    except ModuleNotFoundError as missing:
        text = f"{missing.name} is not installed: pip install 'dragoman[grpc]', or set grpc: off"
        if settings.grpc != "auto":
            raise SettingsError(f"grpc: {settings.grpc!r}: {text}") from missing
        log.info("grpc.off", text=text)
        return ()
    tls = settings.grpc_tls
    proof = None if tls is None else credentials.credentials(tls, _unusable(log))
    listen = settings.grpc
    try:
        if listen == "auto":
            listen = f"{UNIX}{port.default_socket(os.environ)}"
        made = port.GrpcServer(runtime.service, listen, runtime.decision_log.failed, proof)
    except OSError as error:
        if settings.grpc != "auto":
            raise
        log.info("grpc.off", text=f"{error}; set grpc to unix:PATH, or to off")
        return ()
    await made.start()
    stack.push_async_callback(made.stop)
    log.info("grpc.started", address=listen)
    return (made.run(),)


@dataclass(frozen=True, slots=True)
class Port:
    """Where the service answers.

    Attributes:
        listener: the socket.
        certificate: for TLS; None in the clear.
    """

    listener: socket.socket
    certificate: ServingCertificate | None

    @property
    def address(self) -> str:
        """As a URL."""
        return server.address(self.listener, self.certificate)


def _ports(settings: Settings) -> list[Port]:
    if settings.tls is None:
        return [Port(server.listener(settings.listen), None)]
    certificate = serving(settings.tls)
    if settings.tls.listen is None:
        return [Port(server.listener(settings.listen), certificate)]
    clear = Port(server.listener(settings.listen), None)
    return [clear, Port(server.listener(settings.tls.listen), certificate)]


async def _composed(
    wish: StartOptions,
    settings: Settings,
    log: Logger,
    stack: AsyncExitStack,
    shown: Sequence[ServingCertificate],
) -> tuple[ServiceRuntime, Mapping[tuple[str, str], Route], Sequence[Task]]:
    """The service, the routes that only this composition has, and what must run beside it."""
    if settings.store == "kubernetes":
        from adapters.sidecar.in_cluster.tasks import InCluster

        there = InCluster(settings, log)
        stack.push_async_callback(there.close)
        await there.check()
        runtime = ServiceRuntime(settings, wish.documents, there.store, there.cluster(), log)
        work = there.tasks(runtime)
        for each in shown:
            if isinstance(each, CertificateText) and settings.tls and settings.tls.managed:
                work += there.certificate(runtime, each, settings.tls.managed)
        return runtime, {}, work
    store = open_store(settings.store)
    stack.push_async_callback(store.close)
    table = local.LocalCluster(wish.given.pods)
    runtime = ServiceRuntime(settings, wish.documents, store, Cluster(table, table, table), log)
    problems = await seed(wish.given, table.pods(), store, runtime.service.pod_requests.dialects)
    for problem in problems:
        log.warning("inventory.problem", text=problem)
    await runtime.load()
    return runtime, local.routes(table, runtime.service), ()


def _unusable(log: Logger) -> Callable[[str], None]:
    return lambda text: log.error("certificate.unusable", text=text)


def open_store(place: str) -> Store:
    """The store that a setting names.

    Raises:
        SettingsError: it cannot be had without a cluster.
    """
    kind, _, path = place.partition(":")
    if kind == "memory":
        return MemoryStore()
    if kind == "sqlite":
        return SqliteStore(Path(path))
    raise SettingsError(
        f"store: {place!r}: must be memory or sqlite:PATH where there is no cluster"
    )


async def _follow_policy(wish: StartOptions, runtime: ServiceRuntime, log: Logger) -> None:
    """Apply the settings file again whenever it changes; what needs a restart is left."""
    seen = _stamp(wish.config)
    while True:
        await asyncio.sleep(POLL)
        now = _stamp(wish.config)
        if now == seen:
            continue
        seen = now
        try:
            runtime.configure(wish.settings())
        except (SettingsError, DialectError) as error:
            log.warning("settings.unusable", text=f"the earlier ones stay: {error}")
        else:
            log.info("settings.applied")


def _stamp(file: Path | None) -> object:
    try:
        return None if file is None else file.stat().st_mtime_ns
    except OSError:
        return None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed: it is faster, and nothing else."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
