"""What the components of a run have cost so far."""

import os
from pathlib import Path

from e2e.harness.processes.run import Run

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(run: Run) -> dict[str, float]:
    """Processor seconds of each running component, its living children included."""
    groups: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # Fields from the third on; the second, the name, may contain anything.
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        group, user, system = int(fields[2]), int(fields[11]), int(fields[12])
        groups[group] = groups.get(group, 0) + (user + system) / TICKS
    return {process.name: round(groups.get(process.popen.pid, 0), 1) for process in run.processes}
