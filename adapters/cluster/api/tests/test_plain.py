"""Plain requests, against a server that answers what it likes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from adapters.cluster.api.client import MAX_BODY, PlainReader

OK = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def answering(
    *parts: bytes, stall: bool = False, seen: list[bytes] | None = None
) -> AsyncIterator[int]:
    """A server that sends the same parts to every request; its port."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            if stall:
                await over.wait()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        over.set()
        server.close()


def read(
    work: Callable[[PlainReader, int], Awaitable[bytes]],
    *parts: bytes,
    stall: bool = False,
    seen: list[bytes] | None = None,
) -> bytes:
    async def go() -> bytes:
        async with answering(*parts, stall=stall, seen=seen) as port:
            reader = PlainReader(patience=0.2 if stall else 20.0)
            try:
                return await work(reader, port)
            finally:
                await reader.close()

    return asyncio.run(go())


async def get(reader: PlainReader, port: int) -> bytes:
    return await reader.get("127.0.0.1", port, "/metrics")


def test_it_returns_the_body_and_sends_no_credentials() -> None:
    seen: list[bytes] = []

    assert read(get, OK, b"Content-Length: 3\r\n\r\nabc", seen=seen) == b"abc"
    (head,) = seen
    assert head.startswith(b"GET /metrics HTTP/1.1\r\n")
    assert b"authorization" not in head.lower()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"\x00\x01 no HTTP at all\r\n\r\n",
        b"",
    ],
)
def test_anything_but_a_whole_answer_is_an_os_error(answer: bytes) -> None:
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        read(get, answer)


def test_an_answer_without_end_is_cut_at_the_bound() -> None:
    mebibyte = b"x" * (1 << 20)

    with pytest.raises(OSError, match=f"more than {MAX_BODY} bytes"):
        read(get, OK, b"\r\n", *[mebibyte] * 6)


def test_a_compressed_answer_is_not_unpacked() -> None:
    packed = b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x00\x00"

    assert read(get, OK, packed) == b"\x1f\x8b\x00\x00"


def test_a_server_that_stops_in_the_middle_is_an_os_error() -> None:
    with pytest.raises(OSError):  # noqa: PT011 - of aiohttp, without a text
        read(get, OK, b"Content-Length: 9\r\n\r\nabc", stall=True)


def test_a_port_without_a_listener_is_an_os_error() -> None:
    async def work() -> None:
        async with answering() as port:
            pass
        reader = PlainReader()
        try:
            with pytest.raises(OSError, match=str(port)):
                await get(reader, port)
        finally:
            await reader.close()

    asyncio.run(work())
