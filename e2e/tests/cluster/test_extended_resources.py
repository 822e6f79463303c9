"""Question 6: extended resources in a node's status: who may write them, and what they survive."""

import os
import time
from collections.abc import Iterator

import pytest

from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.node.containerd import Containerd, start_containerd
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.machine import start_machine
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within

STATUS = "/api/v1/nodes/real/status"
SHARES = "dragoman.dev/e2e-shares"

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root"),
]


class Node:
    """A kubelet that can be stopped and started again."""

    def __init__(self, plane: ControlPlane, runtime: Containerd) -> None:
        self.plane, self.runtime = plane, runtime
        self.kubelet: Process = start_kubelet(plane, runtime, "real")

    def amounts(self) -> tuple[str | None, str | None]:
        """Capacity and allocatable of our resource."""
        status = self.plane.api.get("/api/v1/nodes/real")["status"]
        return status["capacity"].get(SHARES), status["allocatable"].get(SHARES)

    def heartbeat(self) -> str:
        """When the kubelet wrote the status the last time."""
        rows = self.plane.api.get("/api/v1/nodes/real")["status"]["conditions"]
        return next(str(row["lastHeartbeatTime"]) for row in rows if row["type"] == "Ready")

    def stop(self) -> None:
        """Stop the kubelet; its containers and its folders stay."""
        self.plane.run.processes.remove(self.kubelet)
        self.kubelet.stop()

    def start(self) -> None:
        """Start it again, and wait for a status that it has written since."""
        before = self.heartbeat()
        time.sleep(1.1)
        self.kubelet = start_kubelet(self.plane, self.runtime, "real")
        within(30, lambda: self.heartbeat() != before)


@pytest.fixture
def node() -> Iterator[Node]:
    with run() as this:
        runtime = start_containerd(start_machine(this), "containerd-2")
        yield Node(start_control_plane(this), runtime)


def grant(api: Api, amount: str) -> None:
    api.merge(STATUS, {"status": {"capacity": {SHARES: amount}}})


def test_who_may_write_them_and_what_they_survive(node: Node) -> None:
    grant(node.plane.api, "8")
    print("written only as capacity:", node.amounts())
    within(30, lambda: node.amounts() == ("8", "8"))
    print("after the kubelet's next status:", node.amounts())

    node.stop()
    node.start()
    print("after a restart of the kubelet:", node.amounts())
    assert node.amounts() == ("8", "8")

    node.stop()
    checkpoints = "/var/lib/kubelet/device-plugins"
    words = node.runtime.machine.command(["rm", "-rf", checkpoints])
    assert node.plane.run.start("wipe", words).popen.wait(10) == 0
    node.start()
    print("after a restart without the device manager's folder:", node.amounts())
    assert node.amounts() == ("8", "8")

    own = node.plane.as_user("system:node:real", "system:nodes")
    grant(own, "4")
    within(30, lambda: node.amounts() == ("4", "4"))
    print("written as the node itself:", node.amounts())

    for user in ("system:node:other", "system:serviceaccount:default:default"):
        group = "system:nodes" if "node" in user else "system:serviceaccounts"
        with pytest.raises(ApiError) as refusal:
            grant(node.plane.as_user(user, group), "2")
        print(f"as {user}:", refusal.value)
        assert refusal.value.status == 403
