"""Requests to the API server: HTTP/1.1, one connection each; answers in the pieces they come in.

Small on purpose: the client library of the service is larger than the whole agent.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from adapters.node.apiserver.credentials import AgentCredentials

READ_TIMEOUT = 150.0
"""Seconds without a word after which a connection counts as lost; bookmarks come every minute."""

MAX_ANSWER = 16 << 20
"""Bytes of an answer, or of a piece of one that has no end."""

_GOOD = frozenset({"200", "201"})
_SHOWN = 300


class ApiError(OSError):
    """The API server does not answer as it should.

    Attributes:
        status: of HTTP; 0 where there was none.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


async def send(
    who: AgentCredentials, method: str, path: str, body: bytes, kind: str = "application/json"
) -> bytes:
    """Make a request that has a body; the answer.

    Raises:
        OSError: it was refused, or the answer did not come.
        EOFError: the answer ends in its middle.
        ValueError: it is not HTTP.
        asyncio.LimitOverrunError: the same.
    """
    async with aclosing(pieces(who, method, path, body, kind)) as answer:
        return b"".join([piece async for piece in answer])


async def pieces(
    who: AgentCredentials,
    method: str,
    path: str,
    body: bytes = b"",
    kind: str = "application/json",
) -> AsyncGenerator[bytes, None]:
    """The pieces of an answer, each as soon as it is there.

    Raises:
        OSError: as ``send``, and so the others.
    """
    async with asyncio.timeout(READ_TIMEOUT):
        reader, writer = await asyncio.open_connection(
            who.host, who.port, ssl=who.context, limit=MAX_ANSWER
        )
    try:
        head = f"{method} {path} HTTP/1.1\r\n{who.headers()}Accept: application/json\r\n"
        if body:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}\r\n".encode() + body)
        async with aclosing(_body(reader)) as answer:
            async for piece in answer:
                yield piece
    finally:
        writer.close()


async def _body(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    async with asyncio.timeout(READ_TIMEOUT):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = head[0].split(" ", 2)
    headers = {
        name.strip().lower(): value.strip().lower()
        for name, _, value in (line.partition(":") for line in head[1:])
    }
    chunked = headers.get("transfer-encoding") == "chunked"
    size = min(int(headers.get("content-length", "0")), MAX_ANSWER)
    if not _GOOD.intersection(status[1:2]):
        async with asyncio.timeout(READ_TIMEOUT):
            text = b"" if chunked else await reader.readexactly(min(size, _SHOWN))
        number = int(status[1]) if status[1:2] and status[1].isdecimal() else 0
        told = " ".join(status[1:])
        more = text.decode("utf-8", "replace")
        raise ApiError(f"the API server answers {told}{more and f': {more}'}", number)
    if not chunked:
        async with asyncio.timeout(READ_TIMEOUT):
            whole = await reader.readexactly(size)
        yield whole
        return
    while True:
        async with asyncio.timeout(READ_TIMEOUT):
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if size > MAX_ANSWER:
                raise ApiError(f"a piece of {size} bytes")
            piece = (await reader.readexactly(size + 2))[:size]
        if not size:
            return
        yield piece
