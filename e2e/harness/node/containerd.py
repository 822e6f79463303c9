"""A containerd of its own: private folder, private sockets, NRI on, one image inside."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.node.image import NAME, write_image
from e2e.harness.node.machine import Machine
from e2e.harness.node.network import write_network
from e2e.harness.processes.run import REPOSITORY
from e2e.testbed import cache

# Version 3 for containerd 2, version 2 for containerd 1: there CRI is one plugin.
CONFIGURATION_2 = """\
version = 3
imports = ["{nri}"]
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/c.sock"
[ttrpc]
  address = "{folder}/c.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "{folder}/registries"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{image}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  cdi_spec_dirs = ["{folder}/cdi"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{networks}", "{folder}/plugins"]
    conf_dir = "{folder}/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{runc}"
      Root = "{folder}/runc"
"""
CONFIGURATION_1 = """\
version = 2
imports = ["{nri}"]
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/c.sock"
[ttrpc]
  address = "{folder}/c.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  enable_cdi = true
  restrict_oom_score_adj = true
  disable_apparmor = true
  cdi_spec_dirs = ["{folder}/cdi"]
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{folder}/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{networks}"
    conf_dir = "{folder}/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{runc}"
      Root = "{folder}/runc"
"""
# A node of these tests pulls nothing: a cluster may want programs of its own on every node, which
# have no business on this machine. Source: containerd docs/hosts.md.
REGISTRIES = 'server = "https://127.0.0.1:1"\n'
# What a node has: the files of configs/containerd, imported as they stand.
NRI_1, NRI_2 = "nri-1.7.toml", "nri-2.x.toml"
NRI_SOCKET = Path("/var/run/nri/nri.sock")
"""Where they let containerd serve plugins; a machine has a /run of its own."""

# Most pods of these tests use the node's network; the node is ready only with some configured.
NETWORK = '{"cniVersion": "1.0.0", "name": "e2e", "plugins": [{"type": "loopback"}]}'


@dataclass(frozen=True, slots=True)
class Containerd:
    """A running containerd.

    Attributes:
        component: of the test bed, ``containerd-1``, ``containerd-2`` or ``containerd``.
        socket: where it serves CRI.
        plugins: where it serves NRI plugins, as they reach it in the machine.
    """

    machine: Machine
    component: str
    folder: Path
    socket: Path
    plugins: Path = NRI_SOCKET

    @property
    def nri(self) -> Path:
        """Where it serves NRI plugins, as they reach it from outside of the machine."""
        return Path(f"/proc/{self.machine.pid}/root/run/nri/nri.sock")

    def stop(self) -> None:
        """End the daemon; its containers go on."""
        (process,) = [each for each in self.machine.run.processes if each.name == self.component]
        process.stop()
        self.machine.run.processes.remove(process)

    def name_image(self, *names: str) -> None:
        """Let the tests' image be found under further names, such as ``docker.io/library/x:1``."""
        client = cache.binary(self.component, "ctr")
        words: list[str | Path] = [client, "-a", self.socket, "-n", "k8s.io", "images", "tag"]
        command = self.machine.command([*words, NAME, *names])
        subprocess.run(command, capture_output=True, check=True, timeout=30)

    def restart(self) -> None:
        """Start it again, after it was stopped, on what it has left.

        Raises:
            StartError: it does not start.
        """
        _start(self.machine, self.component, self.folder, self.socket)


def start_containerd(machine: Machine, component: str, *, addresses: bool = False) -> Containerd:
    """Start it and give it the image.

    Args:
        machine: on which it runs.
        component: of the test bed.
        addresses: whether pods may have a network of their own; not with containerd 1.

    Raises:
        NotBuiltError: it is not in the test bed.
        StartError: it does not start.
    """
    run = machine.run
    folder = run.folder / component
    cache.binary(component, "containerd")
    for name in ("net.d", "cdi", "plugins"):
        (folder / name).mkdir(parents=True)
    (folder / "net.d" / "10-e2e.conflist").write_text(NETWORK)
    everywhere = folder / "registries" / "_default"
    everywhere.mkdir(parents=True)
    (everywhere / "hosts.toml").write_text(REGISTRIES)
    if addresses:
        write_network(folder / "net.d", folder / "plugins")
    old = component == "containerd-1"
    template = CONFIGURATION_1 if old else CONFIGURATION_2
    words = {
        "nri": REPOSITORY / "configs" / "containerd" / (NRI_1 if old else NRI_2),
        "folder": folder,
        "image": NAME,
        "networks": cache.binary("cni", "loopback").parent,
        "runc": cache.binary("runc", "runc"),
    }
    (folder / "config.toml").write_text(template.format(**words))
    socket = folder / "c.sock"
    _start(machine, component, folder, socket)
    return Containerd(machine=machine, component=component, folder=folder, socket=socket)


def _start(machine: Machine, component: str, folder: Path, socket: Path) -> None:
    binary = cache.binary(component, "containerd")
    # The shim is looked up on PATH.
    path = f"{binary.parent}{os.pathsep}{os.environ['PATH']}"
    machine.run.start(
        component,
        machine.command([binary, "-c", folder / "config.toml"]),
        ready=lambda: _import_image(machine, component, folder, socket),
        environment={"PATH": path},
    )


def _import_image(machine: Machine, component: str, folder: Path, socket: Path) -> bool:
    """Whether it took the image; not as long as it does not answer."""
    if not socket.exists():
        return False
    archive = folder / "image.tar"
    if not archive.exists():
        write_image(archive, cache.binary("busybox", "busybox"))
    client = cache.binary(component, "ctr")
    words: list[str | Path] = [client, "-a", socket, "-n", "k8s.io", "images", "import", archive]
    done = subprocess.run(
        machine.command(words),
        capture_output=True,
        check=False,
        timeout=30,
    )
    return done.returncode == 0
