"""Lists and watches a collection, and calls a handler for each object that changes.

The steps follow client-go's reflector (k8s.io/client-go/tools/cache/reflector.go). A library was
not used because of its cost, measured for pods: the official client, kubernetes_asyncio, lightkube
and kr8s take 48 to 711 us to decode one, msgspec 8 us from the bytes on the wire. A cache of 20,000
takes 55 MB here, and 2,602 MB in the official client's informer; kubernetes_asyncio takes 179 MB
for 3,000.

Scope of the loops, from the outside in: ``run`` repeats cycles until cancelled; a cycle is one
watch request, after a full list where one is needed; ``_handle_stream`` reads the lines of one
watch response; ``_handle_event`` handles one line.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Generic

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import GONE, NOT_FOUND, UNAUTHORIZED, ClusterError, error_of, read
from adapters.cluster.api.paths import Selection
from adapters.cluster.api.transport import delay, jitter
from adapters.cluster.watch.object_tracker import (
    EventHandler,
    ObjectDecoder,
    ObjectT,
    ObjectTracker,
    ReportUnreadable,
)
from adapters.wire.api import INITIAL_EVENTS_END, Page, TypeMeta, WatchEvent
from adapters.wire.decode.partial_decoder import PartialDecoder

_PAGE = PartialDecoder(Page)
_EVENT = PartialDecoder(WatchEvent)
_BOOKMARK = PartialDecoder(TypeMeta)

# Seconds: the longest Retry-After of a server that is respected.
_LONGEST_WAIT = 60.0

# Objects and bytes decoded before the event loop gets its turn: about a millisecond.
_BATCH_OBJECTS = 64
_BATCH_BYTES = 1 << 18

# Sources: k8s.io/apimachinery/pkg/apis/meta/v1/types.go, CauseTypeResourceVersionTooLarge;
# k8s.io/apiserver/pkg/storage/errors.go.
_TOO_LARGE = "ResourceVersionTooLarge"
_EXPIRED = "Expired"

_NEWLINE = b"\n"

# An object is at most 1.5 MiB in etcd, and a watch line is one object in JSON.
LONGEST = 1 << 26


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Seconds and sizes.

    Attributes:
        page: objects in a page of a list; 500 pods are about 4 MiB.
        turn: seconds after which the server ends a watch, so that watches spread over servers.
        idle: seconds without data after which a watch counts as dead; a bookmark comes each minute.
        absent: seconds between two looks for a kind that the server does not know.
        initial: seconds to wait after the first failure.
        maximum: seconds to wait after many.
        streaming: whether to ask the server for a list as a stream (WatchList) at all.
    """

    page: int = 500
    turn: float = 300.0
    idle: float = 100.0
    absent: float = 30.0
    initial: float = 0.2
    maximum: float = 30.0
    streaming: bool = True


@dataclass(slots=True)
class ReflectorStats:
    """Counts of what happened so far.

    Attributes:
        lists: full lists that were completed.
        watches: watch requests that were sent.
        events: additions, changes and deletions in watches.
        failures: in all.
        problem: the last failure; empty after the next success.
    """

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0
    problem: str = ""


class LineError(ValueError):
    """A line is longer than any object can be."""


class LineSplitter:
    """Splits a stream of bytes; a line without its newline waits for more. No I/O.

    aiohttp's own iteration over lines fails beyond 128 KiB of buffered data; objects may be larger,
    and kopf splits lines itself for the same reason.

    Attributes:
        waiting: bytes of the unfinished line.
    """

    __slots__ = ("_parts", "waiting")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.waiting = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without newlines and empty lines.

        Raises:
            LineError: the unfinished line is longer than ``LONGEST``.
        """
        first, *rest = chunk.split(_NEWLINE)
        self._parts.append(first)
        self.waiting += len(first)
        if not rest:
            if self.waiting > LONGEST:
                raise LineError(f"a line of more than {LONGEST} bytes")
            return []
        *whole, last = rest
        lines = [b"".join(self._parts), *whole]
        self._parts = [last]
        self.waiting = len(last)
        return [line for line in lines if line.strip()]


@dataclass(slots=True)
class _Batch:
    """Counts the work since the event loop last had its turn."""

    objects: int = 0
    size: int = 0

    async def add(self, size: int) -> None:
        """Count one object of ``size`` bytes; yield to the event loop when it is time."""
        self.objects += 1
        self.size += size
        if self.objects >= _BATCH_OBJECTS or self.size >= _BATCH_BYTES:
            self.objects = self.size = 0
            await asyncio.sleep(0)


class Reflector(Generic[ObjectT]):
    """Follows one collection until it is cancelled.

    Attributes:
        ready: set when the first full list is complete.
    """

    def __init__(
        self,
        client: KubeClient,
        selection: Selection,
        kind: type[ObjectT] | ObjectDecoder[ObjectT],
        handler: EventHandler[ObjectT],
        *,
        settings: WatchSettings | None = None,
        report: Callable[[ClusterError], None] | None = None,
        report_unreadable: ReportUnreadable | None = None,
    ) -> None:
        """Send no request yet.

        ``report`` is called with each error, after which the reflector goes on.
        """
        self.stats = ReflectorStats()
        self.ready = asyncio.Event()
        self._client = client
        self._selection = selection
        self._path = selection.path
        self._handler = handler
        self._settings = settings or WatchSettings()
        self._report = report
        decoder = PartialDecoder(kind) if isinstance(kind, type) else kind
        self._tracker = ObjectTracker(decoder, handler, report_unreadable)
        self._version = ""
        self._failures = 0
        self._streaming = self._settings.streaming
        self._stream_broke = False
        self._page_size = self._settings.page
        self._contact = -math.inf

    def __len__(self) -> int:
        """How many objects there are now."""
        return len(self._tracker)

    @property
    def unreadable(self) -> int:
        """How many of the objects cannot be decoded."""
        return len(self._tracker.unreadable)

    @property
    def listing(self) -> bool:
        """Whether a full list is going on."""
        return self._tracker.listing

    def staleness(self) -> float:
        """Return the seconds since the server last sent anything; infinite before the first list.

        In a quiet collection it rises to a minute between two bookmarks.
        """
        return time.monotonic() - self._contact

    async def run(self) -> None:
        """List and watch, again and again, until cancelled."""
        while True:
            try:
                if not self._version and self._streaming and not self._stream_broke:
                    # A server with WatchList sends the list as the beginning of the watch.
                    self._tracker.begin_list()
                elif not self._version:
                    await self._list_all_pages()
                await self._watch()
            except ClusterError as error:
                await self._wait_after(error)

    async def _wait_after(self, error: ClusterError) -> None:
        if error.status == NOT_FOUND and self._selection.optional:
            self._tracker.begin_list()
            self._end_list("")
            self._failures = 0
            await asyncio.sleep(jitter(self._settings.absent))
            return
        self._failures += 1
        self.stats.failures += 1
        self.stats.problem = str(error)
        if self._report is not None:
            self._report(error)
        if error.status == UNAUTHORIZED:
            try:
                await self._client.renew()
            except ClusterError as problem:
                self.stats.problem = str(problem)
        wait = delay(self._failures, first=self._settings.initial, most=self._settings.maximum)
        await asyncio.sleep(max(wait, min(error.retry_after or 0.0, _LONGEST_WAIT)))

    async def _list_all_pages(self) -> None:
        self._tracker.begin_list()
        batch, token = _Batch(), ""
        while True:
            query = {**self._selection.query, "limit": str(self._page_size)}
            if token:
                query["continue"] = token
            try:
                page = read(_PAGE, await self._client.get(self._path, query))
            except ClusterError as error:
                if error.status == GONE and token:
                    # The server keeps the snapshot of a list for five minutes: fewer, larger pages.
                    self._page_size *= 4
                raise
            for raw in page.items or ():
                self._tracker.upsert(raw)
                await batch.add(len(memoryview(raw)))
            token = page.metadata.token
            if not token:
                break
        self._end_list(page.metadata.resource_version)

    async def _watch(self) -> None:
        """Send one watch request and handle its response to the end."""
        began, events_before = time.monotonic(), self.stats.events
        query = {
            **self._selection.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(jitter(self._settings.turn))),
        }
        if self._tracker.listing:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = self._version
        self.stats.watches += 1
        try:
            async with self._client.stream(self._path, query, self._settings.idle) as chunks:
                await self._handle_stream(chunks)
        except ClusterError as error:
            self._adapt_to(error)
            raise
        if self._tracker.listing:
            self._stream_broke = True
            raise _garbage(f"{self._path}: the watch ended before its list was complete")
        if self.stats.events == events_before and time.monotonic() - began < 1.0:
            raise ClusterError(0, "Broken", f"{self._path}: the watch ended at once")

    def _adapt_to(self, error: ClusterError) -> None:
        """Choose by the error of a watch what the next cycle does differently."""
        if error.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
            # The server does not know the parameters of WatchList, or rejects the version.
            self._streaming = False
            self._version = ""
        elif (
            # "410 Gone" is "resource version too old": only a new list helps. As in client-go.
            error.status in {GONE, NOT_FOUND}
            or error.reason in {"Garbage", _EXPIRED}
            or _TOO_LARGE in error.causes
        ):
            self._version = ""
        if self._tracker.listing and not self._version and error.reason != "Unreachable":
            # A server without WatchList ignores sendInitialEvents and sends nothing.
            self._stream_broke = True

    async def _handle_stream(self, chunks: AsyncIterator[bytes]) -> None:
        """Handle all lines of one watch response."""
        lines, batch = LineSplitter(), _Batch()
        async for chunk in chunks:
            try:
                completed = lines.feed(chunk)
            except LineError as error:
                raise _garbage(str(error)) from error
            for line in completed:
                self._handle_event(line)
                await batch.add(len(line))
            if not self._tracker.listing:
                self._contact = time.monotonic()

    def _handle_event(self, line: bytes) -> None:
        event = read(_EVENT, line)
        match event.type:
            case "ADDED" | "MODIFIED":
                version = self._tracker.upsert(event.object)
                self.stats.events += 1
            case "DELETED":
                version = self._tracker.delete(event.object)
                self.stats.events += 1
            case "BOOKMARK":
                metadata = read(_BOOKMARK, event.object).metadata
                version = metadata.resource_version
                if self._tracker.listing and (metadata.annotations or {}).get(INITIAL_EVENTS_END):
                    self._end_list(version)
            case "ERROR":
                raise error_of(event.object)
            case other:
                raise _garbage(f"a watch event of type {other[:40]!r}")
        if version and not self._tracker.listing:
            self._version = version
            self._failures = 0
            self.stats.problem = ""

    def _end_list(self, version: str) -> None:
        self._tracker.end_list()
        self._version = version
        self._contact = time.monotonic()
        self._stream_broke = False
        self.stats.lists += 1
        self.stats.problem = ""
        self._handler.on_synced()
        self.ready.set()


def _garbage(problem: str) -> ClusterError:
    return ClusterError(0, "Garbage", problem)
