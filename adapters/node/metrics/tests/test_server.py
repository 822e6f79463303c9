import asyncio

import pytest

from adapters.node.metrics.exposition import Family, Sample
from adapters.node.metrics.server import MetricsServer


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
        server = await asyncio.start_server(scrape._serve, "127.0.0.1", 0, limit=8192)
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
