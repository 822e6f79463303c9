"""What remains of a run, and its removal by a process that did not start it.

A run's folder holds ``owner``, the test process, and ``processes``, one line for each process
that was started: number, start time, name.
"""

import shutil
import signal
import time
from pathlib import Path

from e2e.harness.processes import cgroups
from e2e.harness.processes.identity import Identity


def own(folder: Path, who: Identity) -> None:
    """Record the test process; another process that sweeps sees the whole record or none."""
    (folder / "owner.part").write_text(str(who))
    (folder / "owner.part").rename(folder / "owner")


def record(folder: Path, who: Identity, name: str) -> None:
    """Record a process that this run has started."""
    with (folder / "processes").open("a") as file:
        file.write(f"{who} {name}\n")


def started(folder: Path) -> tuple[Identity, ...]:
    """Every process that the run has started, the latest first."""
    try:
        lines = (folder / "processes").read_text().splitlines()
    except FileNotFoundError:
        return ()
    return tuple(Identity.parse(line.rsplit(" ", 1)[0]) for line in reversed(lines))


def clean(folder: Path) -> None:
    """Kill the processes that the run has left and remove its folder."""
    for who in started(folder):
        who.signal_group(signal.SIGKILL)
    for who in started(folder):
        while who.is_alive():
            time.sleep(0.01)
    cgroups.remove(folder)
    shutil.rmtree(folder, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Clean every run in a folder whose owner is gone."""
    for owner in parent.glob("*/owner"):
        try:
            who = Identity.parse(owner.read_text())
        except FileNotFoundError:  # it has just ended, or another process sweeps too
            continue
        if not who.is_alive():
            clean(owner.parent)
