"""A process, even where a later one has its number."""

import os
import signal
from dataclasses import dataclass

import psutil

SAME = 1.0
"""Seconds by which two readings of one start may differ: the clock may be set between them."""

_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


@dataclass(frozen=True, slots=True)
class Identity:
    """Number and start time of a process.

    Attributes:
        started: seconds since 1970.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """The process that has this number now.

        Raises:
            psutil.NoSuchProcess: no process has it.
        """
        return cls(pid=pid, started=psutil.Process(pid).create_time())

    @classmethod
    def parse(cls, text: str) -> "Identity":
        """Parse what ``str`` wrote."""
        pid, started = text.split()
        return cls(pid=int(pid), started=float(started))

    def __str__(self) -> str:
        return f"{self.pid} {self.started}"

    def is_alive(self) -> bool:
        """Whether this very process is still there; one that waits for its parent is not."""
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.started) < SAME
            return same and found.status() not in _ENDED
        except psutil.NoSuchProcess:
            return False

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the process group that this process leads, if it is still there."""
        if self.is_alive():
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return
