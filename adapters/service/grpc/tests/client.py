"""A gRPC client with its service, over a unix socket."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from adapters.service.grpc import dragoman_pb2 as pb
from adapters.service.grpc import dragoman_pb2_grpc as pb_grpc
from adapters.service.grpc.server import CallLimits, GrpcServer
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_service,
)


@dataclass
class Connected:
    """A client with its service."""

    bench: Bench
    server: GrpcServer
    channel: grpc.aio.Channel
    failures: list[Exception]

    def __post_init__(self) -> None:
        self.stub: Any = pb_grpc.DragomanStub(self.channel)  # type: ignore[no-untyped-call]

    async def allocate(self, name: str, *nodes: str, bind: bool = False) -> Any:
        wanted = pb.AllocateRequest(pod=pb.Pod(name=name), nodes=nodes, bind=bind)
        return await self.stub.Allocate(wanted)

    async def refused(self, call: Coroutine[Any, Any, Any]) -> tuple[str, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        return caught.value.code().name, caught.value.details() or ""

    def allocations(self) -> int:
        return sum(len(ledger.allocations) for ledger in self.bench.service.ledgers.inventory)


@asynccontextmanager
async def connected(
    folder: Path, *pods: Json, limits: CallLimits | None = None
) -> AsyncIterator[Connected]:
    bench = await a_service(pods=pods)
    failures: list[Exception] = []

    def failed(_: str, error: Exception) -> str:
        failures.append(error)
        return "n-1"

    listen = f"unix:{folder / 's'}"
    server = GrpcServer(bench.service, listen, failed, limits=limits)
    await server.start()
    running = asyncio.create_task(server.run())
    try:
        async with grpc.aio.insecure_channel(listen) as channel:
            yield Connected(bench, server, channel, failures)
    finally:
        running.cancel()
        await server.stop()


Test = Callable[[Connected], Coroutine[Any, Any, None]]


def on(folder: Path, *pods: Json, limits: CallLimits | None = None) -> Callable[[Test], None]:
    """Run a test at once, on a service with these pods."""

    def tried(test: Test) -> None:
        async def main() -> None:
            async with connected(folder, *pods, limits=limits) as client:
                await test(client)

        asyncio.run(main())

    return tried
