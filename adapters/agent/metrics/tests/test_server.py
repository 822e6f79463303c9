import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from adapters.agent.metrics.server import CONNECTIONS, Family, MetricsServer, Sample, render
from adapters.tests.waiting import until


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"200", b"a 1\n"),
        (b"GET /metrics?x=1 HTTP/1.0\r\nA: b\r\n\r\n", b"200", b"a 1\n"),
        (b"GET /livez HTTP/1.1\r\n\r\n", b"200", b"ok\n"),
        (
            b"GET /readyz HTTP/1.1\r\n\r\n",
            b"503",
            b"waiting for the runtime: it does not call the agent\n",
        ),
        (b"GET / HTTP/1.1\r\n\r\n", b"404", b"not found: try /metrics\n"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405", b"only GET is supported\n"),
        (b"\r\n\r\n", b"405", b"only GET is supported\n"),
        (b"x" * 20_000, b"", b""),
    ],
)
def test_the_server_answers_valid_requests_and_survives_others(
    asked: bytes, status: bytes, body: bytes
) -> None:
    async def ask() -> bytes:
        scrape = MetricsServer(lambda: [Family("a", "b", (Sample({}, 1),))], lambda: False)
        server = await scrape.start("127.0.0.1:0")
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(asked)
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()
            server.close()

    answer = asyncio.run(ask())

    assert answer[9:12] == status
    assert answer.partition(b"\r\n\r\n")[2].endswith(body)


@asynccontextmanager
async def serving(families: list[Family] | threading.Event) -> AsyncIterator[int]:
    """The port of a server; an event lets the metrics be collected when it is set."""

    def collect() -> list[Family]:
        if isinstance(families, threading.Event):
            families.wait(30)
            return [Family("a", "b", (Sample({}, 1),))]
        return families

    scrape = MetricsServer(collect, lambda: True)
    server = await scrape.start("127.0.0.1:0")
    async with server:
        yield server.sockets[0].getsockname()[1]


LIVE = b"GET /livez HTTP/1.1\r\n\r\n"


async def answered(port: int, asked: bytes = LIVE) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(asked)
    try:
        return await reader.read()
    finally:
        writer.close()


def test_half_open_requests_give_way_to_others() -> None:
    async def work() -> tuple[bytes, list[bytes]]:
        async with serving([]) as port:
            half = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
            for _, writer in half:
                writer.write(b"GET /li")
                await writer.drain()
            answer = await answered(port)
            first: list[bytes] = []
            for reader, writer in half:
                with contextlib.suppress(OSError):
                    first.append(await reader.read() if not first else b"")
                writer.close()
            return answer, first

    answer, first = asyncio.run(work())

    assert answer.endswith(b"ok\n")
    assert first[0] == b""


def test_probes_are_answered_while_scrapes_wait_for_the_metrics_and_these_are_collected_once() -> (
    None
):
    ready = threading.Event()

    async def work() -> tuple[bytes, list[bytes]]:
        async with serving(ready) as port:
            scrapes = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
            for _, writer in scrapes:
                writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            probed = await answered(port)
            ready.set()
            scraped = []
            for reader, writer in scrapes:
                with contextlib.suppress(OSError):  # one gave way to the probe
                    scraped.append(await reader.read())
                writer.close()
            return probed, scraped

    probed, scraped = asyncio.run(work())

    assert probed.endswith(b"ok\n")
    assert sum(one.endswith(b"a 1\n") for one in scraped) == CONNECTIONS - 1


def test_a_response_that_is_not_read_is_dropped() -> None:
    many = [Family(f"a{at}", "b", (Sample({}, 1),) * 1000) for at in range(1000)]

    async def work() -> bytes:
        async with serving(many) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            await writer.drain()
            others = await answered(port)
            await until(lambda: len(asyncio.all_tasks()) == 1)
            writer.close()
            assert not reader.at_eof()
            return others

    assert asyncio.run(work()).endswith(b"ok\n")


def test_a_label_cannot_break_its_line() -> None:
    text = render([Family("a", "b", (Sample({"x": 'q"\\\n'}, 1),)), Family("none", "c", ())])

    assert text == '# HELP a b\n# TYPE a gauge\na{x="q\\"\\\\\\n"} 1\n'
