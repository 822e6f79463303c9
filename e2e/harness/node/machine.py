"""A machine within the machine: mounts and processes of a node, apart from the host's.

A kubelet and a container runtime write to fixed places, start processes that outlive them, mount
file systems and set kernel parameters. In a mount and process namespace of their own all of that
ends with its first process, however that ends. Files below the run's folder stay shared, so
sockets can be reached from outside; the network is the host's.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from e2e.harness.processes.run import REPOSITORY, Run

# What a node writes outside its own folders: /var/lib/kubelet/device-plugins, /var/log/containers,
# /run/containerd/s. Writes go to a layer that is thrown away.
LAYERED = ("/var", "/run")

# A kubelet sets these parameters of the kernel, which are the host's, unless it finds them so.
# Source: k8s.io/kubernetes/pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables.
PARAMETERS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """A running machine.

    Attributes:
        pid: of its first process, as the host sees it.
    """

    run: Run
    pid: int

    def command(self, words: Sequence[str | Path]) -> list[str]:
        """The command that runs a command inside."""
        inside = [str(word) for word in words]
        return ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--", *inside]


def start_machine(run: Run, name: str = "machine", processors: int = 0) -> Machine:
    """Start one.

    Args:
        run: that it belongs to.
        name: of its folder and log.
        processors: that a kubelet on it counts; 0 for those that there are.

    Raises:
        StartError: namespaces cannot be made here.
    """
    folder = run.folder / name
    folder.mkdir()
    namespaces = ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child=KILL"]
    first = [sys.executable, "-m", "e2e.harness.node.machine", str(folder), str(processors)]
    process = run.start(
        name,
        ["unshare", *namespaces, "--mount-proc", "--", *first],
        ready=(folder / "ready").exists,
        environment={"PYTHONPATH": str(REPOSITORY)},
    )
    children = Path(f"/proc/{process.popen.pid}/task/{process.popen.pid}/children").read_text()
    return Machine(run=run, pid=int(children.split()[0]))


def main() -> None:
    """Be the first process: arrange the mounts, reap, end at SIGTERM."""
    folder, processors = Path(sys.argv[1]), int(sys.argv[2])
    for path in LAYERED:
        upper, work = (folder / kind / path.strip("/") for kind in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        layers = f"lowerdir={path},upperdir={upper},workdir={work}"
        _mount("--types", "overlay", "--options", layers, "overlay", path)
    for name, value in PARAMETERS.items():
        file = folder / name.replace("/", "-")
        file.write_text(value)
        _mount("--bind", str(file), f"/proc/sys/{name}")
    if processors:
        _show_processors(folder / "processors", processors)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    (folder / "ready").touch()
    while True:
        signal.pause()


def _show_processors(folder: Path, count: int) -> None:
    """Let more be counted than there are, for pods that ask for many and use none.

    A kubelet counts folders and takes the numbers of processors, which it gives to control groups,
    from their names: ``cpu1`` and ``cpu01`` are one processor that counts as two.
    Source: github.com/google/cadvisor lib/utils/sysinfo/sysinfo.go, GetNodesInfo.
    """
    nodes = Path("/sys/devices/system/node")
    node, there = folder / "node0", os.cpu_count() or 1
    (node / "hugepages").mkdir(parents=True)
    for name in ("meminfo", "distance"):
        (node / name).write_text((nodes / "node0" / name).read_text())
    for number in range(count):
        processor = number % there
        topology = node / f"cpu{'0' * (number // there)}{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(str(number))  # one thread each, or they are found out
        (topology / "physical_package_id").write_text("0")
    _mount("--bind", str(folder), str(nodes))


def _mount(*words: str) -> None:
    # --no-mtab: /run is not written to before it is layered.
    subprocess.run(["mount", "--no-mtab", *words], check=True)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
