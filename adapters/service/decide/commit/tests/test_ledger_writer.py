"""Concurrent changes to a ledger share one write, and writes are not too frequent."""

import asyncio
from dataclasses import replace

import pytest

from adapters.service.decide.commit.ledger_writer import BURST, WRITE_INTERVAL_NS, LedgerWriter
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.tests.builders import CountingStore, FakeClock, RecordingDecisionLog, run
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger


class RecordingClock(FakeClock):
    """Records how long each sleep was."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[int] = []

    async def sleep(self, nanoseconds: int) -> None:
        self.slept.append(nanoseconds)
        await super().sleep(nanoseconds)


def a_change(ledger: NodeLedger) -> tuple[NodeLedger, int]:
    return replace(ledger, version=ledger.version + 1), ledger.version + 1


async def a_writer(*nodes: str) -> tuple[LedgerWriter, RecordingClock, CountingStore]:
    ledgers, store, clock = LedgerCache(), CountingStore(), RecordingClock()
    for node in nodes:
        await store.write(NodeLedger.of(Node(node, ())), None)
    ledgers.load(await store.load())
    return LedgerWriter(ledgers, store, clock, RecordingDecisionLog()), clock, store


def test_after_a_burst_writes_of_a_ledger_are_spaced_and_other_ledgers_do_not_wait() -> None:
    async def work() -> tuple[list[int], list[int]]:
        writer, clock, _ = await a_writer("n1", "n2")
        for _ in range(BURST + 3):
            assert await writer.change("n1", a_change)
        first = [*clock.slept]
        clock.slept.clear()
        for _ in range(BURST):
            assert await writer.change("n2", a_change)
        return first, clock.slept

    busy, idle = run(work())

    assert busy == [WRITE_INTERVAL_NS] * 3
    assert idle == []


def test_a_ledger_that_was_not_written_for_a_while_has_its_burst_again() -> None:
    async def work() -> list[int]:
        writer, clock, _ = await a_writer("n1")
        for _ in range(2):
            for _ in range(BURST):
                await writer.change("n1", a_change)
            clock.time += BURST * WRITE_INTERVAL_NS
        return clock.slept

    assert run(work()) == []


def test_changes_that_arrive_while_a_write_waits_share_it() -> None:
    async def work() -> tuple[int, int]:
        writer, _, store = await a_writer("n1")
        for _ in range(BURST):
            await writer.change("n1", a_change)
        writes = store.writes
        await asyncio.gather(*(writer.change("n1", a_change) for _ in range(7)))
        stored = await store.read("n1")
        assert stored is not None
        return stored.ledger.version, store.writes - writes

    assert run(work()) == (BURST + 7, 1)


def test_each_caller_gets_the_value_of_its_own_change() -> None:
    async def work() -> list[int | None]:
        writer, _, _ = await a_writer("n1")
        return await asyncio.gather(*(writer.change("n1", a_change) for _ in range(3)))

    assert run(work()) == [1, 2, 3]


def test_a_node_without_a_ledger_gives_no_value() -> None:
    async def work() -> int | None:
        writer, _, _ = await a_writer()
        return await writer.change("n1", a_change)

    assert run(work()) is None


def test_a_change_of_a_ledger_that_was_deleted_meanwhile_gives_no_value() -> None:
    async def work() -> int | None:
        writer, _, store = await a_writer("n1")
        stored = await store.read("n1")
        assert stored is not None
        await store.delete("n1", stored.version)  # the cache has it still
        return await writer.change("n1", a_change)

    assert run(work()) is None


def test_a_caller_that_is_cancelled_while_a_write_waits_changes_nothing() -> None:
    async def work() -> tuple[int, int]:
        writer, _, store = await a_writer("n1")
        for _ in range(BURST):
            await writer.change("n1", a_change)
        writes = store.writes
        cancelled, kept = (asyncio.create_task(writer.change("n1", a_change)) for _ in range(2))
        await asyncio.sleep(0)
        cancelled.cancel()
        await kept
        stored = await store.read("n1")
        assert stored is not None
        return stored.ledger.version, store.writes - writes

    assert run(work()) == (BURST + 1, 1)


def test_a_change_that_fails_does_not_stop_the_others() -> None:
    def fails(ledger: NodeLedger) -> tuple[NodeLedger, int]:
        raise ValueError(ledger.node.name)

    async def work() -> list[object]:
        writer, _, _ = await a_writer("n1")
        changes = (writer.change("n1", fails), writer.change("n1", a_change))
        return [*await asyncio.gather(*changes, return_exceptions=True)]

    failed, made = run(work())

    assert isinstance(failed, ValueError)
    assert made == 1


@pytest.mark.parametrize("turns", [1, 2], ids=["before the write begins", "during the write"])
def test_closing_cancels_the_callers_that_wait(turns: int) -> None:
    async def work() -> list[object]:
        writer, _, store = await a_writer("n1")

        async def never(_: NodeLedger, __: str | None) -> str:
            await asyncio.Event().wait()
            raise AssertionError

        store.write = never  # type: ignore[method-assign,assignment]
        calls = [asyncio.create_task(writer.change("n1", a_change)) for _ in range(2)]
        for _ in range(turns):
            await asyncio.sleep(0)
        writer.close()
        ended = asyncio.gather(*calls, return_exceptions=True)
        return [*await asyncio.wait_for(ended, 5)]

    assert all(isinstance(result, asyncio.CancelledError) for result in run(work()))
