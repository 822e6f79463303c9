"""Waiting for something that another process does."""

import time
from collections.abc import Callable


def within(seconds: float, holds: Callable[[], bool]) -> float:
    """Wait until it holds; how long that took.

    Raises:
        TimeoutError: it does not hold after that time.
    """
    started = time.monotonic()
    while not holds():
        if time.monotonic() > started + seconds:
            raise TimeoutError(f"not after {seconds} s")
        time.sleep(0.05)
    return time.monotonic() - started
