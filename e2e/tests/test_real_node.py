"""A real kubelet on a real containerd runs a pod here, and leaves the host as it was."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.containerd import start_containerd
from e2e.harness.control_plane import ControlPlane, start_control_plane
from e2e.harness.image import NAME
from e2e.harness.kubelet import start_kubelet
from e2e.harness.machine import start_machine
from e2e.harness.run import run
from e2e.harness.waiting import within
from e2e.testbed.cache import NotBuiltError

PODS = "/api/v1/namespaces/default/pods"
PARAMETERS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
PLACES = ("/var/lib/kubelet", "/var/log/containers", "/run/containerd", "/sys/fs/cgroup/memory")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root")


def traces() -> dict[str, object]:
    """What a node could change on the host."""
    found: dict[str, object] = {name: (Path("/proc/sys") / name).read_text() for name in PARAMETERS}
    for place in map(Path, PLACES):
        found[str(place)] = {file.name for file in place.iterdir()} if place.exists() else None
    found["mounts"] = "dragoman-e2e" in Path("/proc/mounts").read_text()
    return found


@pytest.fixture(params=["containerd-1", "containerd-2", "containerd"])
def node(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    before = traces()
    with run() as this:
        try:
            machine = start_machine(this)
            runtime = start_containerd(machine, request.param)
            plane = start_control_plane(this)
            start_kubelet(plane, runtime, "real")
        except NotBuiltError as missing:
            pytest.skip(str(missing))
        yield plane
    assert traces() == before


def running_pod(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": NAME,
        "imagePullPolicy": "Never",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": {"limits": {"cpu": "100m", "memory": "32Mi"}},
    }
    spec = {
        "nodeName": "real",
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return {"metadata": {"name": name}, "spec": spec}


def test_a_pod_runs_on_a_real_node(node: ControlPlane) -> None:
    info = node.api.get("/api/v1/nodes/real")["status"]["nodeInfo"]
    node.api.create(PODS, running_pod("first"))

    seconds = within(60, lambda: node.api.get(f"{PODS}/first")["status"].get("phase") == "Running")

    print(
        f"kubelet {info['kubeletVersion']}, {info['containerRuntimeVersion']}: "
        f"running after {seconds:.1f} s"
    )
