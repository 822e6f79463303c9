"""Events against a server that keeps the requests."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.apiserver.reports import PodEvents
from adapters.agent.nri.model import PodSandbox
from adapters.agent.tests.builders import POD
from adapters.tests.waiting import until

LATER = PodSandbox("p2", "later", "uid-2", "ai")


def written(emit: Callable[[PodEvents], None], status: str = "201 Created") -> list[Any]:
    """Emit from another thread; the requests that arrive before one for a later event."""
    bodies: list[Any] = []

    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
            line, body = head.split(" HTTP")[0], json.loads(await reader.readexactly(size))
            bodies.append((line, body))
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            events = PodEvents(AgentCredentials("127.0.0.1", port, None), "gpu-a")
            task = asyncio.ensure_future(events.run())
            await asyncio.to_thread(emit, events)
            await until(lambda: bodies)
            events.emit(LATER, "ShareRefused", "x", "y")
            await until(lambda: bodies[-1][1]["regarding"]["name"] == LATER.name)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    return bodies[:-1]


def test_many_rejections_of_one_pod_are_one_event() -> None:
    def emit(events: PodEvents) -> None:
        for _ in range(50):
            events.emit(POD, "ShareRefused", "container main: no", "CreatingContainer")

    ((line, body),) = written(emit)

    assert line == "POST /apis/events.k8s.io/v1/namespaces/ai/events"
    assert body["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "train",
        "namespace": "ai",
        "uid": "uid-1",
    }
    assert (body["reason"], body["type"]) == ("ShareRefused", "Warning")
    assert (body["reportingController"], body["reportingInstance"]) == (
        "dragoman.dev/node",
        "gpu-a",
    )


def test_a_forbidden_write_is_logged_and_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bodies = written(lambda events: events.emit(POD, "ShareMissing", "x", "y"), "403 Forbidden")

    assert len(bodies) == 1
    assert "event.write_failed" in capsys.readouterr().err
