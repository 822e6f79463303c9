"""Waits for a thread, a task or another process."""

import asyncio
import time
from collections.abc import Callable


def within(seconds: float, holds: Callable[[], object], seen: Callable[[], object] = str) -> None:
    """Wait until it holds.

    Args:
        seconds: the longest wait.
        holds: asked again and again.
        seen: what stands in the failure.

    Raises:
        TimeoutError: it does not hold after that time.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not after {seconds} s: {seen()}")
        time.sleep(0.01)


async def until(holds: Callable[[], object], seconds: float = 20) -> None:
    """Wait until it holds, while the other tasks of the loop go on.

    Raises:
        TimeoutError: it does not hold after that time.
    """
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)
