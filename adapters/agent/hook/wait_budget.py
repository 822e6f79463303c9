"""How long the agent may wait for grants, so that no pod can block a node's creations for long.

containerd serialises NRI calls: while the agent waits for one container, no other is created. A
pod's author can write what makes the agent wait, on any number of pods.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

CAPACITY = 5.0
"""Seconds that the agent may wait after it has not waited for a while: some pods in a row."""

REFILL = 0.1
"""The part of the time that it may wait in the long run."""


@dataclass(slots=True)
class WaitBudget:
    """The seconds that are left to wait; from any thread.

    Attributes:
        now: seconds that never go back.
        capacity: the seconds at the start, and at most.
    """

    now: Callable[[], float] = time.monotonic
    capacity: float = CAPACITY
    _left: float = field(init=False)
    _at: float = field(init=False)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Begin with all of it."""
        self._left, self._at = self.capacity, self.now()

    @property
    def left(self) -> float:
        """Seconds; zero or less where the agent may not wait."""
        with self._lock:
            self._refill()
            return self._left

    def spend(self, seconds: float) -> None:
        """The agent has waited."""
        with self._lock:
            self._refill()
            self._left -= seconds

    def _refill(self) -> None:
        now = self.now()
        self._left = min(self.capacity, self._left + REFILL * (now - self._at))
        self._at = now
