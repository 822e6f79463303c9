"""A node without a kubelet: a runtime, its CRI client, and what an agent finds there."""

import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from e2e.harness.node.agent import Host, RunningAgent, start_agent
from e2e.harness.node.containerd import Containerd, start_containerd
from e2e.harness.node.cri import Cri, CriError, Sandbox
from e2e.harness.node.machine import start_machine
from e2e.harness.processes import cgroups
from e2e.harness.processes.run import Run, run
from e2e.harness.processes.waiting import within
from e2e.testbed import cache

EMPTY = NodeLedger.of(Node("real"))


@dataclass(frozen=True, slots=True)
class RuntimeNode:
    """The node.

    Attributes:
        cri: asks the runtime as a kubelet does.
        host: its files, and the record that the agent reads.
    """

    run: Run
    runtime: Containerd
    cri: Cri
    host: Host

    def agent(self, **more: Any) -> RunningAgent:
        """Start an agent, with these changes to its configuration."""
        return start_agent(self.runtime, self.host, self.host.configuration(self.runtime, **more))

    def begin(self) -> None:
        """No pod holds a card."""
        self.host.write_ledger(EMPTY)

    def retried(self, sandbox: Sandbox, env: Mapping[str, str] | None = None) -> str:
        """Create a container ``main``, with retries as a kubelet does; its id."""
        made: list[str] = []

        def run() -> bool:
            try:
                made.append(self.cri.run(sandbox, "main", env))
            except CriError:
                return False
            return True

        within(30, run)
        return made[0]

    def end(self) -> None:
        """Stop the agents, remove the pods and what they leave."""
        for process in [each for each in self.run.processes if each.name.startswith("agent")]:
            process.identity.signal_group(signal.SIGCONT)
            process.stop()
            self.run.processes.remove(process)
        self.cri.clear()
        shutil.rmtree(self.host.folder / "vgpu" / "containers", ignore_errors=True)


@contextmanager
def start_runtime_node(component: str) -> Iterator[RuntimeNode]:
    """A node with this runtime for the length of a block.

    Raises:
        NotBuiltError: it is not in the test bed.
    """
    cache.binary(component, "containerd")  # before a machine is started for nothing
    with run() as this:
        runtime = start_containerd(start_machine(this), component)
        logs = this.folder / "logs"
        logs.mkdir()
        with Cri.connect(runtime.socket, cgroups.create(this.folder), logs) as cri:
            cri.wait()
            yield RuntimeNode(this, runtime, cri, Host.make(this.folder / "host"))
            cri.clear()
