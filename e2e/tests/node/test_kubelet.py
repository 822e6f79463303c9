"""A pod on a real kubelet: it starts with its share once its grant is there, and not before."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.hardware.quantity import GIB
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.names import LEDGERS, NAMESPACE, RELEASE
from e2e.harness.node.agent import Host, RunningAgent, start_agent
from e2e.harness.node.containerd import start_containerd
from e2e.harness.node.image import NAME
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.machine import start_machine
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import install
from e2e.tests.node.builders import a_grant, a_ledger, an_allocation, node_ledger

PODS = "/api/v1/namespaces/default/pods"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root")


@pytest.fixture(params=["containerd-1", "containerd-2", "containerd"])
def node(request: pytest.FixtureRequest) -> Iterator[tuple[ControlPlane, RunningAgent]]:
    with run() as this:
        runtime = start_containerd(start_machine(this), request.param)
        plane = start_control_plane(this)
        install(plane)
        host = Host.make(this.folder / "host")
        kubeconfig = account(plane, NAMESPACE, f"{RELEASE}-node")
        source = {"ledger": {"kubeconfig": str(kubeconfig)}}
        agent = start_agent(runtime, host, host.configuration(runtime) | source)
        start_kubelet(plane, runtime, "real")
        yield plane, agent


def pod() -> dict[str, Any]:
    containers = [
        {
            "name": name,
            "image": NAME,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", "env; sleep 1000"],
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        }
        for name in ("first", "second")
    ]
    return {
        "metadata": {"name": "shared", "annotations": {"volcano.sh/vgpu-ids-new": "not read"}},
        "spec": {
            "nodeName": "real",
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "containers": containers,
        },
    }


def record(uid: str) -> dict[str, Any]:
    grants = (a_grant(container="first"), a_grant("GPU-1", 2 * GIB, 20, "second"))
    return node_ledger(a_ledger(an_allocation(*grants, uid=uid, pod="default/shared")))


def logged(plane: ControlPlane, container: str) -> dict[str, str]:
    """What a container printed: lines of the runtime's format, its time and stream cut off."""
    (file,) = Path(plane.run.folder).glob(f"kubelet-real/logs/default_shared_*/{container}/*.log")
    lines = (line.split(" ", 3)[-1] for line in file.read_text().splitlines())
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_a_pod_starts_with_its_share_when_its_grant_has_come(
    node: tuple[ControlPlane, RunningAgent],
) -> None:
    plane, agent = node
    uid = plane.api.create(PODS, pod())["metadata"]["uid"]
    agent.wait_for("container.rejected")
    before = plane.api.get(f"{PODS}/shared")["status"].get("phase")

    plane.api.create(LEDGERS, record(uid))
    within(60, lambda: plane.api.get(f"{PODS}/shared")["status"].get("phase") == "Running")

    assert before == "Pending"
    names = ("first", "second")
    within(30, lambda: all("NVIDIA_VISIBLE_DEVICES" in logged(plane, name) for name in names))
    first, second = logged(plane, "first"), logged(plane, "second")
    assert (first["NVIDIA_VISIBLE_DEVICES"], second["NVIDIA_VISIBLE_DEVICES"]) == ("GPU-0", "GPU-1")
    assert first["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1024m"
    assert second["CUDA_DEVICE_SM_LIMIT"] == "20"
