"""What every store does, whichever it is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.stores.kubernetes import COLLECTION
from adapters.stores.store import Change, Conflict, Store, Stored
from adapters.stores.tests.ledgers import a_ledger
from adapters.stores.tests.places import InFile, InMemory, Place, in_cluster, write_in_process
from adapters.stores.tests.writers import allocate, place_many
from adapters.wire.records.ledger import LedgerRecordError
from adapters.wire.tests.ledgers import a_rich_ledger
from core.ledger.node_ledger import NodeLedger
from core.tests.builders import a_grant, empty, held, like_cards, tentative

Test = Callable[[Store, Store], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite", "kubernetes"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        return InMemory()
    if request.param == "sqlite":
        return InFile(tmp_path / "ledgers.sqlite")
    plane = request.getfixturevalue("cluster")
    plane.api.delete(COLLECTION)
    return in_cluster(plane.kubeconfig("admin", "system:masters"))


def with_two(place: Place, test: Test) -> None:
    """Run a test with two stores of one place."""

    async def run() -> None:
        async with place.open() as one, place.open() as other:
            await test(one, other)

    asyncio.run(run())


async def raises_conflict(write: Awaitable[object]) -> bool:
    try:
        await write
    except Conflict:
        return True
    return False


async def take(changes: AsyncIterator[Change], last: Callable[[Change], bool]) -> list[Change]:
    """Changes up to the first one that is the last one, which must come soon."""
    found: list[Change] = []
    async with asyncio.timeout(30):
        async for change in changes:
            found.append(change)
            if last(change):
                return found
    raise AssertionError("the changes ended")


def test_what_was_written_is_read_by_all(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        version = await one.write(a_ledger(pods=2), None)

        stored = Stored(a_ledger(pods=2), version)
        assert await one.read("n") == await other.read("n") == stored
        assert await other.load() == {"n": stored}

    with_two(place, test)


def test_no_field_of_a_ledger_is_lost(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        ledger = a_rich_ledger("m")
        first = await one.write(ledger, None)
        plain = ledger.with_node(replace(ledger.node, isolation=None, gains=(), partitions=()))

        assert await other.read("m") == Stored(ledger, first)
        second = await other.write(plain, first)
        assert await one.read("m") == Stored(plain, second)

    with_two(place, test)


def test_a_node_without_a_record_is_none(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        assert await one.read("n") is None
        assert await other.load() == {}

    with_two(place, test)


def test_reservations_are_not_written(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        ledger = a_ledger().reserve(tentative(held(a_grant("c0"), uid="mine"), expires=7))

        await one.write(ledger.adopt(held(a_grant("c1"), uid="all's")), None)

        stored = await other.read("n")
        assert stored is not None
        assert list(stored.ledger.allocations) == ["all's"]
        assert [use.slots for use in stored.ledger.usages] == [0, 1]

    with_two(place, test)


def test_a_write_needs_the_newest_version(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        first = await one.write(a_ledger(), None)
        second = await other.write(a_ledger(pods=1), first)

        assert first != second
        assert await raises_conflict(one.write(a_ledger(pods=2), first))
        assert await one.read("n") == Stored(a_ledger(pods=1), second)

    with_two(place, test)


def test_a_write_without_an_expectation_needs_an_empty_place(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        await one.write(a_ledger(), None)

        assert await raises_conflict(other.write(a_ledger(pods=1), None))

    with_two(place, test)


def test_a_version_that_never_was_conflicts(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        version = await one.write(a_ledger(), None)
        await one.delete("n", version)

        assert await raises_conflict(one.write(a_ledger(), version))
        assert await raises_conflict(other.write(a_ledger("m"), version))
        assert await raises_conflict(other.delete("m", version))
        assert await raises_conflict(other.delete("n", version))
        assert await one.load() == {}

    with_two(place, test)


def test_a_deletion_needs_the_newest_version(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        first = await one.write(a_ledger(), None)
        second = await other.write(a_ledger(pods=1), first)

        assert await raises_conflict(one.delete("n", first))
        await one.delete("n", second)
        assert await other.read("n") is None

    with_two(place, test)


def test_a_record_that_is_made_again_has_a_new_version(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        first = await one.write(a_ledger(), None)
        await other.delete("n", first)

        again = await one.write(a_ledger(), None)

        assert again != first
        assert await raises_conflict(other.write(a_ledger(pods=1), first))

    with_two(place, test)


def test_of_many_that_create_or_delete_at_once_one_wins(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        for _ in range(5):
            lost = await asyncio.gather(
                *(raises_conflict(store.write(a_ledger(), None)) for store in (one, other) * 4)
            )
            assert lost.count(False) == 1
            stored = await one.read("n")
            assert stored is not None
            gone = await asyncio.gather(
                *(raises_conflict(store.delete("n", stored.version)) for store in (one, other)),
                raises_conflict(one.write(a_ledger(pods=1), stored.version)),
                raises_conflict(other.write(a_ledger(pods=2), stored.version)),
            )
            assert gone.count(False) == 1
            left = await one.read("n")
            if left is not None:
                await one.delete("n", left.version)

    with_two(place, test)


def test_changes_come_in_order_and_none_is_missing(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        version = await one.write(a_ledger(), None)
        await one.load()
        writers = (other, one)

        async def write() -> None:
            expected = version
            for pods in range(1, 31):
                store = writers[pods % 2]
                expected = await store.write(a_ledger(pods=pods), expected)
            await other.write(a_ledger("last"), None)

        async with aclosing(one.changes()) as changes:
            _, seen = await asyncio.gather(write(), take(changes, lambda c: c.node == "last"))

        counts = [len(c.stored.ledger.allocations) for c in seen if c.node == "n" and c.stored]
        assert counts == sorted(counts)
        assert counts[-1] == 30

    with_two(place, test)


def test_a_change_carries_the_version_for_the_next_write(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        await one.load()
        version = await other.write(a_ledger(pods=1), None)

        async with aclosing(one.changes()) as changes:
            seen = await take(changes, lambda change: change.node == "n")

        assert seen[-1] == Change("n", Stored(a_ledger(pods=1), version))
        await one.write(a_ledger(pods=2), version)

    with_two(place, test)


def test_deletions_are_changes(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        version = await one.write(a_ledger(), None)
        await one.load()
        async with aclosing(one.changes()) as changes:
            reading = asyncio.create_task(take(changes, lambda change: change.stored is None))
            await other.delete("n", version)

            assert (await reading)[-1] == Change("n", None)

    with_two(place, test)


def test_what_is_written_between_load_and_changes_is_a_change(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        version = await one.write(a_ledger(), None)
        await one.write(a_ledger("gone"), None)
        before = await one.load()
        await other.write(a_ledger(pods=1), version)
        await other.delete("gone", before["gone"].version)
        await other.write(a_ledger("new"), None)

        async with aclosing(one.changes()) as changes:
            seen = await take(changes, lambda change: change.node == "new")

        assert {change.node for change in seen if change.stored is None} == {"gone"}
        assert [len(c.stored.ledger.allocations) for c in seen if c.node == "n" and c.stored] == [1]

    with_two(place, test)


def test_the_deletion_of_a_record_comes_before_its_new_creation(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        version = await one.write(a_ledger(pods=9), None)
        await one.load()
        await other.delete("n", version)
        await other.write(a_ledger(), None)

        async with aclosing(one.changes()) as changes:
            seen = await take(changes, lambda c: bool(c.stored and not c.stored.ledger.allocations))

        assert [change.stored is None for change in seen[-2:]] == [True, False]

    with_two(place, test)


def test_after_a_cancelled_reader_nothing_is_missing_to_the_next(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        await one.load()
        async with aclosing(one.changes()) as changes:
            reading = asyncio.create_task(take(changes, lambda _: False))
            await asyncio.sleep(0.05)
            writing = asyncio.create_task(other.write(a_ledger(), None))
            reading.cancel()
            await asyncio.wait([reading, writing])

        async with aclosing(one.changes()) as changes:
            seen = await take(changes, lambda change: change.node == "n")

        assert seen[-1].stored is not None

    with_two(place, test)


def test_changes_end_when_the_store_is_closed(place: Place) -> None:
    async def run() -> list[Change]:
        async with place.open() as store:
            await store.load()
            reading = asyncio.create_task(_all(store.changes()))
            await asyncio.sleep(0.05)
            await store.close()
            async with asyncio.timeout(30):
                return await reading

    assert asyncio.run(run()) == []


async def _all(changes: AsyncIterator[Change]) -> list[Change]:
    return [change async for change in changes]


def test_a_record_that_cannot_be_read_is_a_change_with_a_problem(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        await one.write(a_ledger(), None)
        await one.write(a_ledger("m"), None)
        await place.spoil("m", TWICE)

        assert list(await one.load()) == ["n"]
        with pytest.raises(LedgerRecordError):
            await other.read("m")
        assert await raises_conflict(one.write(a_ledger("m"), None))
        async with aclosing(one.changes()) as changes:
            (change,) = await take(changes, lambda change: change.node == "m")
        assert change.stored is None
        assert change.problem is not None
        assert "p twice" in change.problem

    with_two(place, test)


def test_the_record_of_another_node_is_rejected(place: Place) -> None:
    async def test(one: Store, other: Store) -> None:
        await one.write(a_ledger("m"), None)
        await place.spoil("m", b'{"node":"n"}')

        assert await one.load() == {}
        with pytest.raises(LedgerRecordError, match="that of n, not of m"):
            await other.read("m")

    with_two(place, test)


WRITERS = 4

_POD = '{"uid":"p","pod":"default/p","dialect":"tongue"}'
TWICE = f'{{"node":"m","allocations":[{_POD},{_POD}]}}'.encode()
"""A record that does not hold together."""


def test_of_100_pods_from_four_processes_none_is_lost_and_no_card_is_full_twice(
    place: Place,
) -> None:
    async def run() -> tuple[NodeLedger, dict[str, bool]]:
        async with place.open() as store:
            await store.write(empty(*like_cards(5, memory=18 << 30, slots=18)), None)
            results = await write_all(place, WRITERS, 25)
            stored = await store.read("n")
            assert stored is not None
            return stored.ledger, results

    ledger, results = asyncio.run(run())

    placed = {uid for uid, fits in results.items() if fits}
    assert len(results) == 100
    assert placed == set(ledger.allocations)
    assert len(placed) == 5 * 18
    assert ledger.problems() == ()
    assert ledger.version == len(placed) * 2


async def write_all(place: Place, writers: int, pods: int) -> dict[str, bool]:
    """By pod, whether it was placed. Where the place has an address, every writer is a process."""
    if place.address is None:
        return await write_in_tasks(place, writers, pods)
    processes = [
        await write_in_process(place.address, f"w{number}", pods) for number in range(writers)
    ]
    outputs = [(await process.communicate())[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * writers
    lines = [line.split() for text in outputs for line in text.decode().splitlines()]
    return {uid: result == "placed" for uid, result in lines}


async def write_in_tasks(place: Place, writers: int, pods: int) -> dict[str, bool]:
    async def write(name: str) -> dict[str, bool]:
        async with place.open() as store:
            return await place_many(store, name, pods)

    results = await asyncio.gather(*(write(f"w{number}") for number in range(writers)))
    return {uid: fits for each in results for uid, fits in each.items()}


def test_a_writer_that_is_killed_leaves_what_it_said_it_wrote(place: Place) -> None:
    if place.address is None:
        pytest.skip("memory dies with its process")
    address = place.address

    async def run() -> None:
        async with place.open() as store:
            await store.write(empty(*like_cards(4, memory=500 << 30, slots=500)), None)
            said: set[str] = set()
            for number in range(5):
                process = await write_in_process(address, f"w{number}", 400)
                assert process.stdout is not None
                for _ in range(1 + 2 * number):
                    said.add((await process.stdout.readline()).decode().split()[0])
                process.kill()
                rest, _ = await process.communicate()
                said |= {line.split()[0] for line in rest.decode().splitlines() if " " in line}

                stored = await store.read("n")

                assert stored is not None
                assert said <= set(stored.ledger.allocations)
                assert len(stored.ledger.allocations) <= len(said) + number + 1
                assert stored.ledger.problems() == ()
                assert allocate(stored.ledger, f"next-{number}") is not None

    asyncio.run(run())
