"""System clock behind the ``Clock`` port."""

import asyncio
import random
import time

FIRST = 0.002
"""Seconds: upper bound of the first pause."""

LONGEST = 0.25
"""Seconds: upper bound of every pause."""


class SystemClock:
    """Implements ``ports.Clock``."""

    def now(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()

    def wall(self) -> int:
        """Return nanoseconds since 1970."""
        return time.time_ns()

    async def pause(self, attempt: int) -> None:
        """Wait a random time, up to a bound that doubles with each attempt."""
        longest = min(FIRST * 2**attempt, LONGEST)
        await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - only spreads the writers

    async def sleep(self, nanoseconds: int) -> None:
        """Wait for some nanoseconds."""
        await asyncio.sleep(nanoseconds / 1e9)
