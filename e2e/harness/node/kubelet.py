"""A real node: kubelet on a containerd of its own."""

import json
from pathlib import Path

from e2e.harness.cluster.api import ApiError
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import is_ready
from e2e.harness.node.containerd import Containerd
from e2e.harness.processes import cgroups
from e2e.harness.processes.flags import Flags, words
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.process import Process
from e2e.testbed import cache


def start_kubelet(plane: ControlPlane, runtime: Containerd, name: str) -> Process:
    """Start it and wait until the node is ready. It may have run before, on the same machine.

    Raises:
        NotBuiltError: it is not built.
        StartError: it ends, or the node does not get ready.
    """
    port, health_port = free_ports(2)
    folder = plane.run.folder / f"kubelet-{name}"
    folder.mkdir(exist_ok=True)
    group = cgroups.create(runtime.machine.run.folder)
    configuration = _configuration(folder, runtime, group, port, health_port)
    (folder / "config.json").write_text(json.dumps(configuration))
    flags: Flags = {
        "config": folder / "config.json",
        "kubeconfig": plane.kubeconfig(f"system:node:{name}", "system:nodes"),
        "hostname-override": name,
        "root-dir": folder / "root",
        "cert-dir": folder / "certificates",
    }

    def has_ready_node() -> bool:
        try:
            return is_ready(plane.api.get(f"/api/v1/nodes/{name}"))
        except ApiError:
            return False

    for collection in ("/api/v1/nodes", "/apis/storage.k8s.io/v1/csinodes"):  # it makes them itself
        plane.api.note(collection, {"metadata": {"name": name}})
    binary = cache.binary("kubernetes", "kubelet")
    return plane.run.start(
        f"kubelet-{name}",
        runtime.machine.command([binary, *words(flags)]),
        ready=has_ready_node,
        patience=30,
    )


def _configuration(
    folder: Path, runtime: Containerd, group: str, port: int, health_port: int
) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": health_port,
        "containerRuntimeEndpoint": f"unix://{runtime.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": group,
        "failCgroupV1": False,  # from 1.35 on it refuses version 1 otherwise
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "volumePluginDir": str(folder / "plugins"),
        "podLogsDir": str(folder / "logs"),
        "resolvConf": "",
        "syncFrequency": "2s",
        "nodeStatusUpdateFrequency": "2s",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "evictionHard": {"memory.available": "1Mi"},
    }
