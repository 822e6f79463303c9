"""Waiting for something that another process does."""

import time
from collections.abc import Callable


def within(seconds: float, holds: Callable[[], bool]) -> float:
    """Wait until it holds; how long that took. At least half of the time it is not asked.

    Raises:
        TimeoutError: it does not hold after that time.
    """
    started = asked = time.monotonic()
    while not holds():
        now = time.monotonic()
        if now > started + seconds:
            raise TimeoutError(f"not after {seconds} s")
        time.sleep(max(0.05, now - asked))
        asked = time.monotonic()
    return time.monotonic() - started
