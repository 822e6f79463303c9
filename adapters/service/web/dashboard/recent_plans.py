"""The plans of moves, read when a person looks at them, and never otherwise."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from adapters.wire.records.move_plan import MovePlanObject

FRESH = 5.0
"""Seconds for which an answer of the API server is shown again; the page asks every five."""

PATIENCE = 3.0
"""Seconds for which the API server may take."""

PlanSource = Callable[[], Awaitable[Sequence[MovePlanObject]]]
"""Lists all plans; raises OSError."""


@dataclass(frozen=True, slots=True)
class RecentPlans:
    """The plans as they were a few seconds ago.

    Attributes:
        plans: all of them, in any order.
        problem: why they are not known; empty where they are.
    """

    plans: Sequence[MovePlanObject] = ()
    problem: str = ""


class PlanReader:
    """Asks the API server once for all who ask within ``FRESH``."""

    def __init__(self, source: PlanSource, now: Callable[[], float] = monotonic) -> None:
        """Ask nothing yet.

        Args:
            source: of the plans.
            now: seconds.
        """
        self._source = source
        self._now = now
        self._until = 0.0
        self._asking: asyncio.Task[RecentPlans] | None = None

    async def read(self) -> RecentPlans:
        """Return what the API server said last, or ask it."""
        task = self._asking
        if task is None or (task.done() and self._now() >= self._until):
            self._until = self._now() + FRESH
            task = self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(task)

    async def _ask(self) -> RecentPlans:
        try:
            async with asyncio.timeout(PATIENCE):
                return RecentPlans(await self._source())
        except TimeoutError:
            return RecentPlans(problem=f"no answer in {PATIENCE:.0f} s")
        except OSError as error:
            return RecentPlans(problem=str(error))
