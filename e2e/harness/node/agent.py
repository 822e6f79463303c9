"""The node agent on a runtime of the test bed, with a node's files of its own."""

import json
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.wire.records.ledger import encode
from core.ledger.node_ledger import NodeLedger
from e2e.harness.node.containerd import Containerd
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY
from e2e.harness.processes.waiting import within

CARDS = 16
CARD_MAJOR, CONTROL = 10, (10, 237)
"""Numbers of real character devices: the runtime looks at nothing else."""


@dataclass(slots=True)
class Host:
    """What the agent finds on its node: device nodes, a library, folders.

    Attributes:
        folder: that holds all of it.
    """

    folder: Path
    files: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def make(cls, folder: Path) -> "Host":
        """Make it."""
        (folder / "dev").mkdir(parents=True)
        for name in (f"nvidia{index}" for index in range(CARDS)):
            _node(folder / "dev" / name, CARD_MAJOR, 100 + int(name.removeprefix("nvidia")))
        _node(folder / "dev" / "nvidiactl", *CONTROL)
        (folder / "vgpu").mkdir()
        # Nothing preloads in a static busybox, so any file will do.
        (folder / "vgpu" / "libvgpu.so").write_text("HAMi-core\n")
        (folder / "vgpu" / "ld.so.preload").write_text("/usr/local/vgpu/libvgpu.so\n")
        return cls(folder)

    def configuration(self, runtime: Containerd, **more: Any) -> dict[str, Any]:
        """The agent's configuration for this node."""
        vgpu = self.folder / "vgpu"
        nvidia = {
            "cardDevices": [f"{self.folder}/dev/nvidia{{index}}"],
            "devices": [f"{self.folder}/dev/nvidiactl"],
            "optionalDevices": [f"{self.folder}/dev/nvidia-uvm"],
            "hamiCore": {
                "library": str(vgpu / "libvgpu.so"),
                "preloadFile": str(vgpu / "ld.so.preload"),
                "lock": str(self.folder / "vgpulock"),
                "caches": str(vgpu / "containers"),
            },
        }
        return {
            "node": "real",
            "socket": str(runtime.plugins),
            "ledger": {"file": str(self.folder / "ledger.json")},
            "inventory": {"source": "none"},
            "monitor": {"listen": ""},
            "profiles": {"nvidia": nvidia},
        } | more

    def write_ledger(self, ledger: NodeLedger) -> None:
        """Let the agent see this record."""
        part = self.folder / "ledger.part"
        part.write_bytes(encode(ledger))
        part.rename(self.folder / "ledger.json")


@dataclass(slots=True)
class RunningAgent:
    """An agent that runs.

    Attributes:
        process: the agent's process.
        config: its configuration file.
    """

    process: Process
    config: Path

    def events(self, event: str) -> list[dict[str, Any]]:
        """The events of one name that it has logged so far."""
        lines = [line for line in self.process.log.read_text().splitlines() if line.startswith("{")]
        return [found for line in lines if (found := json.loads(line))["event"] == event]

    def wait_for(self, event: str, count: int = 1, seconds: float = 30) -> dict[str, Any]:
        """Wait until it has logged this event so often; the latest."""
        within(seconds, lambda: len(self.events(event)) >= count)
        return self.events(event)[-1]


def start_agent(
    runtime: Containerd,
    host: Host,
    configuration: dict[str, Any],
    *,
    name: str = "agent",
    command: Sequence[str] = (sys.executable, "-P", "-m", "adapters.agent"),
) -> RunningAgent:
    """Start one and wait until the runtime asks it.

    Args:
        runtime: that asks it.
        host: its node.
        configuration: its own.
        name: of its log.
        command: that starts it, but for the configuration's name.

    Raises:
        StartError: it does not get that far.
    """
    run = runtime.machine.run
    number = len(list(run.folder.glob(f"{name}-*.log")))
    config = host.folder / f"{name}-{number}.json"
    config.write_text(json.dumps(configuration))
    log = run.folder / f"{name}-{number}.log"
    words: list[str | Path] = [*command, config]
    process = run.start(
        f"{name}-{number}",
        runtime.machine.command(words),
        ready=lambda: log.exists() and '"nri.active"' in log.read_text(),
        environment={"PYTHONPATH": str(REPOSITORY)},
    )
    return RunningAgent(process, config)


def _node(path: Path, major: int, minor: int) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
