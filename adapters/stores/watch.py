"""What a list and watch of the NodeLedgers finds, until the store's reader fetches it. No I/O."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import NamedTuple, Protocol

from adapters.stores.store import Change, Decode, Stored, changes_of
from adapters.wire.records.ledger import LedgerObject, decode


class NamedObject(Protocol):
    """An object of which only the name is known."""

    @property
    def name(self) -> str:
        """The object's name."""
        ...


class LedgerHandler(Protocol):
    """Takes what a list and watch finds. Runs in the event loop and must not block."""

    def on_update(self, thing: LedgerObject) -> None:
        """The object is new, or was changed."""
        ...

    def on_delete(self, what: NamedObject) -> None:
        """The object was deleted."""
        ...

    def on_unreadable(self, what: NamedObject, problem: str) -> None:
        """The object exists and cannot be decoded."""
        ...

    def on_synced(self) -> None:
        """The initial list is complete."""
        ...


WatchLedgers = Callable[[LedgerHandler], Coroutine[object, object, None]]
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
        self, node: str, decode: Decode = decode, own: Stored | None = None
    ) -> tuple[Change, ...]:
        """The changes for the reader.

        Args:
            node: its name.
            decode: gives the ledger of the record.
            own: what this process wrote last; where the update is that write, it is not decoded.
        """
        if self.object is not None:
            version = self.object.metadata.resource_version
            if own is not None and own.version == version and not self.recreated:
                return (Change(node, own),)
            spec, recreated = self.object.spec, self.recreated
            return changes_of(node, version, spec, recreated=recreated, decode=decode)
        return (Change(node, None, self.problem),)


class Inbox:
    """The last update of each node that the reader has not fetched, in order of arrival."""

    def __init__(self) -> None:
        self.updates: dict[str, PendingUpdate] = {}
        self.filled = asyncio.Event()
        self.synced = asyncio.Event()

    def on_update(self, thing: LedgerObject) -> None:
        """Implements ``LedgerHandler.on_update``. A copy is kept, to free the page of the list."""
        self._put(
            thing.metadata.name, PendingUpdate(LedgerObject(thing.metadata, thing.spec.copy()))
        )

    def on_delete(self, what: NamedObject) -> None:
        """Implements ``LedgerHandler.on_delete``."""
        self._put(what.name, PendingUpdate())

    def on_unreadable(self, what: NamedObject, problem: str) -> None:
        """Implements ``LedgerHandler.on_unreadable``."""
        self._put(what.name, PendingUpdate(problem=problem))

    def on_synced(self) -> None:
        """Implements ``LedgerHandler.on_synced``."""
        self.synced.set()

    def _put(self, node: str, update: PendingUpdate) -> None:
        earlier = self.updates.pop(node, None)
        if earlier is not None and (earlier.recreated or earlier == PendingUpdate()):
            update = update._replace(recreated=True)
        self.updates[node] = update
        self.filled.set()
