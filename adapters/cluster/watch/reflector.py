"""List and watch: a collection as it is, told to a sink one object at a time.

The order of work follows client-go's reflector (k8s.io/client-go/tools/cache/reflector.go); the
objects are read by msgspec from the bytes on the wire.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Generic

import msgspec

from adapters.cluster.api.backoff import delay, jitter
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import GONE, NOT_FOUND, UNAUTHORIZED, ClusterError, error_of, read
from adapters.cluster.watch.event_handler import EventHandler
from adapters.cluster.watch.ndjson import LineError, LineSplitter
from adapters.cluster.watch.object_tracker import HEAD, ObjectTracker, Seen, ThingT
from adapters.cluster.watch.selection import ReflectorStats, Selection, WatchSettings
from adapters.wire.api import INITIAL_EVENTS_END, Page, WatchEvent

_PAGE: msgspec.json.Decoder[Page] = msgspec.json.Decoder(Page)
_EVENT: msgspec.json.Decoder[WatchEvent] = msgspec.json.Decoder(WatchEvent)

# A server that asks for more than this many seconds is asked again all the same.
_LONGEST_WAIT = 60.0

# Between two turns of the event loop: about a millisecond of reading.
_BATCH_OBJECTS = 64
_BATCH_BYTES = 1 << 18

# Sources: k8s.io/apimachinery/pkg/apis/meta/v1/types.go, CauseTypeResourceVersionTooLarge;
# k8s.io/apiserver/pkg/storage/errors.go.
_TOO_LARGE = "ResourceVersionTooLarge"
_EXPIRED = "Expired"


@dataclass(slots=True)
class _Batch:
    """What was done since the event loop last had its turn."""

    objects: int = 0
    size: int = 0

    async def add(self, size: int) -> None:
        """Count one object of that many bytes, and let others run when it is time."""
        self.objects += 1
        self.size += size
        if self.objects >= _BATCH_OBJECTS or self.size >= _BATCH_BYTES:
            self.objects = self.size = 0
            await asyncio.sleep(0)


class Reflector(Generic[ThingT]):
    """Follows one collection until it is cancelled.

    Attributes:
        tally: what happened so far.
        ready: set when the first full sync is complete.
    """

    def __init__(
        self,
        client: KubeClient,
        selection: Selection,
        kind: type[ThingT],
        sink: EventHandler[ThingT],
        *,
        pace: WatchSettings | None = None,
        report: Callable[[ClusterError], None] | None = None,
    ) -> None:
        """Nothing is asked yet.

        Args:
            client: the server.
            selection: what is watched.
            kind: what objects are read as.
            sink: who is told.
            pace: seconds and sizes.
            report: told every failure; the reflector goes on.
        """
        self.tally = ReflectorStats()
        self.ready = asyncio.Event()
        self._client = client
        self._selection = selection
        self._path = selection.path
        self._sink = sink
        self._pace = pace or WatchSettings()
        self._report = report
        self._known = ObjectTracker(kind, sink)
        self._version = ""
        self._failures = 0
        self._streaming = self._pace.streaming
        self._stream_broke = False
        self._page = self._pace.page
        self._contact = -math.inf

    def __len__(self) -> int:
        """Objects known now."""
        return len(self._known)

    def staleness(self) -> float:
        """Seconds since the server last said anything; infinite before the first full sync.

        In a quiet collection it rises to a minute between two bookmarks.
        """
        return time.monotonic() - self._contact

    async def run(self) -> None:
        """List, watch, and begin again, until cancelled."""
        while True:
            try:
                await self._turn()
            except ClusterError as error:
                await self._failed(error)

    async def _turn(self) -> None:
        if self._version:
            await self._watch(None)
        elif self._streaming and not self._stream_broke:
            await self._watch(set())
        else:
            await self._list()
            await self._watch(None)

    async def _failed(self, error: ClusterError) -> None:
        if error.status == NOT_FOUND and self._selection.optional:
            self._end_of_sync(set(), "")
            self._failures = 0
            await asyncio.sleep(jitter(self._pace.absent))
            return
        self._failures += 1
        self.tally.failures += 1
        self.tally.problem = str(error)
        if self._report is not None:
            self._report(error)
        if error.status == UNAUTHORIZED:
            await self._renew()
        wait = delay(self._failures, first=self._pace.initial, most=self._pace.maximum)
        await asyncio.sleep(max(wait, min(error.retry_after or 0.0, _LONGEST_WAIT)))

    async def _renew(self) -> None:
        try:
            await self._client.renew()
        except ClusterError as error:
            self.tally.problem = str(error)

    async def _list(self) -> None:
        sync: Seen = set()
        token = ""
        while True:
            query = {**self._selection.query, "limit": str(self._page)}
            if token:
                query["continue"] = token
            page = await self._fetch(query)
            await self._take(page.items or (), sync)
            token = page.metadata.token
            if not token:
                break
        self._end_of_sync(sync, page.metadata.resource_version)

    async def _fetch(self, query: dict[str, str]) -> Page:
        try:
            body = await self._client.get(self._path, query)
        except ClusterError as error:
            if error.status == GONE and "continue" in query:
                # The pages outlived the server's snapshot of five minutes: fewer of them.
                self._page *= 4
            raise
        return read(_PAGE, body)

    async def _take(self, items: Iterable[msgspec.Raw], sync: Seen) -> None:
        batch = _Batch()
        for raw in items:
            self._known.upsert(raw, sync)
            await batch.add(len(memoryview(raw)))

    async def _watch(self, sync: Seen | None) -> None:
        began, told_before = time.monotonic(), self.tally.events
        self.tally.watches += 1
        try:
            async with self._client.stream(
                self._path, self._watch_query(sync), self._pace.idle
            ) as chunks:
                sync = await self._follow(chunks, sync)
        except ClusterError as error:
            self._learn(error, syncing=sync is not None)
            raise
        if sync is not None:
            self._stream_broke = True
            raise _garbage(f"{self._path}: the watch ended before it had told what there is")
        if self.tally.events == told_before and time.monotonic() - began < 1.0:
            raise ClusterError(0, "Broken", f"{self._path}: the watch ended at once")

    def _learn(self, error: ClusterError, *, syncing: bool) -> None:
        """What the next turn does differently."""
        if error.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
            self._streaming = False
            self._version = ""
        elif (
            error.status in {GONE, NOT_FOUND}
            or error.reason in {"Garbage", _EXPIRED}
            or _TOO_LARGE in error.causes
        ):
            self._version = ""
        if syncing and not self._version and error.reason != "Unreachable":
            # A server that never heard of WatchList passes the question over and stays silent.
            self._stream_broke = True

    async def _follow(self, chunks: AsyncIterator[bytes], sync: Seen | None) -> Seen | None:
        lines, batch = LineSplitter(), _Batch()
        async for chunk in chunks:
            for line in _split(lines, chunk):
                sync = self._event(line, sync)
                await batch.add(len(line))
            if sync is None:
                self._contact = time.monotonic()
        return sync

    def _event(self, line: bytes, sync: Seen | None) -> Seen | None:
        """Tell one line; the sync that is still going on after it."""
        event = read(_EVENT, line)
        match event.type:
            case "ADDED" | "MODIFIED":
                version = self._known.upsert(event.object, sync)
                self.tally.events += 1
            case "DELETED":
                version = self._known.delete(event.object, sync)
                self.tally.events += 1
            case "BOOKMARK":
                metadata = read(HEAD, event.object).metadata
                version = metadata.resource_version
                if sync is not None and (metadata.annotations or {}).get(INITIAL_EVENTS_END):
                    self._end_of_sync(sync, version)
                    sync = None
            case "ERROR":
                raise error_of(event.object)
            case other:
                raise _garbage(f"a watch event of type {other[:40]!r}")
        if sync is None and version:
            self._version = version
            self._failures = 0
            self.tally.problem = ""
        return sync

    def _end_of_sync(self, sync: Seen, version: str) -> None:
        self._known.replace(sync)
        self._version = version
        self._contact = time.monotonic()
        self._stream_broke = False
        self.tally.lists += 1
        self.tally.problem = ""
        self._sink.on_synced()
        self.ready.set()

    def _watch_query(self, sync: Seen | None) -> dict[str, str]:
        common = {
            **self._selection.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(jitter(self._pace.turn))),
        }
        if sync is None:
            return {**common, "resourceVersion": self._version}
        return {**common, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


def _split(lines: LineSplitter, chunk: bytes) -> list[bytes]:
    try:
        return lines.feed(chunk)
    except LineError as error:
        raise _garbage(str(error)) from error


def _garbage(problem: str) -> ClusterError:
    return ClusterError(0, "Garbage", problem)
