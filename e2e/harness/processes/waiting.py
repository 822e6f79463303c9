"""Waiting for what a thread or another process does.

For a task of the same loop there is adapters/tests/waiting.py.
"""

import time
from collections.abc import Callable

FIRST, LONGEST = 0.005, 0.05
"""Seconds between two questions, at the beginning and after some of them."""


def within(seconds: float, holds: Callable[[], object], seen: Callable[[], object] = str) -> float:
    """Wait until it holds; the seconds that took. It is called at most half of the time.

    Args:
        seconds: the longest wait; a call that began earlier is finished.
        holds: asked again and again.
        seen: its answer ends the message of the failure.

    Raises:
        TimeoutError: it does not hold after that time.
    """
    started = asked = time.monotonic()
    pause = FIRST
    while not holds():
        now = time.monotonic()
        if now > started + seconds:
            raise TimeoutError(f"not after {seconds} s {seen()}".rstrip())
        time.sleep(max(pause, now - asked))
        pause = min(LONGEST, 1.5 * pause)
        asked = time.monotonic()
    return time.monotonic() - started
