"""The interfaces of all stores of ledgers and quotas, and their errors."""

import gc
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from adapters.wire.records.ledger import LedgerRecordError, decode
from adapters.wire.records.quota import ShareQuotaObject, read_quota
from core.ledger.node_ledger import NodeLedger
from core.quota.quota import Quota


class Conflict(Exception):  # noqa: N818 (it is no error: another writer was faster)
    """Another writer was first. Nothing was written: read, decide again, write again."""


class StoreError(OSError):
    """The store did not answer, or not in time. It may have written: read to find out."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A node's ledger in the store.

    Attributes:
        ledger: with its committed allocations, and no others.
        version: for the next write; opaque, and never used twice for one node.
    """

    ledger: NodeLedger
    version: str


@dataclass(frozen=True, slots=True)
class Change:
    """A node's record has changed.

    Attributes:
        stored: the record now; None where it was deleted or cannot be read.
        problem: why the record cannot be read; None where it can. The node's allocations are not
            known then, so no pod may be placed there until an operator repairs the record.
    """

    node: str
    stored: Stored | None
    problem: str | None = None


class Store(Protocol):
    """Records of ledgers, one a node, with compare-and-swap on each.

    Every method may raise ``StoreError``. A cancelled write or delete may have happened.
    """

    async def load(self) -> Mapping[str, Stored]:
        """All readable records by node; ``changes`` begins with the others."""

    async def read(self, node: str) -> Stored | None:
        """Return the newest record of a node; None where it has none.

        Raises:
            LedgerRecordError: it has one that cannot be read.
        """

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """Write a node's record in place of the one that the caller read; return its version.

        Reservations are left out. ``expected`` is the version that the caller read, None where
        there must be no record yet.

        Raises:
            Conflict: the record has another version, does not exist any more, or exists already.
        """

    async def delete(self, node: str, expected: str) -> None:
        """Delete the record that the caller read.

        Raises:
            Conflict: the record has another version, or does not exist any more.
        """

    def changes(self) -> AsyncGenerator[Change, None]:
        """Every change after the last ``load``, own ones included; for one reader at a time.

        The changes of one node come in the order of their writes. Where several follow quickly,
        the store may leave out some in between, but never the last one, nor a deletion before a
        record that was created again; one may come twice. Records that ``load`` could not read
        come first. The iteration ends with ``close``. After a ``StoreError`` or a cancellation
        call again: no change is lost.
        """

    async def close(self) -> None:
        """Close connections and files; ``changes`` ends."""


Decode = Callable[[bytes | msgspec.Raw], NodeLedger]
"""Gives the ledger of a record; raises ``LedgerRecordError`` where it cannot be read."""


def stored_of(
    node: str, version: str, record: bytes | msgspec.Raw, decode: Decode = decode
) -> Stored:
    """Return the stored value of a record.

    Raises:
        LedgerRecordError: the record cannot be read, or is that of another node.
    """
    ledger = decode(record)
    if ledger.node.name != node:
        raise LedgerRecordError(f"the ledger's record is that of {ledger.node.name}, not of {node}")
    return Stored(ledger, version)


def changes_of(
    node: str,
    version: str,
    record: bytes | msgspec.Raw | None,
    *,
    recreated: bool = False,
    decode: Decode = decode,
) -> tuple[Change, ...]:
    """Return the changes that a reader must see so that it knows the record of a node.

    Where ``recreated``, the record was deleted and created again since the last change that the
    reader saw, so that the deletion comes first. None stands for a record that was deleted.
    """
    if record is None:
        return (Change(node, None),)
    try:
        change = Change(node, stored_of(node, version, record, decode))
    except LedgerRecordError as error:
        change = Change(node, None, str(error))
    return (Change(node, None), change) if recreated else (change,)


@dataclass(frozen=True, slots=True)
class StoredQuota:
    """A quota in the store.

    Attributes:
        quota: with all holds.
        version: for the next write; opaque.
        uid: of the object: one that was deleted and created again has another.
    """

    quota: Quota
    version: str
    uid: str = ""


class QuotaStore(Protocol):
    """Quotas by namespace. Every method may raise ``StoreError``."""

    async def read(self, namespace: str) -> StoredQuota | None:
        """Return the newest quota of a namespace; None where it has none.

        Raises:
            QuotaRecordError: it has one that cannot be used.
        """

    async def create(self, namespace: str) -> StoredQuota:
        """Create a quota without limits, for the holds of a namespace.

        Raises:
            Conflict: the namespace has one.
            QuotaRecordError: the store answers with one that cannot be used.
        """

    async def write(self, quota: Quota, expected: str) -> str:
        """Write holds in place of those that the caller read, and return the new version.

        The limits stay.

        Raises:
            Conflict: the quota has another version, or does not exist any more.
        """


def stored_quota(thing: ShareQuotaObject) -> StoredQuota:
    """Return the stored value of an object.

    Raises:
        QuotaRecordError: it cannot be used.
    """
    return StoredQuota(read_quota(thing), thing.metadata.resource_version, thing.metadata.uid)


@contextmanager
def kept() -> Iterator[None]:
    """Collect no garbage within, and leave what was made there out of all later collections.

    With 50,000 ledgers, half of a load's processor time is collections by Python's own thresholds,
    and a quarter by the service's. It is for the start: garbage in circles that other tasks make
    meanwhile stays.
    """
    gc.collect()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
