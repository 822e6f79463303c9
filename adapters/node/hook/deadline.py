"""A second thread that answers when the first one cannot.

The runtime starts a container untouched when it gets no answer in time. Whatever holds up the event
loop - a file system that hangs, a machine that swaps - must not be the reason.
"""

import heapq
import threading
import time
from collections.abc import Callable

TICK = 0.25
"""Seconds between two looks. Waking the thread for every action would cost each container more than
its answer does: both threads want the interpreter at once."""


class Watchdog:
    """Calls what it was told to, at its time, unless it is called off before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._due: list[tuple[float, int]] = []
        self._actions: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def end(self) -> None:
        """Watch no more."""
        with self._lock:
            self._ended = True
            self._wake.notify()
        self._thread.join()

    def at(self, due: float, action: Callable[[], None]) -> int:
        """Call ``action`` on the watchdog's thread when ``time.monotonic()`` reaches ``due``.

        Returns:
            What ``call_off`` takes.
        """
        with self._lock:
            self._count += 1
            number = self._count
            self._actions[number] = action
            heapq.heappush(self._due, (due, number))
            if due < time.monotonic() + TICK:
                self._wake.notify()
        return number

    def call_off(self, number: int) -> None:
        """Forget an action; nothing where it has run."""
        with self._lock:
            self._actions.pop(number, None)
            while self._due and self._due[0][1] not in self._actions:
                heapq.heappop(self._due)

    def _run(self) -> None:
        while (action := self._next()) is not None:
            action()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            while not self._ended:
                wait = self._due[0][0] - time.monotonic() if self._due else TICK
                if wait > 0:
                    self._wake.wait(min(wait, TICK))
                    continue
                _, number = heapq.heappop(self._due)
                action = self._actions.pop(number, None)
                if action is not None:
                    return action
        return None
