"""The port: uvicorn with a raw ASGI application, one process, one loop.

Connections are accepted here, before TLS, so that no limit depends on the handshake.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.server import ServerState

from adapters.service.certificates.tls_context import CertificateFiles, ServingCertificate
from adapters.service.settings.sections import LimitSettings
from adapters.service.web.app import App
from adapters.service.web.limits import Connections
from adapters.service.web.protocol import LimitedProtocol, Refused

KEEP_ALIVE = 120
"""Seconds for which an idle connection is kept open: longer than by clients, which reuse theirs."""

DEFAULT_LIMITS = LimitSettings()

SHUTDOWN_GRACE = 10
"""Seconds that calls in progress may take when the service stops."""


_REMEDIES = {
    errno.EADDRINUSE: "; stop the process that has it, or listen on another port",
    errno.EADDRNOTAVAIL: "; listen on an address of this machine, such as 127.0.0.1 or 0.0.0.0",
    errno.EACCES: "; listen on a port from 1024 on",
}

CHECK = 0.5
"""Seconds between two checks for phases that take too long."""

RETRY = 0.1
"""Seconds until the next attempt after the system had no file for a connection."""

CLOSE = 2.0
"""Seconds for the end of TLS on a connection that is closed."""


class Acceptor:
    """The connections of one port."""

    def __init__(self, limits: LimitSettings, refused: Refused) -> None:
        self._limits = limits
        self._refused = refused
        self._connections = Connections(limits, lambda: refused("evicted"))
        self._opening: set[asyncio.Task[None]] = set()

    async def run(
        self, listener: socket.socket, config: uvicorn.Config, state: ServerState
    ) -> None:
        """Accept connections of a bound socket until cancelled."""
        listener.listen(config.backlog)
        listener.settimeout(0)

        async def expire() -> None:
            loop = asyncio.get_running_loop()
            while True:
                await asyncio.sleep(CHECK)
                self._connections.expire(loop.time())

        check = asyncio.create_task(expire())
        try:
            while True:
                await self._accept(listener, config, state)
                # Else the whole backlog is accepted before any of its requests is read.
                await asyncio.sleep(0)
        finally:
            check.cancel()
            for task in self._opening:
                task.cancel()

    async def _accept(
        self, listener: socket.socket, config: uvicorn.Config, state: ServerState
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = await loop.sock_accept(listener)
        except OSError:  # the client is gone, or the process has too many open files
            if not self._connections.evict():
                await asyncio.sleep(RETRY)
            return
        try:
            for_probes = await self._connections.make_room()
        except asyncio.CancelledError:
            accepted.close()
            raise
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol = LimitedProtocol(
            config,
            state,
            accepted,
            self._connections,
            self._refused,
            for_probes=for_probes,
        )
        task = loop.create_task(self._open(accepted, protocol, config.ssl))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(
        self, accepted: socket.socket, protocol: LimitedProtocol, context: ssl.SSLContext | None
    ) -> None:
        """Begin with HTTP, after the TLS handshake if there is one."""
        loop = asyncio.get_running_loop()
        try:
            if context is None:
                await loop.connect_accepted_socket(lambda: protocol, accepted)
                return
            await loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=context,
                ssl_handshake_timeout=self._limits.head_seconds,
                ssl_shutdown_timeout=CLOSE,
            )
        except OSError:  # no TLS, or the client is gone
            self._connections.remove(protocol)


class WebServer(uvicorn.Server):
    """A server that leaves signals to the composition root, and accepts connections itself."""

    def __init__(
        self, config: uvicorn.Config, acceptor: Acceptor, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._acceptor = acceptor
        self._started = started
        self._accepting: list[asyncio.Task[None]] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle no signal: the composition root stops the server and its other tasks."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup([])
        for each in sockets or ():
            accepting = self._acceptor.run(each, self.config, self.server_state)
            self._accepting.append(asyncio.create_task(accepting))
        await asyncio.sleep(0)  # each socket listens from the first step of its task
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no further connection, and let the requests in progress end."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)


def listener(listen: str) -> socket.socket:
    """Return a socket on ``HOST:PORT``.

    Raises:
        OSError: the address is in use, or does not exist.
    """
    named, _, port = listen.rpartition(":")
    host = named.strip("[]") or "0.0.0.0"  # noqa: S104 - the operator left it empty
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, int(port)))
    except OSError as error:
        bound.close()
        remedy = _REMEDIES.get(error.errno or 0, "")
        raise OSError(f"listen: {listen}: {error.strerror}{remedy}") from error
    return bound


def address(listening: socket.socket, certificate: ServingCertificate | None) -> str:
    """Return the URL of a socket."""
    host, port = listening.getsockname()[:2]
    scheme = "https" if certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def server(
    app: App,
    certificate: ServingCertificate | None,
    started: Callable[[], None],
    limits: LimitSettings = DEFAULT_LIMITS,
) -> WebServer:
    """Return a server for an application; ``started`` is called when it listens."""
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=SHUTDOWN_GRACE,
        backlog=2048,
        ssl_context_factory=(lambda *_: certificate.context) if certificate else None,
    )
    return WebServer(config, Acceptor(limits, app.refused), started)


async def renew(certificate: CertificateFiles, every: float, failed: Callable[[str], None]) -> None:
    """Reload the certificate whenever its files change, until cancelled.

    ``every`` is in seconds. ``failed`` is called with a new problem of the files; the earlier
    certificate stays.
    """
    reported = ""
    while True:
        await asyncio.sleep(every)
        try:
            certificate.renew()
            reported = ""
        except ValueError as error:
            if str(error) != reported:
                reported = str(error)
                failed(reported)
