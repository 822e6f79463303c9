"""Processor time that the components of a run have used so far."""

import psutil

from e2e.harness.processes.run import Run


def processor_seconds(run: Run) -> dict[str, float]:
    """Processor seconds of each running component, its living children included."""
    return {process.name: round(_of_family(process.popen.pid), 1) for process in run.processes}


def _of_family(pid: int) -> float:
    try:
        leader = psutil.Process(pid)
        family = [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    return sum(map(_of_one, family))


def _of_one(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system
