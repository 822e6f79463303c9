"""A device plugin in the machine of a kubelet (``device_plugin_server.py``)."""

import sys
from collections.abc import Sequence

from e2e.harness.node.device_plugin_server import PATIENCE
from e2e.harness.node.machine import Machine
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY


def start_device_plugin(machine: Machine, resource: str, uuids: Sequence[str]) -> Process:
    """Start it and wait until the kubelet knows it.

    Raises:
        StartError: it ends before.
    """
    words = [sys.executable, "-P", "-m", "e2e.harness.node.device_plugin_server", resource, *uuids]
    log = machine.run.folder / "device-plugin.log"
    return machine.run.start(
        "device-plugin",
        machine.command(words),
        ready=lambda: log.exists() and "registered" in log.read_text(),
        patience=PATIENCE,
        environment={"PYTHONPATH": str(REPOSITORY)},
    )
