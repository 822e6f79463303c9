"""An HTTP server for ``/metrics``, ``/livez`` and ``/readyz``."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from adapters.node.log import log_event
from adapters.node.metrics.exposition import CONTENT_TYPE, Family, render

REQUEST_TIMEOUT = 5.0
"""Seconds for a request and its answer."""

_MAX_HEAD = 8 << 10


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """The server.

    Attributes:
        families: collects the metrics; called on another thread.
        ready: whether the runtime calls the agent.
    """

    families: Callable[[], list[Family]]
    ready: Callable[[], bool]

    async def run(self, listen: str) -> None:
        """Serve until cancelled.

        Args:
            listen: ``HOST:PORT``; without a host, on all addresses.

        Raises:
            OSError: the address is not usable.
        """
        host, _, port = listen.rpartition(":")
        server = await asyncio.start_server(
            self._serve, host.strip("[]") or None, int(port), limit=_MAX_HEAD
        )
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass
        except Exception as error:
            log_event("metrics.failed", reason=repr(error))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        if method != b"GET":
            return _response("405 Method Not Allowed", "only GET is supported\n")
        match path:
            case b"/metrics":
                families = await asyncio.to_thread(self.families)
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
