"""One address for several servers, as a Service of Kubernetes gives to ready pods."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from random import Random

from e2e.harness.processes.ports import free_ports

_PIECE = 1 << 16


@contextmanager
def balanced(*groups: Sequence[int]) -> Iterator[Sequence[int]]:
    """Ports whose connections go to one port of a group each, for a block.

    A port that refuses the connection is left out. The groups may change at any time.
    """
    ports = free_ports(len(groups))
    loop = asyncio.new_event_loop()
    ready, over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        servers = [
            await asyncio.start_server(partial(_relay, group, Random(port)), "127.0.0.1", port)  # noqa: S311
            for port, group in zip(ports, groups, strict=True)
        ]
        ready.set()
        await over.wait()
        for server in servers:
            server.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(20)
    try:
        yield ports
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(20)


async def _relay(
    group: Sequence[int],
    dice: Random,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    for port in dice.sample(group, len(group)):
        with suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", port)
            with suppress(asyncio.CancelledError):  # the block ends
                await asyncio.gather(_copy(reader, back), _copy(there, writer))
            back.close()
            break
    writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()
