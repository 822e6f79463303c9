"""Waiting for something that another process does."""

import time
from collections.abc import Callable


def within(seconds: float, holds: Callable[[], bool]) -> float:
    """Wait until it holds; the seconds that took. It is called at most half of the time.

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
