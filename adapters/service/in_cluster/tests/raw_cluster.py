"""An API server whose objects may have any text, and that writes what the service writes."""

import asyncio
import json
from collections.abc import Iterable

from adapters.cluster.tests.objects import Objects
from adapters.cluster.tests.server import Reply, Request

_BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":'
    b'{"k8s.io/initial-events-end":"true"}}}}\n'
)


class RawCluster(Objects):
    """The objects, some of them as raw JSON.

    Attributes:
        raw: JSON by path, in place of what ``at`` has there.
        watched: collections that were watched.
    """

    def __init__(self) -> None:
        super().__init__()
        self.raw: dict[str, bytes] = {}
        self.watched: set[str] = set()
        self._changed = asyncio.Event()
        self._written: list[str] = []

    def put_raw(self, path: str, thing: bytes) -> None:
        """Add or replace an object."""
        self.raw[path] = thing
        self._wake(path)

    def put(self, path: str, thing: dict[str, object]) -> dict[str, object]:
        """Put an object, and wake the watches of its path."""
        made = super().put(path, thing)
        self._wake(path)
        return made

    def _wake(self, path: str) -> None:
        self._written.append(path)
        self._changed.set()
        self._changed = asyncio.Event()

    async def __call__(self, request: Request, reply: Reply) -> None:
        if "watch" in request.query:
            await self._watch(request, reply)
        elif request.method == "GET" and request.path in self.raw:
            await reply.answer(200, self.raw[request.path])
        else:
            await super().__call__(request, reply)

    async def _watch(self, request: Request, reply: Reply) -> None:
        self.watched.add(request.path)
        await reply.begin()
        seen = len(self._written)
        first = self._lines(request, dict.fromkeys((*self.at, *self.raw)), b"ADDED")
        await reply.chunk(first + _BOOKMARK)
        while True:
            while seen == len(self._written):
                await self._changed.wait()
            paths, seen = self._written[seen:], len(self._written)
            lines = self._lines(request, dict.fromkeys(paths), b"MODIFIED")
            if lines:
                await reply.chunk(lines)

    def _lines(self, request: Request, paths: Iterable[str], event: bytes) -> bytes:
        return b"".join(
            b'{"type":"%b","object":%b}\n' % (event, self._text(path))
            for path in paths
            if _selects(request, path)
        )

    def _text(self, path: str) -> bytes:
        return self.raw[path] if path in self.raw else json.dumps(self.at[path]).encode()


def _selects(request: Request, path: str) -> bool:
    group, _, plural = request.path.rpartition("/")
    *_, own, name = path.split("/")
    wanted = request.query.get("fieldSelector", f"metadata.name={name}")
    labelled = "labelSelector" in request.query
    return (
        own == plural
        and path.startswith(f"{group}/")
        and wanted == f"metadata.name={name}"
        and labelled == name.startswith("agent-")
    )
