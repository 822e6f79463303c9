"""Ledgers as objects of a Kubernetes cluster: one ``NodeLedger`` for each node, with its name.

The object's resourceVersion is the version, so that etcd decides which writer was first.
``configs/crd/nodeledgers.yaml`` defines the resource. The service owns the object: its next write
removes labels and annotations of others.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from typing import Protocol
from urllib.parse import quote

import msgspec

from adapters.stores.collector import kept
from adapters.stores.store import Change, Conflict, Stored, StoreError, stored_of
from adapters.stores.watch import Inbox, WatchLedgers
from adapters.wire.api import TypeMeta
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Metadata, Wire
from adapters.wire.records.ledger import LedgerObject, encode
from adapters.wire.records.ledger_reader import LedgerReader
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import AllocationState

COLLECTION = "/apis/dragoman.dev/v1alpha1/nodeledgers"

WRITE = "dragoman.dev/write"
"""Annotation: a random text for every write, by which a writer recognizes its own."""

_CLEARED: tuple[dict[str, str]] = ({},)
"""``managedFields`` by which an update makes the API server drop those that it has, and keep none
until someone applies the object. To compare the fields of both records took a sixth of the time of
a write. Source: k8s.io/apimachinery 0.37 pkg/util/managedfields/internal, fieldmanager.go
(``isResetManagedFields``) and skipnonapplied.go.
"""

_BATCH = 16
"""Records that ``load`` decodes before other tasks run."""


class _Written(Wire, frozen=True, gc=False):
    metadata: Mapping[str, object]
    spec: msgspec.Raw
    api_version: str = "dragoman.dev/v1alpha1"
    kind: str = "NodeLedger"


_LEDGER = Decoder(LedgerObject)
_WRITTEN = Decoder(TypeMeta)


class LedgerApi(Protocol):
    """The API server: a path and a body in, the object out.

    Each method raises an ``OSError`` where the request fails; its attribute ``status`` is the HTTP
    status, or 0 or absent where there was none.
    """

    async def get(self, path: str) -> bytes:
        """Read the newest state of an object."""
        ...

    async def create(self, path: str, body: bytes, *, metadata_only: bool) -> bytes:
        """Post an object to its collection.

        Args:
            path: of the collection.
            body: the object.
            metadata_only: whether the answer may leave out all of the object but its metadata.
        """
        ...

    async def replace(self, path: str, body: bytes, *, metadata_only: bool) -> bytes:
        """Replace an object; arguments as of ``create``.

        The client may send the request again after a failure.
        """
        ...

    async def delete(self, path: str, body: bytes) -> bytes:
        """Delete an object; the body is a ``DeleteOptions``."""
        ...


class KubernetesStore:
    """The NodeLedgers of a cluster."""

    def __init__(self, api: LedgerApi, watch: WatchLedgers) -> None:
        """Send no request yet.

        Args:
            api: the server.
            watch: list and watch of all NodeLedgers; runs from ``load`` to ``close``.
        """
        self._api = api
        self._watch = watch
        self._inbox = Inbox()
        self._unreadable: list[Change] = []
        self._own: dict[str, Stored] = {}
        self._reader = LedgerReader()
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    async def load(self) -> Mapping[str, Stored]:
        """Implements ``Store.load``; waits for the server without a time limit."""
        await self._stop()
        inbox = self._begin()
        await self._wait(inbox.synced)
        stored: dict[str, Stored] = {}
        self._unreadable = []
        updates, inbox.updates = inbox.updates, {}
        with kept():
            for count, (node, update) in enumerate(updates.items(), start=1):
                for change in update.read(node):
                    if change.stored is not None:
                        stored[node] = change.stored
                    elif change.problem is not None:
                        self._unreadable.append(change)
                if count % _BATCH == 0:
                    await asyncio.sleep(0)
        return stored

    async def read(self, node: str) -> Stored | None:
        """Implements ``Store.read``."""
        item = await self._get(node)
        if item is None:
            return None
        version = item.metadata.resource_version
        return stored_of(node, version, item.spec, self._reader.read)

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """Implements ``Store.write``."""
        node, mark = ledger.node.name, secrets.token_hex(8)
        metadata: dict[str, object] = {"name": node, "annotations": {WRITE: mark}}
        if expected is not None:
            metadata |= {"resourceVersion": expected, "managedFields": _CLEARED}
        body = msgspec.json.encode(_Written(metadata, msgspec.Raw(encode(ledger))))
        try:
            answer = await (
                self._api.create(COLLECTION, body, metadata_only=True)
                if expected is None
                else self._api.replace(_path(node), body, metadata_only=True)
            )
        except OSError as error:
            if not _is_conflict(error, created=expected is None):
                raise _failure(node, error) from error
            # The second copy of a request that the client sent twice conflicts with the first.
            newest = await self._get(node)
            if newest is None or (newest.metadata.annotations or {}).get(WRITE) != mark:
                raise _conflict(node) from error
            return newest.metadata.resource_version
        version = _metadata(node, answer).resource_version
        if all(one.state is AllocationState.COMMITTED for one in ledger.allocations.values()):
            self._own[node] = Stored(ledger, version)
        return version

    async def delete(self, node: str, expected: str) -> None:
        """Implements ``Store.delete``."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": expected},
        }
        try:
            await self._api.delete(_path(node), msgspec.json.encode(options))
        except OSError as error:
            if _is_conflict(error, created=False):
                raise _conflict(node) from error
            raise _failure(node, error) from error

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Implements ``Store.changes``."""
        if self._watching is None and not self._closed:
            self._begin()
        for change in self._unreadable:
            yield change
        while not self._closed:
            inbox = self._inbox
            while inbox.updates:
                node, update = next(iter(inbox.updates.items()))
                for change in update.read(node, self._reader.read, self._own.pop(node, None)):
                    yield change
                if update.object is None:
                    self._reader.forget(node)
                if inbox.updates.get(node) is update:
                    del inbox.updates[node]
                await asyncio.sleep(0)
            inbox.filled.clear()
            await self._wait(inbox.filled)

    async def close(self) -> None:
        """Implements ``Store.close``."""
        self._closed = True
        await self._stop()

    async def _get(self, node: str) -> LedgerObject | None:
        try:
            return _object(node, await self._api.get(_path(node)))
        except OSError as error:
            if _status(error) == HTTPStatus.NOT_FOUND:
                return None
            raise _failure(node, error) from error

    def _begin(self) -> Inbox:
        self._inbox = Inbox()
        self._watching = asyncio.create_task(self._watch(self._inbox))
        return self._inbox

    async def _stop(self) -> None:
        self._inbox.filled.set()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None

    async def _wait(self, event: asyncio.Event) -> None:
        """Wait for an event that the watch sets.

        Raises:
            StoreError: the watch has ended, so that it never sets the event.
        """
        watching = self._watching
        if watching is None:
            return
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait([waiting, watching], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if watching.done() and not watching.cancelled():
            raise StoreError("the watch of the ledgers has ended") from watching.exception()


def _path(node: str) -> str:
    return f"{COLLECTION}/{quote(node, safe='')}"


def _object(node: str, answer: bytes) -> LedgerObject:
    try:
        return _LEDGER.decode(answer)
    except UnreadableError as error:
        raise _unreadable(node, error) from error


def _metadata(node: str, answer: bytes) -> Metadata:
    try:
        return _WRITTEN.decode(answer).metadata
    except UnreadableError as error:
        raise _unreadable(node, error) from error


def _unreadable(node: str, error: UnreadableError) -> StoreError:
    return StoreError(f"the ledger of {node}: the answer cannot be read: {error}")


def _status(error: OSError) -> int:
    return getattr(error, "status", 0)


def _is_conflict(error: OSError, *, created: bool) -> bool:
    """Whether the server rejects the write because the object is not the one that was read."""
    conflicts = {HTTPStatus.CONFLICT}
    if not created:
        conflicts.add(HTTPStatus.NOT_FOUND)
    return _status(error) in conflicts


def _conflict(node: str) -> Conflict:
    return Conflict(f"the ledger of {node} was changed by another writer")


def _failure(node: str, error: OSError) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError(f"the ledger of {node}: {error}")
