"""Shows the progress of work only where the work takes long."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PATIENCE = 0.5
"""Seconds for which a person waits without being shown that something happens."""


class Display(Protocol):
    """Something on the terminal, which can be started from another thread."""

    def start(self) -> None:
        """Show it."""
        ...

    def stop(self) -> None:
        """Remove it."""
        ...


@contextmanager
def delayed(display: Display) -> Iterator[None]:
    """Show something after ``PATIENCE`` until the block ends; nothing where it ends before."""
    lock = threading.Lock()
    ended = started = False

    def start() -> None:
        nonlocal started
        with lock:
            if not ended:
                display.start()
                started = True

    timer = threading.Timer(PATIENCE, start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            ended = True
        if started:
            display.stop()
