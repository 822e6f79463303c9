"""Nodes that wait for the reconciler; as client-go's delaying queue, without its goroutines."""

import math
from asyncio import Event, TaskGroup, timeout
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

LIMIT = 16
"""Nodes that are worked on at the same time, each with one request to the API server at most.

One after the other, thousands of nodes would take as long as all responses together. A server
under load answers 429 with a time to wait, and a request that waits occupies one of these places.
"""


@dataclass(eq=False, slots=True)
class WorkQueue:
    """Node names, each with the time from which on it is due; a name is in it at most once.

    The clock has monotonic seconds. The rest is seconds from the beginning of a node's work to the
    earliest time at which a change makes it due again: what changes meanwhile is worked on
    together.
    """

    _clock: Callable[[], float]
    rest: float = 0.0
    _due: dict[str, float] = field(default_factory=dict)
    _resting: dict[str, float] = field(default_factory=dict)
    _added: Event = field(default_factory=Event)

    def add(self, node: str) -> None:
        """Make a node due, now or after its rest, and wake ``wait``."""
        self._due[node] = min(self._due.get(node, math.inf), self._resting.get(node, 0.0))
        self._added.set()

    def add_at_once(self, node: str) -> None:
        """Make a node due now, also while it rests, and wake ``wait``."""
        self._due[node] = 0.0
        self._added.set()

    def add_after(self, node: str, seconds: float) -> None:
        """Make a node due later, unless it is in the queue already."""
        self._due.setdefault(node, self._clock() + seconds)

    def due(self) -> list[str]:
        """Return the nodes that are due; they stay in the queue until ``take``."""
        now = self._clock()
        return [node for node, when in self._due.items() if when <= now]

    def take(self, node: str) -> None:
        """Remove a node whose work begins; a change from now on adds it again."""
        self._due.pop(node, None)
        if self.rest:
            now = self._clock()
            self._resting.pop(node, None)
            while self._resting and self._resting[oldest := next(iter(self._resting))] <= now:
                del self._resting[oldest]
            self._resting[node] = now + self.rest

    async def work(self, one: Callable[[str], Awaitable[None]], longest: float) -> None:
        """Work on the nodes that are due, a few at a time; where none is, wait for one.

        Args:
            one: works on a node, which it takes from the queue.
            longest: seconds to wait at most.
        """
        due = self.due()
        await for_each_limited(one, due)
        if not due:
            first = min(self._due.values(), default=math.inf) - self._clock()
            await self.wait(min(longest, max(first, 0.0)))

    async def wait(self, longest: float) -> None:
        """Wait until a node is added, for at most ``longest`` seconds."""
        self._added.clear()
        with suppress(TimeoutError):
            async with timeout(longest):
                await self._added.wait()


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
