"""List and watch: a collection as it is, told to a sink one object at a time.

The order of work follows client-go's reflector (k8s.io/client-go/tools/cache/reflector.go); the
objects are read by msgspec from the bytes on the wire, and only identities are remembered here.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from adapters.cluster.backoff import pause, spread
from adapters.cluster.client import Client
from adapters.cluster.error import GONE, NOT_FOUND, UNAUTHORIZED, ClusterError, read, told
from adapters.cluster.lines import LineError, Lines
from adapters.cluster.paths import Resource
from adapters.wire.api import INITIAL_EVENTS_END, Head, Page, WatchEvent
from adapters.wire.kube import Metadata

_PAGE: msgspec.json.Decoder[Page] = msgspec.json.Decoder(Page)
_EVENT: msgspec.json.Decoder[WatchEvent] = msgspec.json.Decoder(WatchEvent)
_HEAD: msgspec.json.Decoder[Head] = msgspec.json.Decoder(Head)

# Between two turns of the event loop: about a millisecond of reading.
_BATCH_OBJECTS = 64
_BATCH_BYTES = 1 << 18

# Sources: k8s.io/apimachinery/pkg/apis/meta/v1/types.go, CauseTypeResourceVersionTooLarge;
# k8s.io/apiserver/pkg/storage/errors.go.
_TOO_LARGE = "ResourceVersionTooLarge"
_EXPIRED = "Expired"


class Thing(Protocol):
    """An object with its metadata."""

    @property
    def metadata(self) -> Metadata:
        """Name, namespace, uid, version."""
        ...


ThingT = TypeVar("ThingT", bound=Thing)
SunkT = TypeVar("SunkT", contravariant=True)


class Identity(NamedTuple):
    """Which object; a new one of the same name has another uid."""

    namespace: str
    name: str
    uid: str


class Sink(Protocol[SunkT]):
    """Who is told. Called in the event loop: must be quick, must not raise."""

    def changed(self, thing: SunkT) -> None:
        """It is new, or not what it was; told again after a reconnect it may be the same."""
        ...

    def gone(self, what: Identity) -> None:
        """It is no more."""
        ...

    def unreadable(self, what: Identity, problem: str) -> None:
        """It is there, and nobody can read it."""
        ...

    def synced(self) -> None:
        """All that there was has been told; after every full sync."""
        ...


@dataclass(frozen=True, slots=True)
class Selection:
    """What is watched.

    Attributes:
        resource: the kind.
        namespace: None for all.
        fields: field selector, such as ``metadata.name=x``.
        labels: label selector.
        optional: whether the kind may be unknown to the server (a CRD that nobody installed):
            then it counts as empty and is looked for again quietly.
    """

    resource: Resource
    namespace: str | None = None
    fields: str = ""
    labels: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds and sizes.

    Attributes:
        page: objects in a page of a list; 500 pods are about 4 MiB.
        turn: seconds after which the server ends a watch, so that they spread over servers.
        idle: seconds of silence after which a watch counts as dead; bookmarks come every minute.
        absent: seconds between two looks for a kind that the server does not know.
        first: seconds to wait after the first failure.
        most: seconds to wait after many.
        streaming: whether to ask the server for a list as a stream (WatchList) at all.
    """

    page: int = 500
    turn: float = 300.0
    idle: float = 100.0
    absent: float = 30.0
    first: float = 0.2
    most: float = 30.0
    streaming: bool = True


@dataclass(slots=True)
class Tally:
    """What happened so far, for metrics.

    Attributes:
        lists: full syncs that were completed.
        watches: watches that were begun.
        events: objects told by watches.
        failures: in all.
        problem: the last failure; empty after the next success.
    """

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0
    problem: str = ""


@dataclass(slots=True)
class _Sync:
    """A full sync in progress: what was seen so far."""

    seen: set[tuple[str, str]] = field(default_factory=set)


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
        client: Client,
        selection: Selection,
        kind: type[ThingT],
        sink: Sink[ThingT],
        *,
        pace: Pace | None = None,
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
        self.tally = Tally()
        self.ready = asyncio.Event()
        self._client = client
        self._selection = selection
        self._path = selection.resource.collection(selection.namespace)
        self._decoder: msgspec.json.Decoder[ThingT] = msgspec.json.Decoder(kind)
        self._sink = sink
        self._pace = pace or Pace()
        self._report = report
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
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
            await self._watch(_Sync())
        else:
            await self._list()
            await self._watch(None)

    async def _failed(self, error: ClusterError) -> None:
        if error.status == NOT_FOUND and self._selection.optional:
            self._end_of_sync(_Sync(), "")
            self._failures = 0
            await asyncio.sleep(spread(self._pace.absent))
            return
        self._failures += 1
        self.tally.failures += 1
        self.tally.problem = str(error)
        if self._report is not None:
            self._report(error)
        if error.status == UNAUTHORIZED:
            await self._renew()
        wait = pause(self._failures, first=self._pace.first, most=self._pace.most)
        await asyncio.sleep(max(wait, error.retry_after or 0.0))

    async def _renew(self) -> None:
        try:
            await self._client.renew()
        except ClusterError as error:
            self.tally.problem = str(error)

    async def _list(self) -> None:
        sync, token = _Sync(), ""
        while True:
            query = {**self._selectors(), "limit": str(self._page)}
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

    async def _take(self, items: Iterable[msgspec.Raw], sync: _Sync) -> None:
        batch = _Batch()
        for raw in items:
            self._tell(raw, sync)
            await batch.add(len(memoryview(raw)))

    async def _watch(self, sync: _Sync | None) -> None:
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

    async def _follow(self, chunks: AsyncIterator[bytes], sync: _Sync | None) -> _Sync | None:
        lines, batch = Lines(), _Batch()
        async for chunk in chunks:
            for line in _split(lines, chunk):
                sync = self._event(line, sync)
                await batch.add(len(line))
            if sync is None:
                self._contact = time.monotonic()
        return sync

    def _event(self, line: bytes, sync: _Sync | None) -> _Sync | None:
        """Tell one line; the sync that is still going on after it."""
        event = read(_EVENT, line)
        match event.type:
            case "ADDED" | "MODIFIED":
                version = self._tell(event.object, sync)
                self.tally.events += 1
            case "DELETED":
                version = self._remove(event.object, sync)
                self.tally.events += 1
            case "BOOKMARK":
                metadata = _head(event.object)
                version = metadata.resource_version
                if sync is not None and (metadata.annotations or {}).get(INITIAL_EVENTS_END):
                    self._end_of_sync(sync, version)
                    sync = None
            case "ERROR":
                raise told(event.object)
            case other:
                raise _garbage(f"a watch event of type {other[:40]!r}")
        if sync is None and version:
            self._version = version
            self._failures = 0
            self.tally.problem = ""
        return sync

    def _tell(self, raw: msgspec.Raw, sync: _Sync | None) -> str:
        problem, thing = "", None
        try:
            thing = self._decoder.decode(raw)
            metadata = thing.metadata
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem, metadata = str(error), _head(raw)
        if not metadata.name:
            raise _garbage("an object without a name")
        key = (metadata.namespace, metadata.name)
        fact = (metadata.uid, metadata.resource_version)
        if sync is not None:
            sync.seen.add(key)
        earlier = self._known.get(key)
        if earlier == fact:
            return metadata.resource_version
        if earlier is not None and earlier[0] != metadata.uid:
            self._sink.gone(Identity(*key, earlier[0]))
        self._known[key] = fact
        if thing is None:
            self._sink.unreadable(Identity(*key, metadata.uid), problem)
        else:
            self._sink.changed(thing)
        return metadata.resource_version

    def _remove(self, raw: msgspec.Raw, sync: _Sync | None) -> str:
        metadata = _head(raw)
        key = (metadata.namespace, metadata.name)
        if sync is not None:
            sync.seen.discard(key)
        known = self._known.pop(key, None)
        if known is not None:
            self._sink.gone(Identity(*key, known[0]))
        return metadata.resource_version

    def _end_of_sync(self, sync: _Sync, version: str) -> None:
        for key in [key for key in self._known if key not in sync.seen]:
            uid, _ = self._known.pop(key)
            self._sink.gone(Identity(*key, uid))
        self._version = version
        self._contact = time.monotonic()
        self._stream_broke = False
        self.tally.lists += 1
        self.tally.problem = ""
        self._sink.synced()
        self.ready.set()

    def _watch_query(self, sync: _Sync | None) -> dict[str, str]:
        common = {
            **self._selectors(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(spread(self._pace.turn))),
        }
        if sync is None:
            return {**common, "resourceVersion": self._version}
        return {**common, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    def _selectors(self) -> dict[str, str]:
        given = {"fieldSelector": self._selection.fields, "labelSelector": self._selection.labels}
        return {name: value for name, value in given.items() if value}


def _split(lines: Lines, chunk: bytes) -> list[bytes]:
    try:
        return lines.feed(chunk)
    except LineError as error:
        raise _garbage(str(error)) from error


def _head(raw: msgspec.Raw) -> Metadata:
    return read(_HEAD, raw).metadata


def _garbage(problem: str) -> ClusterError:
    return ClusterError(0, "Garbage", problem)
