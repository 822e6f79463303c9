"""Extended resources that the service writes to the status of nodes, where it is configured."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import cluster
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, example, grant, install

OTHERS = {"metax-tech.com/sgpu": "16"}
"""What another device plugin states."""

WANTED = {"volcano.sh/vgpu-number", "volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory"}


@dataclass(slots=True)
class Publishing(Service):
    """A service that publishes."""

    def _settings(self) -> Path:
        file = Service._settings(self)
        file.write_text(json.dumps({**json.loads(file.read_text()), "publish": ["volcano"]}))
        return file


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    (node, *_) = [each for each in example("volcano-hami-core") if each["kind"] == "Node"]
    amounts = dict.fromkeys(("cpu", "pods"), "8")
    node["status"] = {"capacity": amounts, "allocatable": amounts}
    with cluster([node]) as plane:
        install(plane)
        yield plane


def test_a_node_states_its_cards_again_after_a_reset_and_none_after_it_lost_them(
    plane: ControlPlane,
) -> None:
    clear, secure = free_ports(2)
    grant(plane, {"publish": ["volcano"]})
    service = Publishing(plane, "publishing", clear, secure)
    service.start()
    (node,) = plane.api.get("/api/v1/nodes")["items"]
    path = f"/api/v1/nodes/{node['metadata']['name']}"

    first = stated(plane, path)
    reset = dict.fromkeys(first, "0")
    plane.api.merge(f"{path}/status", {"status": {"capacity": reset, "allocatable": reset}})
    again = stated(plane, path)
    plane.api.merge(f"{path}/status", {"status": {"capacity": OTHERS, "allocatable": OTHERS}})
    register = {"metadata": {"annotations": {"volcano.sh/node-vgpu-register": None}}}
    plane.api.merge(path, register)
    within(20, lambda: not WANTED & plane.api.get(path)["status"]["capacity"].keys())
    left = plane.api.get(path)

    assert first == again
    assert OTHERS.items() <= left["status"]["allocatable"].items()
    assert not WANTED & left["status"]["allocatable"].keys()
    assert "dragoman.dev/published" not in left["metadata"]["annotations"]
    print(f"the node states {first}")
    assert service.stop() == 0


def stated(plane: ControlPlane, path: str) -> Object:
    """What the node states of the resources, once it states them all."""

    within(20, lambda: "0" not in states(plane, path).values())
    return states(plane, path)


def states(plane: ControlPlane, path: str) -> Object:
    """What the node states of the resources now."""
    status = plane.api.get(path)["status"]
    return {key: status["allocatable"].get(key, "0") for key in sorted(WANTED)}
