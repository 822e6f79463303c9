"""An HTTP server for ``/metrics``, ``/livez`` and ``/readyz``."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from adapters.agent.log import log_event
from adapters.agent.metrics.exposition import CONTENT_TYPE, Family, render

REQUEST_TIMEOUT = 5.0
"""Seconds for a request and its answer."""

CONNECTIONS = 64
"""Open connections; beyond it, the one whose request has not arrived for longest is closed."""

_MAX_HEAD = 8 << 10


@dataclass(slots=True)
class MetricsServer:
    """The server.

    Attributes:
        families: collects the metrics; called on another thread, by one request at a time.
        ready: whether the runtime calls the agent.
    """

    families: Callable[[], list[Family]]
    ready: Callable[[], bool]
    _open: dict[asyncio.StreamWriter, None] = field(default_factory=dict)
    _incomplete: dict[asyncio.StreamWriter, None] = field(default_factory=dict)
    _collecting: "asyncio.Task[list[Family]] | None" = None

    async def start(self, listen: str) -> asyncio.Server:
        """Serve until the result is closed.

        Args:
            listen: ``HOST:PORT``; without a host, on all addresses.

        Raises:
            OSError: the address is not usable.
        """
        host, _, port = listen.rpartition(":")
        return await asyncio.start_server(
            self._serve, host.strip("[]") or None, int(port), limit=_MAX_HEAD
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS:
            # The one whose request has not arrived for longest, else the oldest one.
            oldest = next(iter(self._incomplete or self._open))
            self._forget(oldest)
            oldest.transport.abort()
        self._open[writer] = self._incomplete[writer] = None
        try:
            writer.transport.set_write_buffer_limits(0)  # drain then waits for the last byte
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                self._incomplete.pop(writer, None)
                writer.write(await self._answer(head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass
        except Exception as error:
            log_event("metrics.failed", reason=repr(error))
        finally:
            self._forget(writer)
            writer.transport.abort()

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._incomplete.pop(writer, None)
        self._open.pop(writer, None)

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        if method != b"GET":
            return _response("405 Method Not Allowed", "only GET is supported\n")
        match path:
            case b"/metrics":
                # Requests at the same time share what is collected.
                if self._collecting is None or self._collecting.done():
                    self._collecting = asyncio.create_task(asyncio.to_thread(self.families))
                families = await asyncio.shield(self._collecting)
                return _response("200 OK", render(families), CONTENT_TYPE)
            case b"/livez":
                return _response("200 OK", "ok\n")
            case b"/readyz":
                if self.ready():
                    return _response("200 OK", "ok\n")
                return _response(
                    "503 Service Unavailable",
                    "waiting for the runtime: it does not call the agent\n",
                )
            case _:
                return _response("404 Not Found", "not found: try /metrics\n")


def _response(status: str, text: str, kind: str = "text/plain; charset=utf-8") -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
