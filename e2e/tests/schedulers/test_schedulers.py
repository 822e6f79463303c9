"""Every stock scheduler of the test bed places a pod on a node, and the node runs it."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.nodes import add_nodes, fake_node, is_ready, start_kwok
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import (
    start_koord_scheduler,
    start_kube_scheduler,
    start_volcano,
)

pytestmark = pytest.mark.local

PODS = "/api/v1/namespaces/default/pods"
VOLCANO = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with run() as this:
        plane = start_control_plane(this)
        start_kwok(plane)
        add_nodes(plane.api, [fake_node(f"node-{number}") for number in range(10)])
        within(20, lambda: all(map(is_ready, plane.api.get("/api/v1/nodes")["items"])))
        yield plane


def place(plane: ControlPlane, scheduler: str) -> dict[str, Any]:
    """Give the scheduler one pod, wait until it runs."""
    name = f"by-{scheduler}"
    container = {
        "name": "main",
        "image": "localhost/none",
        "resources": {"requests": {"cpu": "1"}},
    }
    spec = {"schedulerName": scheduler, "containers": [container]}
    plane.api.create(PODS, {"metadata": {"name": name}, "spec": spec})
    path = f"{PODS}/{name}"
    seconds = within(60, lambda: plane.api.get(path)["status"].get("phase") == "Running")
    pod = plane.api.get(path)
    print(f"{scheduler}: on {pod['spec']['nodeName']}, running {seconds:.1f} s after its creation")
    return pod


def test_kube_scheduler_places_a_pod(plane: ControlPlane) -> None:
    start_kube_scheduler(plane, {"profiles": [{"schedulerName": "kube"}]})

    assert place(plane, "kube")["spec"]["nodeName"].startswith("node-")


def test_koord_scheduler_places_a_pod(plane: ControlPlane) -> None:
    start_koord_scheduler(plane, {"profiles": [{"schedulerName": "koord"}]})

    assert place(plane, "koord")["spec"]["nodeName"].startswith("node-")
    # No port that a second run on this machine would want too.
    assert "Serving insecurely" not in plane.run.processes[-1].log.read_text()


def test_volcanos_scheduler_places_a_pod(plane: ControlPlane) -> None:
    start_volcano(plane, VOLCANO)

    assert place(plane, "volcano")["spec"]["nodeName"].startswith("node-")
