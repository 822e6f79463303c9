"""One component, running."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.processes.identity import Identity
from e2e.harness.processes.waiting import within


class StartError(RuntimeError):
    """A component ended, or did not get ready in time; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class Process:
    """A component that leads its own process group and writes into its own log.

    Attributes:
        name: of the component, and of its log file.
        log: of all processes with this name, one after the other.
        begins: bytes in the log before this process.
    """

    name: str
    log: Path
    identity: Identity
    popen: subprocess.Popen[bytes]
    begins: int = 0

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> "Process":
        """Start it; it is not ready yet."""
        with log.open("ab") as output:
            begins = log.stat().st_size
            popen = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=os.environ | dict(environment or {}),
                start_new_session=True,
            )
        return cls(name=name, log=log, identity=Identity.of(popen.pid), popen=popen, begins=begins)

    def wait_until(self, ready: Callable[[], bool], patience: float = 60) -> None:
        """Wait for the component to answer.

        Args:
            ready: asked again and again; an ``OSError`` means not yet.
            patience: seconds.

        Raises:
            StartError: it ended, or the time is over.
        """

        def answers() -> bool:
            if self.popen.poll() is not None:
                raise StartError(f"{self.name} ended with {self.popen.returncode}:\n{self.tail()}")
            try:
                return ready()
            except OSError:
                return False

        try:
            within(patience, answers)
        except TimeoutError as late:
            text = f"{self.name} is not ready after {patience:.0f} s:\n{self.tail()}"
            raise StartError(text) from late

    def stop(self, patience: float = 10) -> None:
        """Send SIGTERM to it and its children, then SIGKILL."""
        deadline = time.monotonic() + patience
        self._signal(signal.SIGTERM)
        while self._has_members():
            if time.monotonic() > deadline:
                self._signal(signal.SIGKILL)
            time.sleep(0.01)
        self.popen.wait()

    def kill(self) -> None:
        """Send SIGKILL to it and its children; ``wait`` for the end."""
        self._signal(signal.SIGKILL)

    def wait(self) -> None:
        """Wait until it and its children have gone."""
        while self._has_members():
            time.sleep(0.01)
        self.popen.wait()

    def _has_members(self) -> bool:
        # Reaps the leader. The group's number stays taken as long as it has a member.
        self.popen.poll()
        try:
            os.killpg(self.popen.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, number)

    def output(self) -> str:
        """What this process has logged so far."""
        return self.log.read_bytes()[self.begins :].decode(errors="replace")

    def tail(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
