"""A real NRI plugin beside a containerd, and what it was shown.

The plugin is ``e2e/testbed/nri/main.go``, on the library that upstream's plugins are made with.
"""

import json
from dataclasses import dataclass

from e2e.harness.cluster.api import Object
from e2e.harness.node.containerd import Containerd
from e2e.harness.processes.process import Process
from e2e.testbed import cache


@dataclass(frozen=True, slots=True)
class Witness:
    """A running plugin."""

    process: Process

    def events(self, name: str) -> list[Object]:
        """Every event of one name so far: ``pod`` and ``container`` as NRI's messages have them."""
        lines = self.process.log.read_text().splitlines()
        shown = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in shown if event["event"] == name]


def start_witness(runtime: Containerd, name: str) -> Witness:
    """Start a plugin of this name and wait until it knows everything that runs.

    Raises:
        NotBuiltError: it is not built.
        StartError: the runtime does not take it.
    """
    binary = cache.binary("nri", "nri-witness")
    process = runtime.machine.run.start(name, [binary, f"--socket={runtime.nri}", f"--name={name}"])
    witness = Witness(process)
    process.wait_until(lambda: bool(witness.events("Synchronized")))
    return witness
