"""The server with handlers that do not end: probes are answered, and a shutdown ends in time."""

import asyncio
import gc
from contextlib import AsyncExitStack

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from adapters.service.settings.sections import LimitSettings
from adapters.service.tests.builders import run
from adapters.service.web.app import Answer, App, Call, Route
from adapters.service.web.protocol import LimitedProtocol
from adapters.service.web.tests.calls import DECISION_LOG
from adapters.service.web.tests.listening import serving
from adapters.tests.waiting import until

SLOW = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


class Waiting:
    """An application of which one route waits for an event."""

    def __init__(self) -> None:
        self.entered = 0
        self.event = asyncio.Event()

    def app(self) -> App:
        async def slow(_: Call) -> Answer:
            self.entered += 1
            await self.event.wait()
            return Answer(b"{}")

        async def live(_: Call) -> Answer:
            return Answer(b"ok\n")

        routes = {("GET", "/slow"): Route(slow), ("GET", "/livez"): Route(live)}
        return App(routes, DECISION_LOG)


async def ask(port: int, request: bytes, stack: AsyncExitStack) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    stack.callback(writer.close)
    writer.write(request)
    return reader


async def status(reader: asyncio.StreamReader) -> int:
    line = await reader.readline()
    return int(line.split()[1]) if line else 0


def test_probes_are_answered_where_every_connection_waits_for_the_service() -> None:
    async def work() -> tuple[int, int, list[int]]:
        waiting = Waiting()
        async with (
            serving(waiting.app(), LimitSettings.model_construct(connections=4)) as port,
            AsyncExitStack() as stack,
        ):
            slow = [await ask(port, SLOW, stack) for _ in range(4)]
            await until(lambda: waiting.entered == 4)
            probed = await status(await ask(port, PROBE, stack))
            others = await status(await ask(port, SLOW, stack))
            waiting.event.set()
            return probed, others, [await status(each) for each in slow]

    probed, others, slow = run(work())

    assert (probed, others) == (200, 503)
    assert slow == [200] * 4


@pytest.mark.parametrize(
    ("request_", "begin"),
    [
        (PROBE.replace(b"GET", b"HEAD"), b"HTTP/1.1 200 OK\r\n"),
        (PROBE[:-2] + b"Expect: 100-continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_a_head_without_a_body_is_sent_at_once(request_: bytes, begin: bytes) -> None:
    async def work() -> bytes:
        async with serving(Waiting().app()) as port, AsyncExitStack() as stack:
            return await (await ask(port, request_, stack)).readuntil(b"\r\n\r\n")

    assert run(work()).startswith(begin)


def test_the_connection_that_is_idle_longest_gives_way_and_busy_ones_do_not() -> None:
    async def work() -> tuple[bytes, int, int]:
        waiting = Waiting()
        async with (
            serving(waiting.app(), LimitSettings.model_construct(connections=2)) as port,
            AsyncExitStack() as stack,
        ):
            busy = await ask(port, SLOW, stack)
            await until(lambda: waiting.entered == 1)
            idle = await ask(port, PROBE, stack)
            await idle.readuntil(b"ok\n")
            third = await status(await ask(port, PROBE, stack))
            rest = await idle.read()
            waiting.event.set()
            return rest, third, await status(busy)

    assert run(work()) == (b"", 200, 200)


@pytest.mark.parametrize(
    "sent",
    [
        PROBE,
        PROBE[:20],
        SLOW,
        SLOW * 3,
        b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + bytes(100_000),
    ],
    ids=["answered", "cut off in the head", "handled", "pipelined", "cut off in the body"],
)
def test_a_connection_that_ended_is_freed_without_a_garbage_collection(sent: bytes) -> None:
    """Collections are rare (``runtime.settle``), and a connection can have a body of 64 KiB."""

    async def work() -> list[object]:
        waiting = Waiting()
        async with serving(waiting.app(), LimitSettings()) as port:
            gc.collect()
            gc.disable()
            try:
                for _ in range(3):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(sent)
                    await asyncio.sleep(0.05)
                    writer.transport.abort()
                    del writer
                await asyncio.sleep(0.05)
                waiting.event.set()
                await asyncio.sleep(0.05)
                kinds = (LimitedProtocol, RequestResponseCycle)
                return [each for each in gc.get_objects() if isinstance(each, kinds)]
            finally:
                gc.enable()

    assert run(work()) == []
