"""Where the conformance suite keeps ledgers: one place for each kind of store."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from adapters.stores.memory import MemoryStore, MemoryTable
from adapters.stores.sqlite import SqliteStore
from adapters.stores.store import Store
from adapters.stores.tests.writers import place_many


class Place(Protocol):
    """A place that several stores reach at once."""

    @property
    def address(self) -> str | None:
        """For other processes; None where there is no way for them."""
        ...

    def open(self) -> AbstractAsyncContextManager[Store]:
        """A store of this place, closed in the end."""
        ...

    async def spoil(self, node: str, record: bytes) -> None:
        """Put something there as the record of a node."""
        ...


class InMemory:
    """One shelf; its writers are tasks."""

    address: str | None = None

    def __init__(self) -> None:
        self._shelf = MemoryTable()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        store = MemoryStore(self._shelf)
        yield store
        await store.close()

    async def spoil(self, node: str, record: bytes) -> None:
        self._shelf.put(node, str(self._shelf.rows[node].version), record)


class InFile:
    """One SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.address: str | None = f"sqlite:{path}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        store = SqliteStore(self._path, poll=0.01)
        yield store
        await store.close()

    async def spoil(self, node: str, record: bytes) -> None:
        with sqlite3.connect(self._path) as file:
            query = "SELECT coalesce(max(version), 0) + 1 FROM ledgers"
            (version,) = file.execute(query).fetchone()
            query = "INSERT OR REPLACE INTO ledgers (node, version, record) VALUES (?, ?, ?)"
            file.execute(query, (node, version, record))
        file.close()


def place_at(address: str) -> Place:
    """The place that another process has named."""
    kind, _, where = address.partition(":")
    return InFile(Path(where)) if kind == "sqlite" else in_cluster(Path(where))


def in_cluster(kubeconfig: Path) -> Place:
    """The NodeLedgers of a cluster. Only this imports what speaks to it."""
    from adapters.stores.tests.in_cluster import InCluster

    return InCluster(kubeconfig)


async def write_in_process(address: str, name: str, count: int) -> asyncio.subprocess.Process:
    """Start a writer in a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "adapters.stores.tests.places",
        address,
        name,
        str(count),
        stdout=asyncio.subprocess.PIPE,
    )


async def _write(address: str, name: str, count: int) -> None:
    async with place_at(address).open() as store:
        await store.load()
        await place_many(store, name, count)


if __name__ == "__main__":
    asyncio.run(_write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
