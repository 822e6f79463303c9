"""How long a plan may take, by the clock on the wall: a person waits for it."""

from collections.abc import Callable
from math import inf
from time import monotonic


class TimeLimit:
    """A limit that begins when it is created.

    Attributes:
        seconds: the limit; None for no limit.
        reached: whether a part of a run ended early.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.reached = False
        self._end = monotonic() + (inf if seconds is None else seconds)

    def part(self, of: int) -> Callable[[], bool]:
        """Whether a part of the time that is left now is over, each time that it is asked.

        Args:
            of: 1 for all of it, 4 for a quarter.
        """
        now = monotonic()
        end = now + (self._end - now) / of

        def expired() -> bool:
            over = monotonic() >= end
            self.reached |= over
            return over

        return expired
