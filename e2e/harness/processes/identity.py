"""A process that can be told from a later one with the same number."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    """Number and start time of a process.

    Attributes:
        started: clock ticks after boot, field 22 of ``/proc/PID/stat``.
    """

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """The process that has this number now.

        Raises:
            ProcessLookupError: there is none.
        """
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            raise ProcessLookupError(pid) from None
        # The second field is the program's name, which may contain anything but ends with ")".
        return cls(pid=pid, started=int(stat.rpartition(")")[2].split()[19]))

    @classmethod
    def parse(cls, text: str) -> "Identity":
        """As written by ``str``."""
        pid, started = text.split()
        return cls(pid=int(pid), started=int(started))

    def __str__(self) -> str:
        return f"{self.pid} {self.started}"

    def is_alive(self) -> bool:
        """Whether this very process is still there; one that waits for its parent is not."""
        try:
            if Identity.of(self.pid) != self:
                return False
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except (ProcessLookupError, FileNotFoundError):
            return False
        return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the process group that this process leads, if it is still there."""
        if self.is_alive():
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return
