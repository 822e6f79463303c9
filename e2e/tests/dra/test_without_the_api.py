"""A real API server that does not serve the API of claims."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from e2e.harness.cluster.api import ApiError
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.nodes import add_nodes, fake_node
from e2e.harness.processes.flags import Flags
from e2e.harness.processes.run import run
from e2e.harness.schedulers.service import install, start_service
from e2e.harness.workloads.claims import CARDS, NODE, RESOURCES
from e2e.harness.workloads.inventory import Gpu, volcano
from e2e.tests.dra.arbiter import wait_for_ledger

pytestmark = pytest.mark.local("its API server serves fewer APIs")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own: which APIs a server serves is decided at its start.

    Without this API the server's authorizer of kubelets never gets ready in 1.37.1, which lists
    ResourceSlices.
    """
    off: Flags = {"runtime-config": "resource.k8s.io/v1=false", "authorization-mode": "RBAC"}
    with run() as this:
        made = start_control_plane(this, off)
        switches = {"arbiter": {"enabled": True}, "shadows": {"enabled": True}}
        made = replace(made, values={"dra": {"enabled": True, **switches}})
        install(made)
        yield made


def test_a_service_works_where_the_api_of_claims_is_off(plane: ControlPlane) -> None:
    with pytest.raises(ApiError):
        plane.api.get(f"{RESOURCES}/deviceclasses")
    words = volcano([Gpu(uuid) for uuid in CARDS])
    add_nodes(plane.api, [fake_node(NODE, words.resources, words.annotations)])

    service = start_service(plane, dra={"claims": True, "arbiter": True, "shadows": True})

    wait_for_ledger(plane)
    assert service.process is not None
    text = service.process.log.read_text()
    assert "dra.unavailable" in text
    assert "the API server does not serve resource.k8s.io/v1" in text
    assert "watch.failed" not in text
