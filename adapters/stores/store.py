"""What every store of ledgers can do, and how it says no."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from adapters.wire.ledger import LedgerRecordError, decode
from core.ledger.node_ledger import NodeLedger


class Conflict(Exception):  # noqa: N818 (it is no error: somebody was faster)
    """Somebody else wrote first: nothing was written; read, decide again, write again."""


class StoreError(OSError):
    """The store did not answer, or not in time. Whether it wrote is not known: read to find out."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A node's ledger as the store has it.

    Attributes:
        ledger: with its committed allocations, and no others.
        version: for the next write; opaque, and never used twice for one node.
    """

    ledger: NodeLedger
    version: str


@dataclass(frozen=True, slots=True)
class Change:
    """A node's record is now another one.

    Attributes:
        node: its name.
        stored: what is there now; None where the record was deleted or cannot be read.
        problem: why the record cannot be read. The node holds what nobody knows: it must not
            be used until somebody repairs the record.
    """

    node: str
    stored: Stored | None
    problem: str | None = None


class Store(Protocol):
    """Records of ledgers, one a node, with compare-and-swap on each.

    Every method may raise ``StoreError``. A cancelled write or delete may have happened.
    """

    async def load(self) -> Mapping[str, Stored]:
        """All records by node, but for those that cannot be read: ``changes`` tells of them."""
        ...

    async def read(self, node: str) -> Stored | None:
        """The newest record of a node; None where it has none.

        Raises:
            LedgerRecordError: it has one that cannot be read.
        """
        ...

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """Write a node's record in place of the one that the caller knows.

        Held allocations are left out.

        Args:
            ledger: what to write.
            expected: the version that it was made from; None where there must be no record yet.

        Returns:
            The new version.

        Raises:
            Conflict: the record has another version, is gone, or is there already.
        """
        ...

    async def delete(self, node: str, expected: str) -> None:
        """Delete the record that the caller knows.

        Raises:
            Conflict: the record has another version, or is gone.
        """
        ...

    def changes(self) -> AsyncGenerator[Change, None]:
        """Every change after the last ``load``, own ones included; for one reader at a time.

        Of each node they come in the order in which they were written. Where several follow
        quickly, some in between may be left out, the last one never, nor a deletion before a
        record that was made again; one may come twice.
        Records that ``load`` could not read come first. It has no end until ``close``; after a
        ``StoreError`` or a cancellation ask again, and nothing is missing.
        """
        ...

    async def close(self) -> None:
        """Give back what the store holds open; ``changes`` ends."""
        ...


def stored_of(node: str, version: str, record: bytes | msgspec.Raw) -> Stored:
    """What a store has under a node's name.

    Raises:
        LedgerRecordError: it cannot be read, or is the record of another node.
    """
    ledger = decode(record)
    if ledger.node.name != node:
        raise LedgerRecordError(f"the ledger's record is that of {ledger.node.name}, not of {node}")
    return Stored(ledger, version)


def changes_of(
    node: str, version: str, record: bytes | msgspec.Raw | None, *, recreated: bool = False
) -> tuple[Change, ...]:
    """The changes that a reader must see so that it knows the record of a node.

    Args:
        node: its name.
        version: of the record.
        record: None where it was deleted.
        recreated: the record was deleted and created again since the last change that the reader
            saw, so that the deletion comes first.
    """
    if record is None:
        return (Change(node, None),)
    try:
        change = Change(node, stored_of(node, version, record))
    except LedgerRecordError as error:
        change = Change(node, None, str(error))
    return (Change(node, None), change) if recreated else (change,)
