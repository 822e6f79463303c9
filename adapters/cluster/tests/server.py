"""A small real HTTP server that answers by a script, one step for each request."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.api.transport import Timeouts

QUICK = Timeouts(connect=1.0, read=0.3, total=5.0, attempts=4, idle=0.3)


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        body: dict[str, object] = json.loads(self.body)
        return body


@dataclass
class Reply:
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, status: int, body: object = None, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f"HTTP/1.1 {status} Some", f"Content-Length: {len(data)}"]
        head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join(head).encode() + b"\r\n\r\n" + data)

    async def begin(self) -> None:
        await self.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def lines(self, *events: object) -> None:
        for event in events:
            await self.chunk(json.dumps(event).encode() + b"\n")

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    def cut(self) -> None:
        self.writer.transport.abort()


Step = Callable[[Request, Reply], Awaitable[None]]


@dataclass
class Server:
    """Answers request after request with its steps; the last step answers all that follow."""

    steps: list[Step]
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    server: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                request = await _read(reader)
                number = len(self.requests)
                self.requests.append(request)
                await self.steps[min(number, len(self.steps) - 1)](request, Reply(writer))
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (row.partition(":") for row in head[1:-2])
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Request(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)


@contextlib.asynccontextmanager
async def serving(*steps: Step) -> AsyncIterator[Server]:
    this = Server(list(steps))
    listening = await asyncio.start_server(this.serve, "127.0.0.1", 0, limit=1 << 24)
    this.server = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    before = asyncio.all_tasks()
    try:
        yield this
    finally:
        listening.close()
        mine = [task for task in asyncio.all_tasks() - before if "Server.serve" in repr(task)]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)


def client(server: Server, patience: Timeouts = QUICK) -> KubeClient:
    return KubeClient(KubeCredentials(server.server), patience)


def ok(body: object, **headers: str) -> Step:
    return refusal(200, body, **headers)


def refusal(status: int, body: object = b"", **headers: str) -> Step:
    async def step(_request: Request, reply: Reply) -> None:
        await reply.answer(status, body, **headers)

    return step


async def hang(_request: Request, _reply: Reply) -> None:
    await asyncio.sleep(3600)


async def cut(_request: Request, reply: Reply) -> None:
    reply.cut()
