"""Hostile clients of the gRPC port: each meets a limit, and others go on being answered."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from adapters.service.grpc import dragoman_pb2 as pb
from adapters.service.grpc import server as grpc_server
from adapters.service.grpc.server import SERVICE, CallLimits
from adapters.service.grpc.tests.client import Connected, on
from adapters.service.tests.builders import a_pod, body
from adapters.tests.waiting import until
from adapters.wire.body import MOST_ITEMS

LONG = {
    "a message": (pb.ListCardsRequest(node="n" * (5 << 20)), ()),
    "metadata": (pb.ListCardsRequest(), (("x-long", "x" * (128 << 10)),)),
}

NESTED = b'{"metadata":' * 1100 + b"1" + b"}" * 1100


@pytest.mark.parametrize("what", LONG)
def test_what_is_too_long_is_rejected(folder: Path, what: str) -> None:
    request, metadata = LONG[what]

    @on(folder)
    async def _(client: Connected) -> None:
        code, _ = await client.refused(client.stub.ListCards(request, metadata=metadata))

        assert code == "RESOURCE_EXHAUSTED"
        assert (await client.stub.ListCards(pb.ListCardsRequest())).cards


def test_connections_that_send_nothing_are_closed(folder: Path) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        silent = [await asyncio.open_unix_connection(str(folder / "s")) for _ in range(20)]

        await asyncio.gather(*(reader.read() for reader, _ in silent))

        for _, writer in silent:
            writer.close()
        assert (await client.stub.ListCards(pb.ListCardsRequest())).cards


async def _nothing() -> AsyncIterator[bytes]:
    await asyncio.sleep(600)
    yield b""


def _begun(client: Connected, call: str) -> Any:
    """A call whose message does not come."""
    channel: Any = client.channel
    return channel.stream_unary(f"/{SERVICE}/{call}")(_nothing())


CALLS = ("Allocate", "Release", "Explain", "ListCards", "WatchLedger")


@pytest.mark.parametrize("call", CALLS)
def test_a_call_whose_message_does_not_arrive_ends(folder: Path, call: str) -> None:
    @on(folder, limits=CallLimits(message_seconds=0.2))
    async def _(client: Connected) -> None:
        code, text = await client.refused(_begun(client, call))

        assert (code, text) == ("DEADLINE_EXCEEDED", "the message did not arrive in time")
        assert not client.failures


def test_calls_without_a_message_do_not_stop_others(folder: Path) -> None:
    """Each new call ends the oldest one, long before the time for its message is over."""

    @on(folder, limits=CallLimits(message_seconds=600))
    async def _(client: Connected) -> None:
        begun = [_begun(client, "Explain") for _ in range(300)]
        ended = 300 - grpc_server.ARRIVING - 1
        health: Any = health_pb2_grpc.HealthStub(client.channel)
        await asyncio.sleep(0.5)

        assert (await client.stub.ListCards(pb.ListCardsRequest(), timeout=5)).cards
        asked = health_pb2.HealthCheckRequest()
        assert (await health.Check(asked, timeout=5)).status == asked_status("SERVING")
        await until(lambda: sum(call.done() for call in begun) >= ended)
        assert sum(call.done() for call in begun) >= ended
        for call in begun:
            call.cancel()


def asked_status(name: str) -> Any:
    return health_pb2.HealthCheckResponse.ServingStatus.Value(name)


def test_streams_that_do_not_end_leave_room_for_calls(folder: Path) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        asked = pb.WatchLedgerRequest()
        streams = [client.stub.WatchLedger(asked) for _ in range(grpc_server.STREAMS)]
        for stream in streams:
            await stream.read()

        code, text = await client.refused(client.stub.WatchLedger(asked).read())

        assert (code, "try again" in text) == ("RESOURCE_EXHAUSTED", True)
        assert (await client.stub.ListCards(pb.ListCardsRequest(), timeout=5)).cards
        for stream in streams:
            stream.cancel()
        await until(lambda: all(stream.done() for stream in streams))
        assert await client.stub.WatchLedger(asked).read()


def test_a_response_that_is_not_read_ends_its_call(folder: Path) -> None:
    """A client receives some messages before it reads; the next one waits for it."""

    async def long(_: bytes, __: object) -> AsyncIterator[bytes]:
        for _turn in range(100):
            yield b"x" * (1 << 20)

    async def work() -> None:
        server = grpc.aio.server(interceptors=(CallLimits(response_seconds=1),))
        handler = grpc.unary_stream_rpc_method_handler(long, bytes, bytes)
        service = grpc.method_handlers_generic_handler("a", {"Long": handler})
        server.add_generic_rpc_handlers((service,))
        server.add_insecure_port(f"unix:{folder / 's'}")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"unix:{folder / 's'}") as channel:
                stub: Any = channel
                unread = stub.unary_stream("/a/Long")(b"")
                await unread.read()

                await asyncio.sleep(2)

                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await _read_all(unread)
                assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        finally:
            await server.stop(0)

    asyncio.run(work())


async def _read_all(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


@pytest.mark.parametrize("call", CALLS)
def test_a_message_that_is_no_protobuf_is_rejected(folder: Path, call: str) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        channel: Any = client.channel
        code, text = await client.refused(channel.unary_unary(f"/{SERVICE}/{call}")(b"\x0a\xff"))

        assert (code, text) == ("INVALID_ARGUMENT", "the message cannot be read")
        assert not client.failures


async def _no_message() -> AsyncIterator[bytes]:
    never: tuple[bytes, ...] = ()
    for message in never:
        yield message


def test_a_call_without_a_message_is_rejected(folder: Path) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        channel: Any = client.channel
        call = channel.stream_unary(f"/{SERVICE}/Explain")(_no_message())

        assert await client.refused(call) == ("INVALID_ARGUMENT", "the call has no message")


MANIFESTS = {
    "nested": NESTED,
    "no UTF-8": b'{"metadata":{"name":"\xff"}}',
    "half a character": b'{"metadata":{"name":"\\ud800"}}',
    "beyond 64 bits": b'{"spec":{"priority":' + b"9" * 40 + b"}}",
    "a long pod": body({**a_pod(), "status": {"containerStatuses": [{"name": "x" * (3 << 20)}]}}),
    "many containers": body(
        {**a_pod(), "spec": {"containers": a_pod()["spec"]["containers"] * 1000}}
    ),
    "a long name": body(a_pod("n" * 300)),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_a_hostile_pod_gets_the_answer_that_it_gets_over_http(folder: Path, what: str) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        asked = pb.ExplainRequest(manifest=MANIFESTS[what])
        code, text = await client.refused(client.stub.Explain(asked))

        assert code == "INVALID_ARGUMENT"
        assert 10 < len(text) < 1000
        assert not client.failures


def test_more_nodes_than_a_cluster_has_are_rejected(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        nodes = [""] * (MOST_ITEMS + 1)

        code, text = await client.refused(client.allocate("p", *nodes))

        assert (code, "more than" in text) == ("INVALID_ARGUMENT", True)
        assert client.allocations() == 0


def test_an_error_does_not_repeat_a_name_of_a_megabyte(folder: Path) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        code, text = await client.refused(client.allocate("n" * (1 << 20)))

        assert (code, len(text) <= 2000) == ("NOT_FOUND", True)
