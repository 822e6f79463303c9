"""Extended resources that the service writes to the status of nodes, when it is asked to."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.harness.api import Object
from e2e.harness.cluster import cluster
from e2e.harness.control_plane import ControlPlane
from e2e.harness.ports import free_ports
from e2e.harness.service import Service, example, install

WANTED = {"volcano.sh/vgpu-number", "volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory"}


@dataclass(slots=True)
class Publishing(Service):
    """A service that is asked to."""

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


def test_a_node_states_its_cards_and_does_again_after_a_kubelet_reset_them(
    plane: ControlPlane,
) -> None:
    clear, secure = free_ports(2)
    service = Publishing(plane, "publishing", clear, secure)
    service.start()
    (node,) = plane.api.get("/api/v1/nodes")["items"]
    path = f"/api/v1/nodes/{node['metadata']['name']}"

    first = stated(plane, path)
    reset = dict.fromkeys(first, "0")
    plane.api.merge(f"{path}/status", {"status": {"capacity": reset, "allocatable": reset}})
    again = stated(plane, path)

    assert first == again
    print(f"the node states {first}")
    assert service.stop() == 0


def stated(plane: ControlPlane, path: str) -> Object:
    """What the node states of the resources, once it states them all."""

    def found() -> Object:
        status = plane.api.get(path)["status"]
        return {key: status["allocatable"].get(key, "0") for key in sorted(WANTED)}

    deadline = time.monotonic() + 20
    while "0" in found().values():
        assert time.monotonic() < deadline, found()
        time.sleep(0.1)
    return found()
