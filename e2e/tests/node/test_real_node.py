"""A real kubelet on a real containerd runs a pod here, and leaves the host as it was."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.ready_cluster import bind
from e2e.harness.node.containerd import Containerd, start_containerd
from e2e.harness.node.image import NAME
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.machine import start_machine
from e2e.harness.processes import cgroups
from e2e.harness.processes.run import REPOSITORY, run
from e2e.harness.processes.waiting import within
from e2e.testbed import cache
from e2e.testbed.versions import components

CRASHING = """
import time
from e2e.harness.node.containerd import start_containerd
from e2e.harness.cluster.control_plane import start_control_plane
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.machine import start_machine
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.tests.node.test_real_node import PODS, is_running, running_pod
with run() as this:
    runtime = start_containerd(start_machine(this), "containerd-2")
    plane = start_control_plane(this)
    start_kubelet(plane, runtime, "real")
    plane.api.create(PODS, running_pod("lost"))
    within(60, lambda: is_running(plane, "lost"))
    print(this.folder, flush=True)
    time.sleep(600)
"""
PODS = "/api/v1/namespaces/default/pods"
PARAMETERS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
PLACES = ("/var/lib/kubelet", "/var/log/containers", "/run/containerd", "/sys/fs/cgroup/memory")

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root"),
]


def traces(run: str) -> dict[str, object]:
    """What a node of this run could change on the host; other runs come and go."""
    found: dict[str, object] = {name: (Path("/proc/sys") / name).read_text() for name in PARAMETERS}
    for place in map(Path, PLACES):
        names = {file.name for file in place.iterdir()} if place.exists() else set[str]()
        found[str(place)] = {n for n in names if not n.startswith("dragoman-e2e-") or run in n}
    found["mounts"] = run in Path("/proc/mounts").read_text()
    return found


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with run() as this:
        yield start_control_plane(this)


@pytest.fixture(params=["containerd-1", "containerd-2", "containerd"])
def runtime(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Containerd]:
    """The runtime of a node that has its name."""
    with run() as this:
        before = traces(this.folder.name)
        runtime = start_containerd(start_machine(this), request.param)
        start_kubelet(plane, runtime, runtime.component)
        yield runtime
    assert traces(this.folder.name) == before


def running_pod(name: str, node: str = "real") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": NAME,
        "imagePullPolicy": "Never",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": {"limits": {"cpu": "100m", "memory": "32Mi"}},
    }
    spec = {
        "nodeName": node,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return {"metadata": {"name": name}, "spec": spec}


def is_running(plane: ControlPlane, name: str) -> bool:
    return bool(plane.api.get(f"{PODS}/{name}")["status"].get("phase") == "Running")


def sandbox_annotations(runtime: Containerd) -> list[dict[str, str]]:
    """What containerd keeps of each sandbox's configuration; NRI plugins are shown the same."""
    client = cache.binary(runtime.component, "ctr")
    words: list[str | Path] = [client, "-a", runtime.socket, "-n", "k8s.io", "containers"]
    listed = output(runtime, [*words, "list", "--quiet"]).split()
    found = []
    for name in listed:
        known = json.loads(output(runtime, [*words, "info", name]))["Extensions"]
        for key, value in known.items():
            if key.endswith("sandbox.metadata"):
                metadata = json.loads(base64.b64decode(value["value"]))["Metadata"]
                found.append(metadata["Config"]["annotations"])
    return found


def output(runtime: Containerd, words: list[str | Path]) -> str:
    command = runtime.machine.command(words)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_pod_runs_on_a_real_node_and_its_sandbox_has_its_annotations_and_its_bindings(
    plane: ControlPlane, runtime: Containerd
) -> None:
    node = runtime.component
    info = plane.api.get(f"/api/v1/nodes/{node}")["status"]["nodeInfo"]
    pod = running_pod(f"on-{node}")
    pod["metadata"]["annotations"] = {"author": "wrote"}
    del pod["spec"]["nodeName"]
    pod["spec"]["schedulerName"] = "no-scheduler"
    plane.api.create(PODS, pod)
    bind(plane.api, f"on-{node}", node, {"dragoman.dev/e2e-grant": "card-0"})
    plane.api.create(PODS, running_pod(f"unbound-{node}", node))

    seconds = within(60, lambda: is_running(plane, f"on-{node}"))
    within(60, lambda: is_running(plane, f"unbound-{node}"))
    plane.api.merge(f"{PODS}/on-{node}", {"metadata": {"annotations": {"late": "comes"}}})
    time.sleep(3)
    (annotations,) = [row for row in sandbox_annotations(runtime) if "author" in row]

    print(
        f"kubelet {info['kubeletVersion']}, {info['containerRuntimeVersion']}: "
        f"running after {seconds:.1f} s; the sandbox has {annotations}"
    )
    assert annotations["author"] == "wrote"
    assert annotations["dragoman.dev/e2e-grant"] == "card-0"
    assert "late" not in annotations


def test_a_killed_test_process_leaves_no_container_behind() -> None:
    for component in ("kubernetes", "etcd", "containerd-2", "runc", "busybox", "cni"):
        cache.binary(component, next(iter(components()[component].binaries)))
    before = traces("not started yet")
    crashing = subprocess.Popen(
        [sys.executable, "-c", CRASHING], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert crashing.stdout is not None
    folder = Path(crashing.stdout.readline().strip())
    assert folder.is_dir()
    assert cgroups.name_of(folder) in str(traces(folder.name))

    crashing.kill()
    crashing.communicate()

    seconds = within(20, lambda: not folder.exists())
    print(f"a killed run with a running container is gone after {seconds:.1f} s")
    assert traces(folder.name) == before
