"""Time, for whoever is not allowed to look at a clock himself."""

import asyncio
import random
import time

FIRST = 0.002
"""Seconds, the longest first pause."""

LONGEST = 0.25
"""Seconds."""


class SystemClock:
    """The machine's clocks; implements ``ports.Clock``."""

    def now(self) -> int:
        """Nanoseconds on a clock that nobody sets."""
        return time.monotonic_ns()

    def wall(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns()

    async def pause(self, attempt: int) -> None:
        """Wait up to twice as long after each attempt; how long in fact is chance."""
        longest = min(FIRST * 2**attempt, LONGEST)
        await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - only spreads the writers

    async def sleep(self, nanoseconds: int) -> None:
        """Wait."""
        await asyncio.sleep(nanoseconds / 1e9)
