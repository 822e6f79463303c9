import asyncio
import sqlite3
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from adapters.stores.sqlite import SqliteStore
from adapters.stores.store import Change, StoreError
from adapters.stores.tests.places import write_in_process
from core.tests.builders import empty, like_cards


def load_error(path: Path) -> str:
    async def run() -> None:
        store = SqliteStore(path, patience=0.2)
        try:
            await store.load()
        finally:
            await store.close()

    with pytest.raises(StoreError) as error:
        asyncio.run(run())
    return str(error.value)


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledgers.sqlite"
    path.write_text("ledgers" * 1000)

    assert "not a database" in load_error(path)


def test_a_file_of_another_schema_version_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "ledgers.sqlite"
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 7")
    file.close()

    assert "has schema version 7" in load_error(path)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert "unable to open" in load_error(tmp_path / "none" / "ledgers.sqlite")


def test_a_file_that_is_locked_too_long_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "ledgers.sqlite"

    async def run() -> None:
        store = SqliteStore(path, patience=0.2)
        await store.load()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            await store.write(empty(name="n"), None)
        other.close()

        assert await store.read("n") is None
        await store.write(empty(name="n"), None)
        await store.close()

    asyncio.run(run())


def test_other_tasks_run_while_a_write_waits(tmp_path: Path) -> None:
    path = tmp_path / "ledgers.sqlite"

    async def run() -> None:
        store = SqliteStore(path)
        await store.load()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.write(empty(name="n"), None))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not writing.done()
        other.close()
        await writing
        assert await store.read("n") is not None
        await store.close()

    began = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - began < 5


def test_processes_may_make_the_file_at_the_same_time(tmp_path: Path) -> None:
    async def run(path: Path) -> list[int]:
        processes = [await write_in_process(f"sqlite:{path}", f"w{n}", 0) for n in range(4)]
        return [await process.wait() for process in processes]

    for attempt in range(3):
        assert asyncio.run(run(tmp_path / f"{attempt}.sqlite")) == [0] * 4


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "ledgers.sqlite")
        await store.close()
        await store.close()
        with pytest.raises(StoreError, match="closed"):
            await store.load()

    asyncio.run(run())


def test_waiting_for_changes_costs_next_to_nothing_and_reads_no_rows(tmp_path: Path) -> None:
    async def run() -> float:
        store = SqliteStore(tmp_path / "ledgers.sqlite")
        for number in range(50):
            await store.write(empty(*like_cards(8), name=f"n{number}"), None)
        await store.load()

        async def wait() -> Change:
            async with aclosing(store.changes()) as changes:
                return await anext(changes)

        reading = asyncio.create_task(wait())
        await asyncio.sleep(0.2)
        began = time.process_time()
        await asyncio.sleep(1)
        spent = time.process_time() - began
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])
        await store.close()
        return spent

    spent = asyncio.run(run())

    print(f"{spent * 1000:.1f} ms of processor time for a second of waiting")  # noqa: T201
    assert spent < 0.1
