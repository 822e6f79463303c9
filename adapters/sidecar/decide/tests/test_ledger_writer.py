"""What is to be changed of nodes' records is written together, and not too often."""

import asyncio
from dataclasses import replace

from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.decide.ledger_writer import BURST, WRITE_INTERVAL_NS, LedgerWriter
from adapters.sidecar.tests.builders import CountingStore, FakeClock, RecordingDecisionLog, run
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger


class Timed(FakeClock):
    """Keeps for how long it was slept."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[int] = []

    async def sleep(self, nanoseconds: int) -> None:
        self.slept.append(nanoseconds)
        await super().sleep(nanoseconds)


def a_change(ledger: NodeLedger) -> NodeLedger:
    return replace(ledger, version=ledger.version + 1)


async def a_writer(*nodes: str) -> tuple[LedgerWriter, Timed, CountingStore]:
    book, store, clock = LedgerCache(), CountingStore(), Timed()
    for node in nodes:
        await store.write(NodeLedger.of(Node(node, ())), None)
    book.load(await store.load())
    return LedgerWriter(book, store, clock, RecordingDecisionLog()), clock, store


def test_after_a_burst_a_record_is_written_once_in_a_while_and_others_wait_for_nothing() -> None:
    async def work() -> tuple[list[int], list[int]]:
        writer, clock, _ = await a_writer("n1", "n2")
        for _ in range(BURST + 3):
            assert await writer.change("n1", a_change)
        first = [*clock.slept]
        clock.slept.clear()
        for _ in range(BURST):
            assert await writer.change("n2", a_change)
        return first, clock.slept

    of_the_busy, of_the_other = run(work())

    assert of_the_busy == [WRITE_INTERVAL_NS] * 3
    assert of_the_other == []


def test_who_was_quiet_for_as_long_as_that_takes_has_his_burst_again() -> None:
    async def work() -> list[int]:
        writer, clock, _ = await a_writer("n1")
        for _ in range(2):
            for _ in range(BURST):
                await writer.change("n1", a_change)
            clock.time += BURST * WRITE_INTERVAL_NS
        return clock.slept

    assert run(work()) == []


def test_what_comes_while_a_write_waits_goes_with_it() -> None:
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
