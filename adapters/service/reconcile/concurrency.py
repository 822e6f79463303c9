"""Bounded concurrency."""

from asyncio import TaskGroup
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

LIMIT = 16
"""Nodes that are worked on at the same time, each with one request to the API server at most.

One after the other, thousands of nodes would take as long as all responses together. A server
under load answers 429 with a time to wait, and a request that waits occupies one of these places.
"""


async def for_each_limited(work: Callable[[T], Awaitable[object]], items: Sequence[T]) -> None:
    """Work on items in their order, on at most ``LIMIT`` of them at a time.

    Raises:
        BaseExceptionGroup: some work failed; the work in progress was cancelled.
    """
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            await work(item)

    async with TaskGroup() as group:
        for _ in range(min(LIMIT, len(items))):
            group.create_task(worker())
