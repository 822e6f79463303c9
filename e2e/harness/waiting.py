"""Waiting for something that another process does."""

import time
from collections.abc import Callable


def within(seconds: float, holds: Callable[[], bool]) -> float:
    """Wait until it holds; how many seconds that took.

    Raises:
        AssertionError: it did not hold in time.
    """
    started = time.monotonic()
    while not holds():
        if time.monotonic() > started + seconds:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.02)
    return time.monotonic() - started
