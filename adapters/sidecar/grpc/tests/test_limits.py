"""Hostile clients of the gRPC port: each meets a limit, and others go on being answered."""

import asyncio
from pathlib import Path

import pytest

from adapters.sidecar.grpc import dragoman_pb2 as pb
from adapters.sidecar.grpc.tests.client import Connected, on

LONG = {
    "a message": (pb.ListCardsRequest(node="n" * (5 << 20)), ()),
    "metadata": (pb.ListCardsRequest(), (("x-long", "x" * (128 << 10)),)),
}


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
