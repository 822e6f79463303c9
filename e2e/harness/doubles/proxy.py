"""A proxy between one client and the API server, which injects the faults of a test.

It ends TLS on both sides, so that it sees every request; upstream it proves to be the client's
user. Faults of requests are in ``faults``, those of watches here.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from e2e.harness.cluster.certificates import Pair
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.kubeconfig import kubeconfig
from e2e.harness.doubles.faults import Answer, CutError, Fault, Request

_LOOK = 0.02
_LONGEST = 1 << 24
_KEPT = ("Accept", "Content-Type", "User-Agent")


@dataclass(slots=True, eq=False)
class Watch:
    """One watch that goes through.

    Attributes:
        plural: of the resource.
        silent: events are discarded, and the connection stays open.
        last: with this line it ends.
    """

    plural: str
    silent: bool = False
    last: bytes | None = None


@dataclass(slots=True)
class Proxy:
    """The proxy, as a test sees it. All of it may be changed at any time.

    Attributes:
        config: the kubeconfig of a client that goes through it.
        faults: the first one that affects a request is applied to it.
        held: plural names of resources whose watches are held back; their events follow later.
        writes: the requests that were not reads, in order.
        watches: those that are open.
    """

    config: Path
    faults: list[Fault] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    writes: list[Request] = field(default_factory=list)
    watches: set[Watch] = field(default_factory=set)

    def of(self, plural: str) -> list[Watch]:
        """The watches of a resource that are open and alive."""
        return [each for each in self.watches.copy() if each.plural == plural and not each.silent]


@contextmanager
def proxy(plane: ControlPlane, user: str) -> Iterator[Proxy]:
    """A proxy before the API server for one user, an administrator, for the length of a block."""
    identity = plane.authority.user(user, "system:masters")
    this = Proxy(plane.run.folder / f"{user}-proxied.kubeconfig")
    serving = _Serving(this, plane, identity)
    thread = threading.Thread(target=serving.run, daemon=True)
    thread.start()
    if not serving.ready.wait(20):
        raise RuntimeError("the proxy did not start")
    kubeconfig(this.config, port=serving.port, authority=plane.authority.pair, user=identity)
    try:
        yield this
    finally:
        serving.stop()
        thread.join(20)


class _Serving:
    """Runs in a thread of its own."""

    def __init__(self, proxy: Proxy, plane: ControlPlane, identity: Pair) -> None:
        self.ready = threading.Event()
        self.port = 0
        self._proxy = proxy
        self._target = f"https://127.0.0.1:{plane.server_port}"
        self._upstream = ssl.create_default_context(cafile=plane.authority.pair.certificate)
        self._upstream.load_cert_chain(identity.certificate, identity.key)
        pair = plane.authority.server(f"{identity.certificate.stem}-proxy")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.certificate, pair.key)
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)

    async def _serve(self) -> None:
        limit = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(limit=0, ssl=self._upstream)
        async with aiohttp.ClientSession(
            connector=connector, timeout=limit, auto_decompress=False, read_bufsize=_LONGEST
        ) as self._session:
            server = web.Server(self._answer, access_log=None)
            runner = web.ServerRunner(server, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._context)
            await site.start()
            self.port = runner.addresses[0][1]
            self.ready.set()
            await self._over.wait()
            await runner.cleanup()
            await connector.close(abort_ssl=True)
        await asyncio.sleep(0.1)  # what was aborted is closed in the next turns

    async def _answer(self, asked: web.BaseRequest) -> web.StreamResponse:
        if asked.query.get("watch") == "true":
            return await self._watch(asked)
        request = Request(asked.method, asked.path, await asked.read())
        if request.method != "GET":
            self._proxy.writes.append(request)

        async def forward() -> Answer:
            return await self._ask(asked, request.body)

        fault = next((each for each in self._proxy.faults if each.takes(request)), None)
        try:
            answer = await (forward() if fault is None else fault.happen(forward))
        except (CutError, aiohttp.ClientError):
            _cut(asked)
            return web.Response(status=502)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    async def _ask(self, asked: web.BaseRequest, body: bytes) -> Answer:
        async with self._session.request(
            asked.method, f"{self._target}{asked.path_qs}", data=body, headers=_headers(asked)
        ) as response:
            kept = {"Content-Type": response.headers.get("Content-Type", "application/json")}
            if "Retry-After" in response.headers:
                kept["Retry-After"] = response.headers["Retry-After"]
            return Answer(response.status, await response.read(), kept)

    async def _watch(self, asked: web.BaseRequest) -> web.StreamResponse:
        watch = Watch(asked.path.rpartition("/")[2])
        given = web.StreamResponse(headers={"Content-Type": "application/json"})
        self._proxy.watches.add(watch)
        try:
            async with self._session.get(
                f"{self._target}{asked.path_qs}", headers=_headers(asked)
            ) as response:
                given.set_status(response.status)
                await given.prepare(asked)
                await self._relay(asked, watch, response, given)
        except aiohttp.ClientError:
            _cut(asked)
        finally:
            self._proxy.watches.discard(watch)
        return given

    async def _relay(
        self,
        asked: web.BaseRequest,
        watch: Watch,
        response: aiohttp.ClientResponse,
        given: web.StreamResponse,
    ) -> None:
        """Pass on line by line, so that a watch can be ended between two."""
        reading = asyncio.ensure_future(response.content.readline())
        try:
            while watch.last is None and not _has_gone(asked):
                await asyncio.wait({reading}, timeout=_LOOK)
                if watch.plural in self._proxy.held or not reading.done():
                    await asyncio.sleep(_LOOK if reading.done() else 0)
                    continue
                line = reading.result()
                if not line:
                    return
                if not watch.silent:
                    await given.write(line)
                reading = asyncio.ensure_future(response.content.readline())
            if watch.last is not None:
                await given.write(watch.last)
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError, aiohttp.ClientError):
                await reading


def _headers(asked: web.BaseRequest) -> dict[str, str]:
    kept = {name: asked.headers[name] for name in _KEPT if name in asked.headers}
    return {**kept, "Accept-Encoding": "identity"}


def _has_gone(asked: web.BaseRequest) -> bool:
    return asked.transport is None or asked.transport.is_closing()


def _cut(asked: web.BaseRequest) -> None:
    if asked.transport is not None:
        asked.transport.abort()
