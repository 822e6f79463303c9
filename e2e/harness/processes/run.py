"""One run: a private folder, the processes that were started in it, and their end."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.harness.processes import reaper as cleaning
from e2e.harness.processes.identity import Identity
from e2e.harness.processes.process import Process

REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Run:
    """What was started so far.

    Attributes:
        folder: mode 0700, gone when the run ends.
        processes: in the order of their start.
    """

    folder: Path
    processes: list[Process] = field(default_factory=list)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        ready: Callable[[], bool] | None = None,
        environment: Mapping[str, str] | None = None,
        patience: float = 60,
    ) -> Process:
        """Start a component and wait until it is ready.

        Raises:
            StartError: it ended, or did not get ready in time.
        """
        log = self.folder / f"{name}.log"
        process = Process.start(name, command, log=log, environment=environment)
        cleaning.record(self.folder, process.identity, name)
        self.processes.append(process)
        if ready is not None:
            process.wait_until(ready, patience)
        return process

    def end(self) -> None:
        """Kill every process, the latest first: their state is deleted anyway."""
        for process in reversed(self.processes):
            process.kill()
        while self.processes:
            self.processes.pop().wait()


@contextmanager
def run() -> Iterator[Run]:
    """A run for the length of a block."""
    parent = Path(tempfile.gettempdir()) / f"dragoman-e2e-{os.getuid()}"
    parent.mkdir(mode=0o700, exist_ok=True)
    cleaning.sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    cleaning.own(folder, Identity.of(os.getpid()))
    guard = subprocess.Popen(
        [sys.executable, "-m", "e2e.harness.processes.reaper_guard", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=REPOSITORY,
        start_new_session=True,
    )
    this = Run(folder=folder)
    try:
        yield this
    finally:
        this.end()
        cleaning.clean(folder)
        guard.communicate()
