"""Ledgers and quotas as objects of a Kubernetes cluster.

Each node has a NodeLedger with its name, each namespace its ShareQuota. The object's
resourceVersion is the version, so that etcd decides which writer was first.
``configs/crd/nodeledgers.yaml`` defines the ledgers. The service owns them: its next write removes
labels and annotations of others.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, NOT_FOUND, ClusterError
from adapters.cluster.api.paths import NODE_LEDGERS, SHARE_QUOTAS
from adapters.cluster.watch.object_tracker import EventHandler, Identity
from adapters.stores import store
from adapters.wire.api import TypeMeta
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Unreadable
from adapters.wire.records.ledger import LedgerObject, LedgerReader, decode, encode
from adapters.wire.records.quota import (
    NAME,
    QuotaRecordError,
    ShareQuotaObject,
    write_new,
    write_status,
)
from core.ledger.node_ledger import NodeLedger
from core.quota.quota import Quota
from core.requests.grant import AllocationState

COLLECTION = NODE_LEDGERS.collection()

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


_TYPE = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "NodeLedger"}

_LEDGER = Decoder(LedgerObject)
_WRITTEN = Decoder(TypeMeta)
_QUOTA = Decoder(ShareQuotaObject)

WatchLedgers = Callable[[EventHandler[LedgerObject]], Coroutine[object, object, None]]
"""Lists and watches all NodeLedgers for a handler, until it is cancelled."""


class PendingUpdate(NamedTuple):
    """The last change of a node that the reader has not fetched.

    Attributes:
        object: as it is now; None where it was deleted or cannot be read.
        problem: why it cannot be read.
        recreated: the object was deleted in between, and the reader has not seen that.
    """

    object: LedgerObject | None = None
    problem: str | None = None
    recreated: bool = False

    def read(
        self, node: str, decode: store.Decode = decode, own: store.Stored | None = None
    ) -> tuple[store.Change, ...]:
        """Return the changes for the reader.

        Args:
            node: its name.
            decode: gives the ledger of the record.
            own: what this process wrote last; where the update is that write, it is not decoded.
        """
        if self.object is not None:
            version = self.object.metadata.resource_version
            if own is not None and own.version == version and not self.recreated:
                return (store.Change(node, own),)
            spec, recreated = self.object.spec, self.recreated
            return store.changes_of(node, version, spec, recreated=recreated, decode=decode)
        return (store.Change(node, None, self.problem),)


class Inbox:
    """The last update of each node that the reader has not fetched, in order of arrival."""

    def __init__(self) -> None:
        self.updates: dict[str, PendingUpdate] = {}
        self.filled = asyncio.Event()
        self.synced = asyncio.Event()

    def on_update(self, thing: LedgerObject) -> None:
        """Implement ``EventHandler.on_update``. A copy is kept, to free the page of the list."""
        self._put(
            thing.metadata.name, PendingUpdate(LedgerObject(thing.metadata, thing.spec.copy()))
        )

    def on_delete(self, what: Identity) -> None:
        """Implement ``EventHandler.on_delete``."""
        self._put(what.name, PendingUpdate())

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """Implement ``EventHandler.on_unreadable``."""
        self._put(what.name, PendingUpdate(problem=problem))

    def on_synced(self) -> None:
        """Implement ``EventHandler.on_synced``."""
        self.synced.set()

    def _put(self, node: str, update: PendingUpdate) -> None:
        earlier = self.updates.pop(node, None)
        if earlier is not None and (earlier.recreated or earlier == PendingUpdate()):
            update = update._replace(recreated=True)
        self.updates[node] = update
        self.filled.set()


class KubernetesStore:
    """The NodeLedgers of a cluster."""

    def __init__(self, api: KubeClient, watch: WatchLedgers) -> None:
        """Send no request yet; ``watch`` runs from ``load`` to ``close``."""
        self._api = api
        self._watch = watch
        self._inbox = Inbox()
        self._unreadable: list[store.Change] = []
        self._own: dict[str, store.Stored] = {}
        self._reader = LedgerReader()
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    async def load(self) -> Mapping[str, store.Stored]:
        """Implement ``Store.load``; waits for the server without a time limit."""
        await self._stop()
        inbox = self._begin()
        await self._wait(inbox.synced)
        stored: dict[str, store.Stored] = {}
        self._unreadable = []
        updates, inbox.updates = inbox.updates, {}
        with store.kept():
            for count, (node, update) in enumerate(updates.items(), start=1):
                for change in update.read(node):
                    if change.stored is not None:
                        stored[node] = change.stored
                    elif change.problem is not None:
                        self._unreadable.append(change)
                if count % _BATCH == 0:
                    await asyncio.sleep(0)
        return stored

    async def read(self, node: str) -> store.Stored | None:
        """Implement ``Store.read``."""
        item = await self._get(node)
        if item is None:
            return None
        version = item.metadata.resource_version
        return store.stored_of(node, version, item.spec, self._reader.read)

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """Implement ``Store.write``."""
        node, mark = ledger.node.name, secrets.token_hex(8)
        metadata: dict[str, object] = {"name": node, "annotations": {WRITE: mark}}
        if expected is not None:
            metadata |= {"resourceVersion": expected, "managedFields": _CLEARED}
        record = {"metadata": metadata, "spec": msgspec.Raw(encode(ledger))}
        body = msgspec.json.encode({**_TYPE, **record})
        rejected = (CONFLICT,) if expected is None else (CONFLICT, NOT_FOUND)
        with _answered(f"the ledger of {node}", *rejected):
            try:
                answer = await (
                    self._api.create(COLLECTION, body, metadata_only=True)
                    if expected is None
                    else self._api.replace(NODE_LEDGERS.path(node), body, metadata_only=True)
                )
            except ClusterError as error:
                if error.status not in rejected:
                    raise
                # The second copy of a request that the client sent twice conflicts with the first.
                newest = await self._get(node)
                if newest is None or (newest.metadata.annotations or {}).get(WRITE) != mark:
                    raise
                return newest.metadata.resource_version
            version = _WRITTEN.decode(answer).metadata.resource_version
        if all(one.state is AllocationState.COMMITTED for one in ledger.allocations.values()):
            self._own[node] = store.Stored(ledger, version)
        return version

    async def delete(self, node: str, expected: str) -> None:
        """Implement ``Store.delete``."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": expected},
        }
        with _answered(f"the ledger of {node}", CONFLICT, NOT_FOUND):
            await self._api.delete(NODE_LEDGERS.path(node), msgspec.json.encode(options))

    async def changes(self) -> AsyncGenerator[store.Change, None]:
        """Implement ``Store.changes``."""
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
        """Implement ``Store.close``."""
        self._closed = True
        await self._stop()

    async def _get(self, node: str) -> LedgerObject | None:
        with _answered(f"the ledger of {node}"):
            answer = await self._api.find(NODE_LEDGERS.path(node))
            return None if answer is None else _LEDGER.decode(answer)

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
            raise store.StoreError("the watch of the ledgers has ended") from watching.exception()


@contextmanager
def _answered(what: str, *rejected: int) -> Iterator[None]:
    """Say what an error of a request was about; another writer was faster at ``rejected``."""
    try:
        yield
    except ClusterError as error:
        if error.status in rejected:
            raise store.Conflict(f"{what} was changed by another writer") from error
        raise store.StoreError(f"{what}: {error}") from error
    except UnreadableError as error:
        raise store.StoreError(f"{what}: the answer cannot be read: {error}") from error


class KubernetesQuotas:
    """The ShareQuotas of a cluster; implements ``QuotaStore``."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api

    async def read(self, namespace: str) -> store.StoredQuota | None:
        """Implement ``QuotaStore.read``."""
        with _answered(f"the quota of {namespace}"):
            answer = await self._api.find(SHARE_QUOTAS.path(NAME, namespace))
        return None if answer is None else store.stored_quota(_quota(namespace, answer))

    async def create(self, namespace: str) -> store.StoredQuota:
        """Implement ``QuotaStore.create``."""
        path = SHARE_QUOTAS.collection(namespace)
        with _answered(f"the quota of {namespace}", CONFLICT):
            answer = await self._api.create(path, write_new(namespace))
        return store.stored_quota(_quota(namespace, answer))

    async def write(self, quota: Quota, expected: str) -> str:
        """Implement ``QuotaStore.write``."""
        path = SHARE_QUOTAS.path(NAME, quota.namespace, "status")
        with _answered(f"the quota of {quota.namespace}", CONFLICT, NOT_FOUND):
            answer = await self._api.replace(path, write_status(quota, expected))
        return _quota(quota.namespace, answer).metadata.resource_version


def _quota(namespace: str, answer: bytes) -> ShareQuotaObject:
    try:
        return _QUOTA.decode(answer)
    except UnreadableError as error:
        raise QuotaRecordError(f"the quota of {namespace} cannot be read: {error}") from error
