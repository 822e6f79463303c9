"""Ledgers as objects of a Kubernetes cluster: one ``NodeLedger`` a node, with the node's name.

The object's resourceVersion is the version, so that etcd decides who was first. Its kind is
defined in ``configs/crd/nodeledgers.yaml``. The object is ours alone: labels and annotations that
somebody else puts on it do not outlive the next write.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from adapters.stores.store import Change, Conflict, Stored, StoreError, changes_of, stored_of
from adapters.wire.kube import Metadata, Wire
from adapters.wire.ledger import encode
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import AllocationState

COLLECTION = "/apis/dragoman.dev/v1alpha1/nodeledgers"

WRITE = "dragoman.dev/write"
"""Annotation: another text for every write, by which a writer knows its own."""

_TURN = 16
"""Records that are read between two turns of the event loop."""


class LedgerObject(Wire, frozen=True, gc=False):
    """A NodeLedger, its record and its status unread."""

    metadata: Metadata
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw()


class _Written(Wire, frozen=True, gc=False):
    metadata: Mapping[str, object]
    spec: msgspec.Raw
    api_version: str = "dragoman.dev/v1alpha1"
    kind: str = "NodeLedger"


class LedgerApi(Protocol):
    """The API server: a path and a body in, the object out.

    Each raises an ``OSError`` where it gets no good answer; its attribute ``status`` is the HTTP
    status, or 0 or absent where there was none.
    """

    async def get(self, path: str) -> bytes:
        """Read the newest state of an object."""
        ...

    async def create(self, path: str, body: bytes) -> bytes:
        """Post an object to its collection."""
        ...

    async def replace(self, path: str, body: bytes) -> bytes:
        """Put an object in the place of another. It may be sent again after a failure."""
        ...

    async def delete(self, path: str, body: bytes) -> bytes:
        """Delete an object; the body is a ``DeleteOptions``."""
        ...


class NamedObject(Protocol):
    """Which object."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


class LedgerHandler(Protocol):
    """Who is told what there is; quick, in the event loop."""

    def on_update(self, thing: LedgerObject) -> None:
        """It is new, or not what it was."""
        ...

    def on_delete(self, what: NamedObject) -> None:
        """It is no more."""
        ...

    def on_unreadable(self, what: NamedObject, problem: str) -> None:
        """It is there, and nobody can read it."""
        ...

    def on_synced(self) -> None:
        """All that there was has been told."""
        ...


WatchLedgers = Callable[[LedgerHandler], Coroutine[object, object, None]]
"""Tells a sink what all NodeLedgers are and become, until it is cancelled."""


class _PendingUpdate(NamedTuple):
    """The last change of a node that the reader has not fetched.

    Attributes:
        object: as it is now; None where it was deleted or cannot be read.
        problem: why it cannot be read.
        recreated: the object was deleted in between, and the reader has not seen that.
    """

    object: LedgerObject | None = None
    problem: str | None = None
    recreated: bool = False

    def read(self, node: str, own: Stored | None = None) -> tuple[Change, ...]:
        """The changes that it means.

        Args:
            node: its name.
            own: what this process wrote last; it is not read again where that is told.
        """
        if self.object is not None:
            version = self.object.metadata.resource_version
            if own is not None and own.version == version and not self.recreated:
                return (Change(node, own),)
            return changes_of(node, version, self.object.spec, recreated=self.recreated)
        return (Change(node, None, self.problem),)


class _Inbox:
    """The news of each node that nobody has fetched yet, in the order in which they came."""

    def __init__(self) -> None:
        self.news: dict[str, _PendingUpdate] = {}
        self.full = asyncio.Event()
        self.complete = asyncio.Event()

    def on_update(self, thing: LedgerObject) -> None:
        """As in ``Sink``. What is kept is a copy, so that the page it came in is not."""
        self._put(
            thing.metadata.name, _PendingUpdate(LedgerObject(thing.metadata, thing.spec.copy()))
        )

    def on_delete(self, what: NamedObject) -> None:
        """As in ``Sink``."""
        self._put(what.name, _PendingUpdate())

    def on_unreadable(self, what: NamedObject, problem: str) -> None:
        """As in ``Sink``."""
        self._put(what.name, _PendingUpdate(problem=problem))

    def on_synced(self) -> None:
        """As in ``Sink``."""
        self.complete.set()

    def _put(self, node: str, news: _PendingUpdate) -> None:
        earlier = self.news.pop(node, None)
        if earlier is not None and (earlier.recreated or earlier == _PendingUpdate()):
            news = news._replace(recreated=True)
        self.news[node] = news
        self.full.set()


class KubernetesStore:
    """The NodeLedgers of a cluster."""

    def __init__(self, api: LedgerApi, follow: WatchLedgers) -> None:
        """Nothing is asked yet.

        Args:
            api: the server.
            follow: list and watch of all NodeLedgers; run from ``load`` to ``close``.
        """
        self._api = api
        self._follow = follow
        self._inbox = _Inbox()
        self._unread: list[Change] = []
        self._own: dict[str, Stored] = {}
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    async def load(self) -> Mapping[str, Stored]:
        """As in ``Store``; it waits for the server as long as it takes."""
        await self._stop()
        inbox = self._begin()
        await self._wait(inbox.complete)
        found: dict[str, Stored] = {}
        self._unread = []
        there, inbox.news = inbox.news, {}
        for count, (node, news) in enumerate(there.items(), start=1):
            for change in news.read(node):
                if change.stored is not None:
                    found[node] = change.stored
                elif change.problem is not None:
                    self._unread.append(change)
            if count % _TURN == 0:
                await asyncio.sleep(0)
        return found

    async def read(self, node: str) -> Stored | None:
        """As in ``Store``."""
        found = await self._get(node)
        if found is None:
            return None
        return stored_of(node, found.metadata.resource_version, found.spec)

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """As in ``Store``."""
        node, mark = ledger.node.name, secrets.token_hex(8)
        metadata: dict[str, object] = {"name": node, "annotations": {WRITE: mark}}
        if expected is not None:
            metadata["resourceVersion"] = expected
        body = msgspec.json.encode(_Written(metadata, msgspec.Raw(encode(ledger))))
        try:
            answer = await (
                self._api.create(COLLECTION, body)
                if expected is None
                else self._api.replace(_path(node), body)
            )
        except OSError as error:
            if not _was_late(error, created=expected is None):
                raise _failure(node, error) from error
            # A replacement that was sent twice conflicts with itself.
            there = await self._get(node)
            if there is None or (there.metadata.annotations or {}).get(WRITE) != mark:
                raise _conflict(node) from error
            return there.metadata.resource_version
        version = _object(node, answer).metadata.resource_version
        if all(one.state is AllocationState.COMMITTED for one in ledger.allocations.values()):
            self._own[node] = Stored(ledger, version)
        return version

    async def delete(self, node: str, expected: str) -> None:
        """As in ``Store``."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": expected},
        }
        try:
            await self._api.delete(_path(node), msgspec.json.encode(options))
        except OSError as error:
            if _was_late(error, created=False):
                raise _conflict(node) from error
            raise _failure(node, error) from error

    async def changes(self) -> AsyncGenerator[Change, None]:
        """As in ``Store``."""
        if self._following is None and not self._closed:
            self._begin()
        for change in self._unread:
            yield change
        while not self._closed:
            inbox = self._inbox
            while inbox.news:
                node, news = next(iter(inbox.news.items()))
                for change in news.read(node, self._own.pop(node, None)):
                    yield change
                if inbox.news.get(node) is news:
                    del inbox.news[node]
                await asyncio.sleep(0)
            inbox.full.clear()
            await self._wait(inbox.full)

    async def close(self) -> None:
        """As in ``Store``."""
        self._closed = True
        await self._stop()

    async def _get(self, node: str) -> LedgerObject | None:
        try:
            return _object(node, await self._api.get(_path(node)))
        except OSError as error:
            if _status(error) == HTTPStatus.NOT_FOUND:
                return None
            raise _failure(node, error) from error

    def _begin(self) -> _Inbox:
        self._inbox = _Inbox()
        self._following = asyncio.create_task(self._follow(self._inbox))
        return self._inbox

    async def _stop(self) -> None:
        self._inbox.full.set()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
            self._following = None

    async def _wait(self, event: asyncio.Event) -> None:
        """Wait for something that the following will tell.

        Raises:
            StoreError: it has ended and will not.
        """
        following = self._following
        if following is None:
            return
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait([waiting, following], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if following.done() and not following.cancelled():
            raise StoreError("nobody follows the ledgers any more") from following.exception()


def _path(node: str) -> str:
    return f"{COLLECTION}/{quote(node, safe='')}"


def _object(node: str, answer: bytes) -> LedgerObject:
    try:
        return msgspec.json.decode(answer, type=LedgerObject)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"the ledger of {node}: the answer cannot be read: {error}") from error


def _status(error: OSError) -> int:
    return getattr(error, "status", 0)


def _was_late(error: OSError, *, created: bool) -> bool:
    """Whether it says that the object is not, or not any more, what the writer knew."""
    late = {HTTPStatus.CONFLICT} if created else {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}
    return _status(error) in late


def _conflict(node: str) -> Conflict:
    return Conflict(f"the ledger of {node} was changed by another")


def _failure(node: str, error: OSError) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError(f"the ledger of {node}: {error}")
