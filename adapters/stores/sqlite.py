"""Ledgers in a SQLite file that several processes of one machine may share.

One row for each node. One counter gives the versions of the whole file, so that one query finds
all changes since a version. The row of a deleted node stays, empty, so that no version is used
twice; its column ``again`` is the version at which the record was created again.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from adapters.stores.store import Change, Conflict, Stored, StoreError, changes_of, stored_of
from adapters.wire.records.ledger import encode
from core.ledger.node_ledger import NodeLedger

T = TypeVar("T")

Stamp = tuple[int, int]
"""Different after every commit: the file's ``data_version``, which counts those of others, and the
number of our own. Source: https://www.sqlite.org/pragma.html#pragma_data_version."""

SCHEMA_VERSION = 1
"""Version of the table, stored as the file's ``user_version``."""

_REMEDIES = {
    sqlite3.SQLITE_CANTOPEN: "; its folder must exist and be writable",
    sqlite3.SQLITE_READONLY: "; file and folder must be writable",
    sqlite3.SQLITE_NOTADB: "; name a new file, or one that Dragoman made",
}
"""What an operator does about an error of SQLite, by its code."""

_TABLE = """
CREATE TABLE IF NOT EXISTS ledgers (
    node TEXT PRIMARY KEY,
    version INTEGER NOT NULL UNIQUE,
    again INTEGER NOT NULL DEFAULT 0,
    record TEXT
)
"""


class SqliteStore:
    """The ledgers of one file.

    A thread of its own does all work, because a write waits for the disk and for other processes.
    ``changes`` finds the writes of other processes within ``poll`` seconds.
    """

    def __init__(self, path: Path, *, poll: float = 0.1, patience: float = 10.0) -> None:
        self._path = path
        self._poll = poll
        self._patience = patience
        self._thread = ThreadPoolExecutor(1, "sqlite")
        self._opened: sqlite3.Connection | None = None
        self._closed = False
        self._changed = asyncio.Event()
        self._written = 0
        self._loaded = 0
        self._unreadable: list[Change] = []

    async def load(self) -> Mapping[str, Stored]:
        """Implement ``Store.load``."""
        self._loaded, changes = await self._do(lambda: self._since(0))
        self._unreadable = [change for change in changes if change.problem is not None]
        return {change.node: change.stored for change in changes if change.stored is not None}

    async def read(self, node: str) -> Stored | None:
        """Implement ``Store.read``."""
        version, _, record = await self._do(lambda: self._row(node))
        return None if record is None else stored_of(node, str(version), record)

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """Implement ``Store.write``."""
        record = encode(ledger).decode()
        version = await self._do(lambda: self._swap(ledger.node.name, expected, record))
        self._changed.set()
        return version

    async def delete(self, node: str, expected: str) -> None:
        """Implement ``Store.delete``."""
        await self._do(lambda: self._swap(node, expected, None))
        self._changed.set()

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Implement ``Store.changes``."""
        for change in self._unreadable:
            yield change
        seen: int = self._loaded
        stamp: Stamp | None = None
        while not self._closed:
            self._changed.clear()
            stamp, seen, changes = await self._do(partial(self._changes_after, stamp, seen))
            for change in changes:
                yield change
            try:
                async with asyncio.timeout(self._poll):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        """Implement ``Store.close``."""
        if not self._closed:
            self._closed = True
            self._changed.set()
            await asyncio.get_running_loop().run_in_executor(self._thread, self._shut)
            self._thread.shutdown()

    async def _do(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise StoreError(f"{self._path} is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            remedy = _REMEDIES.get(error.sqlite_errorcode, "")
            raise StoreError(f"store: sqlite:{self._path}: {error}{remedy}") from error

    # --- in the thread ----------------------------------------------------------------------------

    def _file(self) -> sqlite3.Connection:
        if self._opened is None:
            file = sqlite3.connect(self._path, timeout=self._patience, isolation_level=None)
            file.text_factory = bytes
            try:
                _set_write_ahead_log(file, self._patience)
                _prepare(file)
            except BaseException:
                file.close()
                raise
            self._opened = file
        return self._opened

    def _shut(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _row(self, node: str) -> tuple[int, int, bytes | None]:
        query = "SELECT version, again, record FROM ledgers WHERE node = ?"
        row: tuple[int, int, bytes | None] | None
        row = self._file().execute(query, (node,)).fetchone()
        return row or (0, 0, None)

    def _swap(self, node: str, expected: str | None, record: str | None) -> str:
        file = self._file()
        file.execute("BEGIN IMMEDIATE")
        try:
            version, recreated, known = self._row(node)
            if expected != (None if known is None else str(version)):
                raise Conflict(f"the ledger of {node} was changed by another writer")
            (new,) = file.execute("SELECT coalesce(max(version), 0) + 1 FROM ledgers").fetchone()
            recreated = new if version and known is None else recreated
            file.execute(
                "INSERT OR REPLACE INTO ledgers (node, version, again, record) VALUES (?, ?, ?, ?)",
                (node, new, recreated, record),
            )
            file.execute("COMMIT")
        finally:
            if file.in_transaction:
                file.execute("ROLLBACK")
        self._written += 1
        return str(new)

    def _changes_after(self, stamp: Stamp | None, seen: int) -> tuple[Stamp, int, list[Change]]:
        """Return the changes after a version; reads the table only after a commit."""
        (others,) = self._file().execute("PRAGMA data_version").fetchone()
        newest = (others, self._written)
        return (newest, seen, []) if newest == stamp else (newest, *self._since(seen))

    def _since(self, seen: int) -> tuple[int, list[Change]]:
        query = (
            "SELECT node, version, again, record FROM ledgers WHERE version > ? ORDER BY version"
        )
        rows = self._file().execute(query, (seen,)).fetchall()
        newest = max((version for _, version, _, _ in rows), default=seen)
        changes = [
            change
            for node, version, again, record in rows
            for change in changes_of(node.decode(), str(version), record, recreated=again > seen)
        ]
        return newest, changes


def _set_write_ahead_log(file: sqlite3.Connection, patience: float) -> None:
    """Set write-ahead logging: readers and a writer do not wait for each other.

    With ``synchronous = FULL`` a commit survives a power cut. Where several processes open a new
    file at the same time, SQLite answers some of them at once that it is locked, without waiting
    for ``patience`` seconds; so they try again.
    """
    end = time.monotonic() + patience
    while True:
        try:
            file.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.01)
    file.execute("PRAGMA synchronous = FULL")


def _prepare(file: sqlite3.Connection) -> None:
    """Create the table in a new file.

    Raises:
        StoreError: the file holds something else.
    """
    file.execute("BEGIN IMMEDIATE")
    (version,) = file.execute("PRAGMA user_version").fetchone()
    if version not in (0, SCHEMA_VERSION):
        raise StoreError(
            f"the ledger's file has schema version {version}; this program reads {SCHEMA_VERSION}"
        )
    file.execute(_TABLE)
    file.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    file.execute("COMMIT")
