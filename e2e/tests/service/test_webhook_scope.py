"""What waits while every replica is away, and what becomes of pods that were bound meanwhile.

The node's agent is a stand-in that writes what an agent reports; no container runs.
"""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS, bind, events, pod
from e2e.harness.names import LEDGERS
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import wait_for_cards
from e2e.harness.schedulers.service import Service, install, start_service, webhooks
from e2e.harness.workloads.inventory import add_inventory, described, gpus, volcano

pytestmark = [pytest.mark.local]

NODE = "one-card"
LARGE = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "60000"}


@pytest.fixture
def service() -> Iterator[Service]:
    """A service with the chart's webhooks, and a node whose pods no kubelet starts."""
    with run() as this:
        plane = start_control_plane(this)
        install(plane)
        add_inventory(plane.api, [described(NODE, volcano(gpus(NODE, 1)))])
        made = start_service(plane)
        wait_for_cards(plane, [NODE])
        report(plane)
        with webhooks(made):
            yield made


def report(plane: ControlPlane, *stopped: str) -> None:
    """Report as the node's agent."""
    status = {"cards": [], "problems": [], "holdings": [], "stopped": list(stopped)}
    plane.api.merge(f"{LEDGERS}/{NODE}/status", {"status": status})


def uid(plane: ControlPlane, name: str) -> str:
    return str(plane.api.get(f"{PODS}/{name}")["metadata"]["uid"])


def allocation(plane: ControlPlane, name: str) -> Object:
    return held(plane, NODE).get(name, {})


def test_without_any_replica_all_pods_are_bound_and_shares_are_allocated_late(
    service: Service,
) -> None:
    plane = service.plane
    for name in ("first", "second"):
        plane.api.create(PODS, pod(name, "x", LARGE))
    service.stop()

    plane.api.create(PODS, pod("plain", "x", {"cpu": "1"}))
    with pytest.raises(ApiError, match=r"pods\.dragoman\.dev"):
        plane.api.create(PODS, pod("refused", "x", LARGE))
    for name in ("plain", "first", "second"):
        bind(plane.api, name, NODE)
    assert not held(plane, NODE)

    service.start()
    within(60, lambda: bool(held(plane, NODE)))
    (has,) = held(plane, NODE)
    (waits,) = {"first", "second"} - {has}
    within(30, lambda: "volcano.sh/vgpu-ids-new" in annotations(plane, has))
    within(30, lambda: any("CardsAllocatedLate" in line for line in events(plane.api, has)))
    within(30, lambda: "dragoman_reconciler_drift 1.0" in service.metrics())
    assert "volcano.sh/vgpu-ids-new" not in annotations(plane, waits)

    gone = uid(plane, has)
    plane.api.delete(f"{PODS}/{has}?gracePeriodSeconds=0")
    within(30, lambda: "releaseBy" in allocation(plane, has))
    assert not allocation(plane, waits)
    report(plane, gone)
    within(30, lambda: "grants" in allocation(plane, waits))
    assert [*held(plane, NODE)] == [waits]


def test_pods_of_a_device_plugin_are_never_touched_where_no_ledger_is(service: Service) -> None:
    plane = service.plane
    plane.api.create("/api/v1/nodes", {"metadata": {"name": "stranger"}})
    for number, resource in enumerate(("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu")):
        for where in ("with", "without"):
            wanted = pod(f"{where}-{number}", "x", {resource: "1"})
            if where == "without":
                service.stop()
            plane.api.create(PODS, wanted)
            bind(plane.api, wanted["metadata"]["name"], "stranger")
            found = plane.api.get(f"{PODS}/{wanted['metadata']['name']}")
            (container,) = found["spec"]["containers"]
            assert found["spec"]["nodeName"] == "stranger"
            assert "env" not in container
            assert "annotations" not in found["metadata"]
        service.start()
    names = [each["metadata"]["name"] for each in plane.api.get(LEDGERS)["items"]]
    assert "stranger" not in names


def annotations(plane: ControlPlane, name: str) -> dict[str, str]:
    found: dict[str, str] = plane.api.get(f"{PODS}/{name}")["metadata"].get("annotations", {})
    return found
