"""The same work for many things, only so many of them at a time."""

from asyncio import TaskGroup
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

ABREAST = 16
"""Nodes that are worked on at the same time, each with one request to the API server at most.

One after the other, thousands of nodes would take as long as all answers together; a server under
load says how long to wait, and whoever waits keeps his place.
"""


async def for_each_limited(work: Callable[[T], Awaitable[object]], things: Sequence[T]) -> None:
    """Work on things in their order, on at most ``ABREAST`` of them at a time.

    Raises:
        BaseExceptionGroup: some work failed; what was in progress was cancelled.
    """
    rest = iter(things)

    async def one_after_the_other() -> None:
        for thing in rest:
            await work(thing)

    async with TaskGroup() as group:
        for _ in range(min(ABREAST, len(things))):
            group.create_task(one_after_the_other())
