"""The client against a server that does everything that a server can do wrong."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.api.error import ClusterError
from adapters.cluster.tests.server import (
    QUICK,
    Reply,
    Request,
    Server,
    Step,
    client,
    cut,
    hang,
    ok,
    refusal,
    serving,
)
from adapters.tests.waiting import until

STATUS = {
    "kind": "Status",
    "code": 409,
    "reason": "Conflict",
    "message": "the object has been modified",
    "details": {"causes": [{"reason": "Version"}]},
}

Call = Callable[[KubeClient], Awaitable[bytes]]


def read(api: KubeClient) -> Awaitable[bytes]:
    return api.get("/x")


def write(api: KubeClient) -> Awaitable[bytes]:
    return api.create("/x", {"a": 1})


def run(call: Call, *steps: Step) -> tuple[bytes | ClusterError, Server]:
    """What the call gives, or raises, and what the server saw."""

    async def main() -> tuple[bytes | ClusterError, Server]:
        async with serving(*steps) as server, client(server) as api:
            try:
                return await call(api), server
            except ClusterError as error:
                return error, server

    return asyncio.run(main())


def fails(call: Call, *steps: Step) -> tuple[ClusterError, Server]:
    result, server = run(call, *steps)
    assert isinstance(result, ClusterError)
    return result, server


def test_a_response_body_is_returned_unchanged() -> None:
    body, server = run(read, ok(b'{"a": 1}'))

    assert body == b'{"a": 1}'
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "call",
    [
        lambda api: api.create("/x", {"a": 1}),
        lambda api: api.replace("/x", {"a": 1}),
        lambda api: api.patch("/x", {"a": 1}),
    ],
    ids=["create", "replace", "patch"],
)
def test_a_write_asks_for_no_warnings(call: Call) -> None:
    _, server = run(call, ok({}))

    assert server.requests[0].query == {"fieldValidation": "Ignore"}
    assert server.requests[0].headers["accept"] == "application/json"


def test_a_write_keeps_its_own_parameters() -> None:
    _, server = run(lambda api: api.create("/x", {"a": 1}, {"dryRun": "All"}), ok({}))

    assert server.requests[0].query == {"dryRun": "All", "fieldValidation": "Ignore"}


@pytest.mark.parametrize(
    "call",
    [
        lambda api: api.create("/x", {"a": 1}, metadata_only=True),
        lambda api: api.replace("/x", {"a": 1}, metadata_only=True),
    ],
    ids=["create", "replace"],
)
def test_a_writer_that_needs_only_the_metadata_is_sent_only_the_metadata(call: Call) -> None:
    _, server = run(call, ok({}))

    preferred, other = server.requests[0].headers["accept"].split(",")
    assert preferred == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert other == "application/json"


def test_a_read_has_no_parameters_of_a_write() -> None:
    _, server = run(read, ok({}))

    assert server.requests[0].query == {}
    assert server.requests[0].headers["accept"] == "application/json"


def test_many_requests_share_one_connection() -> None:
    async def main() -> int:
        async with serving(ok({})) as server, client(server) as api:
            for _ in range(5):
                await api.get("/x")
            return server.connections

    assert asyncio.run(main()) == 1


def test_an_error_has_the_message_of_the_server() -> None:
    error, server = fails(write, refusal(409, STATUS))

    assert (error.status, error.reason, error.message) == (
        409,
        "Conflict",
        "the object has been modified",
    )
    assert error.causes == ("Version",)
    assert not error.uncertain
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b'{"code": "x"}', b"[]", b"null"])
def test_an_error_without_a_status_object_is_an_error(body: bytes) -> None:
    error, _ = fails(read, refusal(403, body))

    assert (error.status, error.reason) == (403, "Some")
    assert error.message


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_read_is_repeated_after_a_servers_failure(status: int) -> None:
    body, server = run(read, refusal(status), refusal(status), ok(b"1"))

    assert body == b"1"
    assert len(server.requests) == 3


@pytest.mark.parametrize("step", [refusal(500), cut, hang])
def test_a_creation_that_may_have_happened_is_not_repeated(step: Step) -> None:
    error, server = fails(write, step, ok(b"1"))

    assert error.uncertain
    assert len(server.requests) == 1


def test_a_creation_is_repeated_after_429() -> None:
    body, server = run(write, refusal(429), ok(b"1"))

    assert body == b"1"
    assert [request.json() for request in server.requests] == [{"a": 1}, {"a": 1}]


def test_retry_after_is_respected() -> None:
    began = time.monotonic()

    body, _ = run(read, refusal(429, b"", Retry_After="1"), ok(b"1"))

    assert body == b"1"
    assert time.monotonic() - began >= 1


def test_a_retry_after_beyond_the_deadline_is_not_waited_for() -> None:
    began = time.monotonic()

    error, server = fails(read, refusal(429, b"", Retry_After="600"))

    assert (error.status, error.retry_after) == (429, 600)
    assert time.monotonic() - began < 60
    assert len(server.requests) == 1


def test_attempts_are_counted() -> None:
    error, server = fails(read, refusal(503))

    assert error.status == 503
    assert len(server.requests) == QUICK.attempts


def test_a_silent_server_is_an_error() -> None:
    body, server = run(read, hang, ok(b"1"))

    assert body == b"1"
    assert len(server.requests) == 2


def test_a_truncated_response_is_an_error() -> None:
    async def half(_request: Request, reply: Reply) -> None:
        await reply.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        reply.writer.close()

    body, server = run(read, half, ok(b"1"))

    assert body == b"1"
    assert len(server.requests) == 2


def test_a_response_that_is_not_http_is_garbage() -> None:
    async def noise(_request: Request, reply: Reply) -> None:
        await reply.send(b"\x00\xffwhat is this\r\n\r\n")
        reply.cut()

    error, _ = fails(write, noise)

    assert error.status == 0
    assert error.uncertain


def test_a_redirect_is_not_followed() -> None:
    error, server = fails(read, refusal(302, b"", Location="http://127.0.0.1:1/"))

    assert error.status == 302
    assert len(server.requests) == 1


def test_a_refused_connection_is_a_certain_error() -> None:
    async def main() -> ClusterError:
        async with KubeClient(KubeCredentials("http://127.0.0.1:1"), QUICK) as api:
            with pytest.raises(ClusterError) as caught:
                await api.create("/x", {})
        return caught.value

    error = asyncio.run(main())

    assert (error.reason, error.uncertain) == ("Unreachable", False)


def test_a_missing_object_is_none() -> None:
    async def main() -> bytes | None:
        async with serving(refusal(404)) as server, client(server) as api:
            return await api.find("/x")

    assert asyncio.run(main()) is None


def test_a_cancelled_request_leaves_a_client_that_works() -> None:
    async def main() -> bytes:
        async with serving(hang, ok(b"1")) as server, client(server) as api:
            task = asyncio.create_task(api.get("/x"))
            await until(lambda: server.requests)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await api.get("/x")

    assert asyncio.run(main()) == b"1"


def test_a_server_that_is_away_is_named_without_internals_of_python() -> None:
    async def get() -> None:
        secure = KubeCredentials("https://127.0.0.1:1", ssl.create_default_context())
        async with KubeClient(secure, replace(QUICK, attempts=1)) as api:
            await api.get("/api")

    with pytest.raises(ClusterError, match=r"GET /api: 127\.0\.0\.1:1: Connection refused$") as e:
        asyncio.run(get())
    assert "<" not in str(e.value)
