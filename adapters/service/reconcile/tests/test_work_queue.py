"""The reconciler's queue."""

import asyncio
import time

from adapters.service.reconcile.work_queue import WorkQueue


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_an_added_node_is_due_until_it_is_taken() -> None:
    queue = WorkQueue(ManualClock())

    queue.add("a")
    queue.add("b")
    queue.add("a")
    before = queue.due()
    queue.take("a")

    assert before == ["a", "b"]
    assert queue.due() == ["b"]


def test_a_delayed_node_is_due_after_its_delay() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock)

    queue.add_after("a", 5.0)
    clock.seconds += 4.9
    early = queue.due()
    clock.seconds += 0.1

    assert early == []
    assert queue.due() == ["a"]


def test_a_delay_does_not_defer_a_node_that_is_due_but_a_change_ends_a_delay() -> None:
    queue = WorkQueue(ManualClock())

    queue.add("changed")
    queue.add_after("changed", 5.0)
    queue.add_after("failed", 5.0)
    queue.add("failed")

    assert queue.due() == ["changed", "failed"]


def test_an_added_node_ends_the_wait_and_a_delayed_one_does_not() -> None:
    async def main() -> list[bool]:
        queue = WorkQueue(ManualClock())
        ended = []
        for add in (queue.add, lambda node: queue.add_after(node, 0.0)):
            waiting = asyncio.create_task(queue.wait(3600))
            await asyncio.sleep(0)
            add("a")
            for _ in range(3):
                await asyncio.sleep(0)
            ended.append(waiting.done())
            waiting.cancel()
        return ended

    assert asyncio.run(main()) == [True, False]


def test_a_node_that_rests_is_due_once_after_its_rest_and_others_at_once() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock, rest=0.5)

    queue.add("a")
    queue.take("a")
    queue.add("a")
    queue.add("b")
    clock.seconds += 0.4
    queue.add("a")
    early = queue.due()
    clock.seconds += 0.1

    assert early == ["b"]
    assert queue.due() == ["a", "b"]


def test_a_node_is_due_at_once_where_a_rest_must_not_delay_it() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock, rest=0.5)

    queue.take("a")
    queue.add_at_once("a")
    queue.add("a")

    assert queue.due() == ["a"]


def test_a_rest_ends_the_delay_of_a_node_that_failed() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock, rest=0.5)

    queue.take("a")
    queue.add_after("a", 5.0)
    queue.add("a")
    early = queue.due()
    clock.seconds += 0.5

    assert early == []
    assert queue.due() == ["a"]


def test_rests_that_are_over_are_forgotten() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock, rest=0.5)

    for number in range(1000):
        queue.take(f"n{number}")
        clock.seconds += 0.1

    assert len(queue._resting) <= 6


def test_a_wait_ends_with_the_rest_of_a_node() -> None:
    async def main() -> float:
        queue = WorkQueue(time.monotonic, rest=0.05)
        queue.take("a")
        queue.add("a")
        began = time.monotonic()
        worked: list[str] = []

        async def one(node: str) -> None:
            queue.take(node)
            worked.append(node)

        while not worked:
            await queue.work(one, 60.0)
        return time.monotonic() - began

    assert 0.04 < asyncio.run(main()) < 30
