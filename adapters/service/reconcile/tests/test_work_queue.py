"""The reconciler's queue."""

import asyncio

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
