"""Accepts the connections of one port, before TLS, so that no limit depends on the handshake."""

import asyncio
import socket
import ssl

import uvicorn
from uvicorn.server import ServerState

from adapters.service.web.connections import Connections
from adapters.service.web.limits import PortLimits
from adapters.service.web.protocol import LimitedProtocol, Refused

CHECK = 0.5
"""Seconds between two checks for phases that take too long."""

RETRY = 0.1
"""Seconds until the next attempt after the system had no file for a connection."""

CLOSE = 2.0
"""Seconds for the end of TLS on a connection that is closed."""


class Acceptor:
    """The connections of one port."""

    def __init__(self, limits: PortLimits, refused: Refused) -> None:
        """Begin without a connection.

        Args:
            limits: of the port.
            refused: called with the reason of each refusal.
        """
        self._limits = limits
        self._refused = refused
        self._connections = Connections(limits, lambda: refused("evicted"))
        self._opening: set[asyncio.Task[None]] = set()

    async def run(
        self, listener: socket.socket, config: uvicorn.Config, state: ServerState
    ) -> None:
        """Accept until cancelled.

        Args:
            listener: a bound socket.
            config: of the server.
            state: of the server.
        """
        listener.listen(config.backlog)
        listener.settimeout(0)
        check = asyncio.create_task(self._check())
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

    async def _check(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK)
            self._connections.expire(loop.time())
