"""Stops replicas at an await of a bind, and moves their clock; ``stopping`` is their side of it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from e2e.harness.schedulers.service import Service as Replica

FOLDER = "STOPS"
"""The variable with the folder of the files by which test and service talk."""

GRACE = 120
"""Seconds after which the service releases the cards of a pod that was not bound."""


def program(rule: str = "") -> str:
    """Python that runs the command, without a rule of ``mutants`` unless that is empty."""
    return f"from e2e.adversary.stopping import main; main({rule!r})"


class Stops:
    """What a test does with services that were started with ``environment``."""

    def __init__(self, folder: Path) -> None:
        """The clock is right, and no bind stops.

        Args:
            folder: of this test's own.
        """
        self._folder = folder
        self._seconds = 0
        self.advance(0)

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the services."""
        return {FOLDER: str(self._folder)}

    def advance(self, seconds: int) -> None:
        """Let the clocks of all services, of which only differences count, go forward."""
        self._seconds += seconds
        new = self._folder / "new"
        new.write_text(str(self._seconds))
        new.rename(self._folder / "clock")

    @contextmanager
    def at(self, replica: Replica, point: int | str) -> Iterator[None]:
        """For the length of a block the next bind of a replica stops at a point, or a coroutine.

        At its end the replica goes on, if it stopped, and its later binds do not stop.
        """
        pid = replica.pid
        armed = self._folder / str(pid)
        armed.write_text(str(point))
        try:
            yield
        finally:
            armed.unlink(missing_ok=True)
            os.kill(pid, signal.SIGCONT)


def has_stopped(replica: Replica) -> bool:
    """Whether a replica stands still."""
    return psutil.Process(replica.pid).status() == psutil.STATUS_STOPPED
