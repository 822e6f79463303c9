"""A node that a real kubelet registers, with a containerd and the node agent on it."""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.node.agent import Host, start_agent
from e2e.harness.node.containerd import Containerd, start_containerd
from e2e.harness.node.cri import Cri, CriError
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.machine import start_machine
from e2e.harness.processes import cgroups
from e2e.harness.processes.run import Run
from e2e.testbed.cache import NotBuiltError

PROCESSORS = 16
"""That the kubelet counts: the guides' pods ask for four and use none."""

LIBRARIES = (
    "/usr/local/vgpu/libvgpu.so",
    "/etc/ld.so.preload",
    "/tmp/vgpu",
    "/tmp/vgpulock",
)
"""Where HAMi-core's files are mounted inside, if it bounds the container."""

_LISTED = re.compile(r"^c\S+ +\d+ +\S+ +\S+ +(\d+), +(\d+) .* (\S+)$", re.MULTILINE)
_CARD_MAJOR = 10
_CAPABILITIES = 14


@dataclass(frozen=True, slots=True)
class Inside:
    """What a process finds inside a container.

    Attributes:
        libraries: those of ``LIBRARIES`` that are mounted.
        devices: names of the device nodes of the node's cards.
    """

    env: Mapping[str, str]
    libraries: frozenset[str]
    devices: frozenset[str]


@dataclass(frozen=True, slots=True)
class RealNode:
    """A node that is ready.

    Attributes:
        name: by which it is registered.
        host: what the agent finds on it.
    """

    name: str
    plane: ControlPlane
    runtime: Containerd
    host: Host
    cri: Cri

    @property
    def path(self) -> str:
        """Path of the node's object at the API server."""
        return f"/api/v1/nodes/{self.name}"

    def inside(self, pod: Object, container: str) -> Inside:
        """Look into a running container of a pod, by commands that run in it."""
        (found,) = [
            row["containerID"].removeprefix("containerd://")
            for row in pod["status"]["containerStatuses"]
            if row["name"] == container
        ]
        mounted = self.cri.mounts(found)
        return Inside(
            self.cri.env(found),
            frozenset(path for path in LIBRARIES if path in mounted),
            frozenset(self.devices(found)),
        )

    def devices(self, container: str) -> dict[str, tuple[int, int]]:
        """The device nodes of cards inside a container, with their numbers."""
        try:
            listed = self.cri.exec(container, ["/bin/ls", "-l", f"{self.host.folder}/dev"])
        except CriError:  # no device, and so no folder
            return {}
        return {name: (int(major), int(minor)) for major, minor, name in _LISTED.findall(listed)}

    @contextmanager
    def agent(
        self, cards: list[dict[str, Any]] | None = None, *, monitor: int = 0
    ) -> Iterator[None]:
        """The node agent, fed by the ledger of the cluster, for the length of a block.

        Args:
            cards: the node's list of cards, with their MIG instances; without one the ledger's
                cards are used.
            monitor: its port for metrics; 0 for none.
        """
        configuration = self.host.configuration(self.runtime)
        if monitor:
            # Not 127.0.0.1: the API server forwards no request to it.
            configuration["monitor"] = {"listen": f":{monitor}"}
        configuration["node"] = self.name
        kubeconfig = self.plane.kubeconfig("agent", "system:masters")
        configuration["ledger"] = {"kubeconfig": str(kubeconfig)}
        if cards is not None:
            file = self.host.folder / "cards.json"
            file.write_text(json.dumps({"cards": cards}))
            configuration["inventory"] = {"source": "file", "file": str(file)}
        configuration["publish"] = {"cards": False}  # the dialects' own components publish them
        configuration["profiles"]["metax"] = _metax(self.host.folder)
        running = start_agent(self.runtime, self.host, configuration)
        try:
            yield
        finally:
            running.process.stop()
            self.runtime.machine.run.processes.remove(running.process)


@contextmanager
def real_node(plane: ControlPlane, run: Run, name: str) -> Iterator[RealNode]:
    """Start one and wait until it is ready.

    Args:
        plane: where it registers.
        run: the run of only this node: a node's folders have fixed names.
        name: of the node.

    Raises:
        NotBuiltError: a part is not built.
        StartError: a part does not start.
    """
    if os.geteuid() != 0:
        raise NotBuiltError("a real node needs root")
    machine = start_machine(run, processors=PROCESSORS)
    runtime = start_containerd(machine, "containerd", addresses=True)
    host = Host.make(run.folder / "host")
    for number in range(_CAPABILITIES):
        _device(host.folder / "dev" / f"nvidia-cap{number}", 200 + number)
        _device(host.folder / "dev" / f"card{number}", 220 + number)
    _device(host.folder / "dev" / "mxcd", 236)
    kubelet = start_kubelet(plane, runtime, name)
    group = cgroups.create(run.folder)
    with Cri.connect(runtime.socket, group, run.folder) as cri:
        yield RealNode(name, plane, runtime, host, cri)
    kubelet.stop()
    plane.run.processes.remove(kubelet)


def _metax(folder: Path) -> dict[str, Any]:
    """A profile by which the agent serves MetaX's cards; without it their plugin does."""
    return {
        "served": True,
        "visible": "METAX_VISIBLE_DEVICES",
        "names": "{indexes}",
        "env": {"METAX_MEMORY_MIB": "{memories}", "METAX_COMPUTE": "{computes}"},
        "cardDevices": [f"{folder}/dev/card{{index}}"],
        "devices": [f"{folder}/dev/mxcd"],
    }


def _device(path: Path, number: int) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(_CARD_MAJOR, number))
