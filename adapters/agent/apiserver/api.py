"""Requests to the API server: HTTP/1.1 by h11, one connection each, answers as a stream.

h11 adds 0.2 MiB to the agent; the standard library's http.client would add 0.5 MiB, and a thread
per watch; the client library of the service would more than double the agent's memory.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import h11

from adapters.agent.apiserver.credentials import AgentCredentials

CONNECT_TIMEOUT = 5.0
"""Seconds for TCP and TLS. An attempt that began before the node's kube-proxy had its rules is
never answered: the kernel keeps the way that a connection had first."""

READ_TIMEOUT = 150.0
"""Seconds without a byte after which a connection counts as lost; bookmarks come every minute."""

MAX_ANSWER = 16 << 20
"""Bytes of an answer, or of one line of a watch."""

_CHUNK = 64 << 10
_ACCEPTED = frozenset({200, 201})
_MAX_REASON = 300
"""Bytes of a rejected request's answer that the error quotes."""


class ApiError(OSError):
    """The API server rejected a request, or its answer is invalid.

    Attributes:
        status: the HTTP status; 0 where there was no valid answer.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


async def send(
    credentials: AgentCredentials,
    method: str,
    path: str,
    body: bytes,
    content_type: str = "application/json",
) -> bytes:
    """Make a request with a body, and return the answer's body.

    Raises:
        OSError: the request was rejected, or the answer is missing, too large or invalid.
    """
    found = bytearray()
    async with aclosing(stream(credentials, method, path, body, content_type)) as answer:
        async for part in answer:
            found += part
            if len(found) > MAX_ANSWER:
                raise ApiError(f"{path}: the answer has more than {MAX_ANSWER} bytes")
    return bytes(found)


async def stream(
    credentials: AgentCredentials,
    method: str,
    path: str,
    body: bytes = b"",
    content_type: str = "application/json",
) -> AsyncGenerator[bytes, None]:
    """Yield the parts of an answer's body, each as soon as it arrives.

    Raises:
        OSError: the request was rejected, or the answer is missing or invalid.
    """
    host, port = credentials.host, credentials.port
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, port, ssl=credentials.context)
    except TimeoutError as error:
        raise ApiError(f"{host}:{port} does not answer within {CONNECT_TIMEOUT:g} s") from error
    try:
        headers = [*credentials.headers(), ("Accept", "application/json")]
        if body:
            headers += [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        connection = h11.Connection(h11.CLIENT)
        request = h11.Request(method=method, target=path, headers=headers)
        for event in (request, h11.Data(body), h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")
        rejected: h11.Response | None = None
        reason = b""
        while rejected is None or len(reason) < _MAX_REASON:
            found = connection.next_event()
            if found is h11.NEED_DATA:
                async with asyncio.timeout(READ_TIMEOUT):
                    connection.receive_data(await reader.read(_CHUNK))
            elif isinstance(found, h11.Response):
                rejected = None if found.status_code in _ACCEPTED else found
            elif isinstance(found, h11.Data) and rejected is None:
                yield bytes(found.data)
            elif isinstance(found, h11.Data):
                reason += found.data
            elif isinstance(found, h11.EndOfMessage | h11.ConnectionClosed):
                break
        if rejected is not None:
            status = f"{rejected.status_code} {rejected.reason.decode('latin-1')}".rstrip()
            text = reason[:_MAX_REASON].decode("utf-8", "replace")
            problem = f"the API server answers {status}{text and f': {text}'}"
            raise ApiError(problem, rejected.status_code)
    except h11.RemoteProtocolError as error:
        raise ApiError(f"the API server's answer is invalid: {error}") from error
    finally:
        writer.close()


async def lines(credentials: AgentCredentials, path: str) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an answer to GET, each as soon as it arrives; empty ones are left out.

    Raises:
        OSError: as ``stream``, or a line is too long.
    """
    rest = b""
    async with aclosing(stream(credentials, "GET", path)) as answer:
        async for part in answer:
            *found, rest = (rest + part).split(b"\n")
            for line in found:
                if line:
                    yield line
            if len(rest) > MAX_ANSWER:
                raise ApiError(f"{path}: a line of the answer has more than {MAX_ANSWER} bytes")
    if rest:
        yield rest
