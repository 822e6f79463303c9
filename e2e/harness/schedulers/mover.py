"""The mover, from this checkout, with the rights that the chart gives it."""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.cluster import chart
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.names import NAMESPACE, RELEASE
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY

PLANS = "/apis/dragoman.dev/v1alpha1/moveplans"


@dataclass(slots=True)
class MoverProcess:
    """One process of it, which can be killed and started again.

    Attributes:
        config: with its account.
        process: the latest; None where it does not run.
    """

    plane: ControlPlane
    config: Path
    process: Process | None = None

    def start(self) -> None:
        """Start it; it evicts as often as a plan asks."""
        words: list[str | Path] = [sys.executable, "-m", "dragoman", "mover"]
        words += ["--kubeconfig", self.config]
        words += ["--per-hour", "1000", "--per-namespace-per-hour", "1000"]
        environment = {"PYTHONPATH": str(REPOSITORY)}
        self.process = self.plane.run.start("mover", words, environment=environment)

    def kill(self) -> None:
        """Kill -9 the process, if it runs."""
        process, self.process = self.process, None
        if process is not None:
            self.plane.run.processes.remove(process)
            process.identity.signal_group(signal.SIGKILL)
            process.popen.wait()


def start_mover(plane: ControlPlane) -> MoverProcess:
    """Install its rights, and start it."""
    objects = chart.render({**plane.values, "defrag": {"enabled": True}})
    chart.apply(
        plane,
        [
            each
            for each in objects
            if each["kind"] in chart.RIGHTS and each["metadata"]["name"] == f"{RELEASE}-mover"
        ],
    )
    made = MoverProcess(plane, account(plane, NAMESPACE, f"{RELEASE}-mover"))
    made.start()
    return made
