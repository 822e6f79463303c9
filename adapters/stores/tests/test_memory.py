"""What a change costs in a memory store."""

import asyncio
from typing import Any

from adapters.stores.memory import MemoryStore, MemoryTable
from adapters.stores.tests.ledgers import a_ledger


def test_a_change_reads_no_record_that_is_older() -> None:
    async def run() -> str:
        table = MemoryTable()
        store = MemoryStore(table)
        for name in ("oldest", "older"):
            await store.write(a_ledger(name), None)
        await store.load()
        unread: Any = None  # has no version, so that reading it would fail
        table.rows["oldest"] = unread
        changes = store.changes()
        await store.write(a_ledger("newest"), None)
        return (await anext(changes)).node

    assert asyncio.run(run()) == "newest"
