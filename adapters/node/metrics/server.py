"""An HTTP server that can say three things: metrics, alive, ready."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from adapters.node.log import log_event
from adapters.node.metrics.exposition import CONTENT_TYPE, Family, render

PATIENCE = 5.0
"""Seconds that a client may take to ask."""

_LONGEST = 8 << 10


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """The server.

    Attributes:
        families: everything, as it is now; called on another thread.
        ready: whether the agent does its work.
    """

    families: Callable[[], list[Family]]
    ready: Callable[[], bool]

    async def run(self, listen: str) -> None:
        """Serve until cancelled.

        Args:
            listen: ``HOST:PORT``; without a host, on all addresses.

        Raises:
            OSError: the address cannot be listened on.
        """
        host, _, port = listen.rpartition(":")
        server = await asyncio.start_server(
            self._serve, host.strip("[]") or None, int(port), limit=_LONGEST
        )
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass
        except Exception as error:
            log_event("scrape.failed", reason=repr(error))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        if method != b"GET":
            return _response("405 Method Not Allowed", "only GET\n")
        match path:
            case b"/metrics":
                families = await asyncio.to_thread(self.families)
                return _response("200 OK", render(families), CONTENT_TYPE)
            case b"/livez":
                return _response("200 OK", "ok\n")
            case b"/readyz":
                if self.ready():
                    return _response("200 OK", "ok\n")
                return _response("503 Service Unavailable", "the runtime does not ask\n")
            case _:
                return _response("404 Not Found", "try /metrics\n")


def _response(status: str, text: str, kind: str = "text/plain; charset=utf-8") -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
