"""HTTP/1.1 on one connection: uvicorn's protocol, with limits before anything is parsed.

httptools collects a header field, and fields without end, in memory, and joins the parts of one
field again with each part that arrives (httptools 0.8, ``parser/parser.pyx``); uvicorn sets no
bound and no deadline.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

import httptools
import orjson
import uvicorn
from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from adapters.service.web.limits import (
    DROP,
    FIELDS,
    HEAD_BYTES,
    PIPELINED,
    PROBES,
    ConnectionPhase,
    Connections,
)

Refused = Callable[[str], None]
"""Counts a request or connection that was refused, by its reason."""


class RequestRefused(Exception):  # noqa: N818 - a refusal is no error of ours
    """The request exceeds a limit; the text says which."""

    def __init__(self, status: HTTPStatus, reason: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason


class _TooManyPipelined(Exception):  # noqa: N818 - as RequestRefused
    """The requests so far are answered, the last one with ``connection: close``."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection, which its port can drop."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        accepted: socket.socket,
        connections: Connections,
        refused: Refused,
        *,
        for_probes: bool,
    ) -> None:
        """Begin in the phase HEAD.

        ``refused`` is called with the reason of each refusal. ``for_probes``: the port is full, and
        answers health probes only.
        """
        super().__init__(config, server_state, {})
        if for_probes:
            self.app = partial(_overloaded, self.app, refused)
        self._accepted = accepted
        self._connections = connections
        self._refused = refused
        self._in_head = True
        self._is_unused = True
        self._is_last = False
        self._bytes = 0
        self._fields = 0
        connections.enter(self, ConnectionPhase.HEAD, self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the port; a handler that runs learns that the client is gone."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self._connections.remove(self)
        # Both refer to this connection. In a circle the body of its last request would stay until a
        # garbage collection, and these are rare (``runtime.settle``): 300 MiB in a minute.
        self.cycle = None  # type: ignore[assignment]
        self.scope = {}  # type: ignore[typeddict-item]

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, in parts that no limit can pass unseen."""
        self._unset_keepalive_if_required()
        parser: httptools.HttpRequestParser | None = self.parser
        if parser is None or self._is_last:  # the connection was lost, or ends
            return
        if self._is_unused or self._connections.phase(self) is ConnectionPhase.IDLE:
            self._is_unused, self._in_head = False, True
            self._bytes = 0
            self._connections.enter(self, ConnectionPhase.HEAD, self.loop.time())
        try:
            rest = memoryview(data)
            while rest and not self.transport.is_closing():
                part = rest[: HEAD_BYTES - self._bytes]
                rest = rest[len(part) :]
                self._bytes += len(part)
                parser.feed_data(part)
                if self._bytes >= HEAD_BYTES:
                    what = (
                        "request line and header fields are" if self._in_head else "the chunks are"
                    )
                    self._refuse(
                        RequestRefused(
                            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                            "header_bytes",
                            f"{what} longer than {HEAD_BYTES} bytes",
                        )
                    )
                    return
        except httptools.HttpParserUpgrade:
            self.cycle.keep_alive = False
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            if isinstance(cause, _TooManyPipelined):
                # The requests that wait are answered, and the last response closes the connection.
                self._refused("pipelined")
                self._is_last = True
                self.cycle.keep_alive = False
            else:
                self._refuse(cause if isinstance(cause, RequestRefused) else _malformed())
        except httptools.HttpParserError:
            self._refuse(_malformed())

    def on_message_begin(self) -> None:
        """Begin a request."""
        if len(self.pipeline) >= PIPELINED:
            raise _TooManyPipelined
        super().on_message_begin()
        self._fields = 0
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field, or a field after a chunked body."""
        self._fields += 1
        if self._fields > FIELDS:
            text = f"the request has more than {FIELDS} header fields"
            raise RequestRefused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "header_fields", text)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to handle the request, of which all header fields have arrived."""
        self._in_head = False
        self._bytes = 0
        self.scope["extensions"] = {DROP: self.drop}  # type: ignore[dict-item]
        super().on_headers_complete()
        self._update_phase()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request that has arrived as a whole; its response may have been sent before."""
        self._bytes = 0
        super().on_message_complete()
        self._update_phase()

    def on_response_complete(self) -> None:
        """End a response that is written, and perhaps not read yet."""
        super().on_response_complete()
        self._update_phase()

    def pause_writing(self) -> None:
        """Wait for a client that does not read its response."""
        super().pause_writing()
        self._update_phase()

    def resume_writing(self) -> None:
        """Go on after the client has read."""
        super().resume_writing()
        self._update_phase()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for long; what the client has not read is lost."""
        self.drop()

    def drop(self) -> None:
        """Close the connection at once."""
        transport: asyncio.Transport | None = self.transport
        if transport is not None:
            transport.abort()
            return
        try:  # in the TLS handshake
            self._accepted.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def expire(self, phase: ConnectionPhase) -> None:
        """Close the connection, because a phase took too long; not before its first byte.

        Go's clients open connections ahead, close them after 90 seconds, and lose a request that
        they send while one is closed (Go 1.26, ``net/http`` ``shouldRetryRequest``).
        """
        transport: asyncio.Transport | None = self.transport
        if self._is_unused and transport is not None:
            return
        self._refused(f"{phase.name.lower()}_timeout")
        if transport is None or phase is ConnectionPhase.CLOSING:
            self.drop()
            return
        what = "header fields" if phase is ConnectionPhase.HEAD else "body"
        self._close_with(HTTPStatus.REQUEST_TIMEOUT, f"the {what} did not arrive in time")

    @property
    def _is_answered(self) -> bool:
        """Whether no request waits for its response."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _update_phase(self) -> None:
        """Enter the phase that has begun, if another one has."""
        if self.flow.write_paused or self.transport.is_closing():
            now = ConnectionPhase.CLOSING
        elif not self._is_answered:
            now = ConnectionPhase.BODY if self.cycle.more_body else ConnectionPhase.HANDLING
        else:
            now = ConnectionPhase.HEAD if self._in_head else ConnectionPhase.IDLE
        known = self._connections.phase(self)
        if known is not None and known is not now:
            self._connections.enter(self, now, self.loop.time())

    def _refuse(self, refused: RequestRefused) -> None:
        self._refused(refused.reason)
        self._close_with(refused.status, str(refused))

    def _close_with(self, status: HTTPStatus, text: str) -> None:
        """Close the connection; with a response if no other one is on its way."""
        cycle: RequestResponseCycle | None = self.cycle
        if self._is_answered or (cycle is not None and not cycle.response_started):
            body = orjson.dumps({"error": text})
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()
        self._update_phase()


async def _overloaded(
    app: ASGI3Application,
    refused: Refused,
    scope: Any,
    receive: ASGIReceiveCallable,
    send: ASGISendCallable,
) -> None:
    """Let an application answer health probes, and nothing else."""
    if scope["path"] in PROBES:
        await app(scope, receive, send)
        return
    refused("connections")
    body = orjson.dumps({"error": "all connections of this port are in use"})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    status = HTTPStatus.SERVICE_UNAVAILABLE
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _malformed() -> RequestRefused:
    return RequestRefused(HTTPStatus.BAD_REQUEST, "malformed", "the request is no HTTP/1.1")
