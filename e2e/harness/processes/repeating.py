"""Work that goes on beside a test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(work: Callable[[], object], pause: float) -> Iterator[None]:
    """Call a function again and again, from a thread, for a block; the last call is finished.

    Args:
        work: ends the thread where it raises.
        pause: seconds before each call.
    """
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(pause):
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)
