"""Calls to the service as schedulers make them, and what Events say of the pods."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import PODS, events, node_of
from e2e.harness.processes.process import Process
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, with_decisions


def bind_by(service: Service, name: str, node: str, pods: str = PODS) -> str:
    """Ask the service to bind a pod, as schedulers do; its error, or nothing."""
    found = service.plane.api.get(f"{pods}/{name}")["metadata"]
    question = {
        "PodName": name,
        "PodNamespace": found["namespace"],
        "PodUID": found["uid"],
        "Node": node,
    }
    return str(service.ask("/extender/bind", question).get("Error") or "")


def counted(service: Service, *words: str) -> int:
    """The sum of those of the service's counters whose line holds all of these words."""
    lines = [line for line in service.metrics().splitlines() if not line.startswith("#")]
    return sum(
        int(float(line.split()[-1])) for line in lines if all(word in line for word in words)
    )


def wait_until_bound(service: Service, *names: str, patience: float = 60) -> float:
    """Wait until pods have a node; how long that took.

    Raises:
        AssertionError: one has none, with the decisions of the service and the Events of the pods.
    """
    api = service.plane.api
    try:
        return with_decisions(
            service, lambda: within(patience, lambda: all(node_of(api, name) for name in names))
        )
    except AssertionError as late:
        seen = {name: events(api, name) for name in names if not node_of(api, name)}
        raise AssertionError(f"{late}\n{seen}") from late


def refusal(plane: ControlPlane, name: str) -> str:
    """Why a pod has no node, by its FailedScheduling Events; waits for the first."""

    def failures() -> list[str]:
        return [line for line in events(plane.api, name) if line.startswith("FailedScheduling")]

    within(60, lambda: bool(failures()))
    return "\n".join(failures())


def started(plane: ControlPlane, name: str) -> Process:
    """The running component of this name."""
    (found,) = [each for each in plane.run.processes if each.name == name]
    return found


@contextmanager
def asleep(process: Process) -> Iterator[None]:
    """Stop a process by SIGSTOP for a block; requests to it wait until it continues."""
    process.identity.signal_group(signal.SIGSTOP)
    try:
        yield
    finally:
        process.identity.signal_group(signal.SIGCONT)
