"""A second thread that answers when the first one does not.

The runtime starts a container without an adjustment when it gets no answer in time. A blocked
thread - on a file system that hangs, or a machine that swaps - must not be the reason.
"""

import heapq
import threading
import time
from collections.abc import Callable

TICK = 0.25
"""Seconds between two checks. Waking the thread for each action would cost a container more than
its answer does, because both threads need the interpreter."""


class Watchdog:
    """Calls an action at its time, unless the action is cancelled before."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """``now``: seconds that never go back."""
        self._now = now
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._queue: list[tuple[float, int]] = []
        self._actions: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        with self._lock:
            self._stopped = True
            self._wake.notify()
        self._thread.join()

    def call_at(self, due: float, action: Callable[[], None]) -> int:
        """Call ``action`` on the watchdog's thread when the clock reaches ``due``.

        Returns:
            The number of the action, for ``cancel``.
        """
        with self._lock:
            self._count += 1
            number = self._count
            self._actions[number] = action
            heapq.heappush(self._queue, (due, number))
            if due < self._now() + TICK:
                self._wake.notify()
        return number

    def cancel(self, number: int) -> None:
        """Cancel an action; no effect where it has run."""
        with self._lock:
            self._actions.pop(number, None)
            while self._queue and self._queue[0][1] not in self._actions:
                heapq.heappop(self._queue)

    def _run(self) -> None:
        while (action := self._next()) is not None:
            action()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            while not self._stopped:
                wait = self._queue[0][0] - self._now() if self._queue else TICK
                if wait > 0:
                    self._wake.wait(min(wait, TICK))
                    continue
                _, number = heapq.heappop(self._queue)
                action = self._actions.pop(number, None)
                if action is not None:
                    return action
        return None
