"""Bounded concurrency."""

import asyncio

import pytest

from adapters.service.reconcile.work_queue import LIMIT, for_each_limited


def test_every_item_is_worked_on_once_and_never_more_than_the_limit_at_a_time() -> None:
    async def main() -> tuple[list[int], int]:
        done: list[int] = []
        running = most = 0

        async def work(thing: int) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            for _ in range(thing % 7):
                await asyncio.sleep(0)
            running -= 1
            done.append(thing)

        await for_each_limited(work, range(200))
        return done, most

    done, most = asyncio.run(main())

    assert sorted(done) == list(range(200))
    assert most == LIMIT


def test_an_item_that_hangs_does_not_delay_the_others() -> None:
    async def main() -> list[int]:
        done: list[int] = []
        others = asyncio.Event()

        async def work(thing: int) -> None:
            if thing == 0:
                await others.wait()
            done.append(thing)
            if len(done) == 49:
                others.set()

        await for_each_limited(work, range(50))
        return done

    assert asyncio.run(main())[-1] == 0


def test_a_failure_cancels_the_rest() -> None:
    async def work(thing: int) -> None:
        await asyncio.sleep(0)
        if thing == 3:
            raise LookupError("three")

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(for_each_limited(work, range(1000)))

    assert caught.group_contains(LookupError, match="three")
