"""Requests against a server that sends raw bytes."""

import asyncio
import contextlib
import socket

import pytest

from adapters.agent.apiserver import api
from adapters.agent.apiserver.api import ApiError, send
from adapters.agent.apiserver.credentials import AgentCredentials

CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def request(answer: bytes, *, close: bool = True) -> tuple[bytes, bytes]:
    """The answer's body, and the request as the server received it."""
    received = bytearray()

    async def run() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.extend(await reader.readuntil(b"{}"))
            writer.write(answer)
            await writer.drain()
            if not close:
                await reader.read()
            writer.close()
            await writer.wait_closed()
            served.set()

        served = asyncio.Event()
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            try:
                return await send(
                    AgentCredentials("127.0.0.1", port, None), "POST", "/x?y=1", b"{}"
                )
            finally:
                await served.wait()

    return asyncio.run(run()), bytes(received)


def test_a_request_has_its_body_and_the_answer_is_complete() -> None:
    body, received = request(
        b"HTTP/1.1 201 Created\r\n" + CHUNKED + b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
    )

    head = received.decode()
    assert body == b"abcd"
    assert head.startswith("POST /x?y=1 HTTP/1.1\r\n")
    assert "Content-Length: 2\r\n" in head
    assert "Content-Type: application/json\r\n" in head


@pytest.mark.parametrize(
    "rest",
    [b"Content-Length: 7\r\n\r\nno, you", CHUNKED + b"4\r\nno, \r\n3\r\nyou\r\n0\r\n\r\n"],
)
def test_the_error_of_a_rejection_has_its_status_and_text(rest: bytes) -> None:
    with pytest.raises(ApiError, match=r"^the API server answers 403 Forbidden: no, you$") as error:
        request(b"HTTP/1.1 403 Forbidden\r\n" + rest)

    assert error.value.status == 403


def test_the_text_of_a_rejection_is_cut_without_waiting_for_its_end() -> None:
    with pytest.raises(ApiError, match=r"^the API server answers 500 Oops: x{300}$"):
        request(b"HTTP/1.1 500 Oops\r\n" + CHUNKED + b"200\r\n" + b"x" * 512, close=False)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"zz\r\n",
        b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"5\r\nab",
    ],
)
def test_an_invalid_answer_is_an_error_without_a_status(answer: bytes) -> None:
    with pytest.raises(ApiError, match="answer is invalid") as error:
        request(answer)

    assert error.value.status == 0


def test_an_answer_that_is_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MAX_ANSWER", 10)

    with pytest.raises(ApiError, match="more than 10 bytes"):
        request(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + b"x" * 11)


def test_a_server_that_cannot_be_reached_is_given_up_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api, "CONNECT_TIMEOUT", 0.05)

    async def run() -> None:
        # Of a queue that is full, the kernel drops further attempts to connect without a word.
        with contextlib.ExitStack() as held:
            full = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            host, port = full.getsockname()
            for _ in range(3):
                other = held.enter_context(socket.socket())
                other.settimeout(0)
                other.connect_ex((host, port))
            await send(AgentCredentials(host, port, None), "POST", "/", b"{}")

    with pytest.raises(ApiError, match=r"^127\.0\.0\.1:\d+ does not answer within 0\.05 s$"):
        asyncio.run(run())


def test_a_silent_server_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "READ_TIMEOUT", 0.05)

    with pytest.raises(TimeoutError):
        request(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", close=False)
