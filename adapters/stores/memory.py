"""Ledgers and quotas in the memory of one process: for tests, and a service without a cluster."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from adapters.stores.store import Change, Conflict, Stored, StoredQuota, changes_of, stored_of
from adapters.wire.records.ledger import encode
from core.ledger.node_ledger import NodeLedger
from core.quota.quota import Quota


class MemoryRow(NamedTuple):
    """The record of one node in a table.

    Attributes:
        record: None where it was deleted.
        recreated: the version at which it was created again after its last deletion; 0 for never.
    """

    version: int = 0
    record: bytes | None = None
    recreated: int = 0


@dataclass(slots=True)
class MemoryTable:
    """The records that several memory stores of one event loop share.

    Attributes:
        rows: by node, the latest change last; rows of deleted nodes stay, so that no version is
            used twice.
        readers: one for each store; set when something has changed.
    """

    rows: dict[str, MemoryRow] = field(default_factory=dict)
    readers: list[asyncio.Event] = field(default_factory=list)
    count: int = 0

    def put(self, node: str, expected: str | None, record: bytes | None) -> str:
        """Compare and swap.

        Raises:
            Conflict: the node's version is another one.
        """
        row = self.rows.get(node, MemoryRow())
        if expected != (None if row.record is None else str(row.version)):
            raise Conflict(f"the ledger of {node} was changed by another writer")
        self.count += 1
        self.rows.pop(node, None)
        recreated = self.count if row.version and row.record is None else row.recreated
        self.rows[node] = MemoryRow(self.count, record, recreated)
        for reader in self.readers:
            reader.set()
        return str(self.count)


class MemoryStore:
    """One service's access to a table."""

    def __init__(self, table: MemoryTable | None = None) -> None:
        self._table = table or MemoryTable()
        self._loaded = 0
        self._open = True
        self._unreadable: list[Change] = []
        self._changed = asyncio.Event()
        self._table.readers.append(self._changed)

    async def load(self) -> Mapping[str, Stored]:
        """Implement ``Store.load``."""
        changes = self._since(0)
        self._loaded = self._table.count
        self._unreadable = [change for change in changes if change.problem is not None]
        return {change.node: change.stored for change in changes if change.stored is not None}

    async def read(self, node: str) -> Stored | None:
        """Implement ``Store.read``."""
        row = self._table.rows.get(node, MemoryRow())
        return None if row.record is None else stored_of(node, str(row.version), row.record)

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """Implement ``Store.write``."""
        return self._table.put(ledger.node.name, expected, encode(ledger))

    async def delete(self, node: str, expected: str) -> None:
        """Implement ``Store.delete``."""
        self._table.put(node, expected, None)

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Implement ``Store.changes``."""
        for change in self._unreadable:
            yield change
        seen = self._loaded
        while self._open:
            self._changed.clear()
            changes, seen = self._since(seen), self._table.count
            for change in changes:
                yield change
            await self._changed.wait()

    async def close(self) -> None:
        """Implement ``Store.close``."""
        self._open = False
        self._changed.set()
        if self._changed in self._table.readers:
            self._table.readers.remove(self._changed)

    def _since(self, seen: int) -> list[Change]:
        newest_first = reversed(self._table.rows.items())
        newer = [*takewhile(lambda item: item[1].version > seen, newest_first)]
        return [
            change
            for node, row in reversed(newer)
            for change in changes_of(
                node, str(row.version), row.record, recreated=row.recreated > seen
            )
        ]


class MemoryQuotas:
    """Quotas in the memory of one process, for tests; implements ``QuotaStore``."""

    def __init__(self, quotas: tuple[Quota, ...] = ()) -> None:
        self._count = 1
        self._by_namespace = {each.namespace: StoredQuota(each, "1") for each in quotas}

    def all(self) -> list[StoredQuota]:
        """All quotas as they are now."""
        return [*self._by_namespace.values()]

    def delete(self, namespace: str) -> None:
        """Delete a quota, as an administrator does."""
        self._by_namespace.pop(namespace, None)

    async def read(self, namespace: str) -> StoredQuota | None:
        """Implement ``QuotaStore.read``."""
        return self._by_namespace.get(namespace)

    async def create(self, namespace: str) -> StoredQuota:
        """Implement ``QuotaStore.create``."""
        if namespace in self._by_namespace:
            raise Conflict(f"the quota of {namespace} was changed by another writer")
        self._count += 1
        created = StoredQuota(Quota(namespace), str(self._count))
        self._by_namespace[namespace] = created
        return created

    async def write(self, quota: Quota, expected: str) -> str:
        """Implement ``QuotaStore.write``."""
        known = self._by_namespace.get(quota.namespace)
        if known is None or known.version != expected:
            raise Conflict(f"the quota of {quota.namespace} was changed by another writer")
        self._count += 1
        self._by_namespace[quota.namespace] = StoredQuota(quota, str(self._count))
        return str(self._count)
