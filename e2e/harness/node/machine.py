"""A machine within the machine: mounts and processes of a node, apart from the host's.

A kubelet and a container runtime write to fixed places, start processes that outlive them, mount
file systems and set kernel parameters. In a mount and process namespace of their own all of that
ends with its first process, however that ends. Files below the run's folder stay shared, so
sockets can be reached from outside; the network is the host's.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from e2e.harness.node import processors as shown
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
        shown.write(folder / "processors", processors)
        _mount("--bind", str(folder / "processors"), str(shown.NODES))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    (folder / "ready").touch()
    while True:
        signal.pause()


def _mount(*words: str) -> None:
    # --no-mtab: /run is not written to before it is layered.
    subprocess.run(["mount", "--no-mtab", *words], check=True)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
