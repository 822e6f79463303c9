"""Binding conditions: a stock kube-scheduler waits for the ledger, and no webhook is asked."""

from collections.abc import Iterator

import pytest

from adapters.dialects.dra.conditions import COMMITTED, REJECTED
from e2e.harness.cluster.api import Api
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.ready_cluster import PODS, clear, events, node_of, wait_for_nodes
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, start_service
from e2e.harness.workloads.claims import (
    CLAIMS,
    GIB,
    RESOURCES,
    a_card,
    a_slice,
    claim_share,
)
from e2e.harness.workloads.inventory import add_inventory, described, gpus, volcano
from e2e.tests.dra.shares import bind_share

pytestmark = pytest.mark.local("the schedulers are of this control plane")

NODE = "condition-node"
CARD = gpus(NODE, 1)[0].uuid
CONDITIONS = {"bindingConditions": [COMMITTED], "bindingFailureConditions": [REJECTED]}


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    """A service that the API server does not ask, and a node whose card has our conditions."""
    add_inventory(plane.api, [described(NODE, volcano(gpus(NODE, 1)))])
    wait_for_nodes(plane.api)
    devices = [a_card(0, CARD) | CONDITIONS]
    made_slice = plane.api.create(f"{RESOURCES}/resourceslices", a_slice(NODE, devices))
    made = start_service(plane, dra={"claims": True, "conditions": True})
    within(60, lambda: len(ledger(plane, NODE).get("cards", ())) == 1)
    yield made
    made.stop()
    plane.api.delete(f"{RESOURCES}/resourceslices/{made_slice['metadata']['name']}")
    plane.api.delete(f"/api/v1/nodes/{NODE}")


@pytest.fixture(autouse=True)
def idle(service: Service) -> Iterator[None]:
    """After each test remove its pods and claims."""
    yield
    clear(service.plane.api)
    service.plane.api.delete(CLAIMS)
    within(90, lambda: not held(service.plane, NODE))


def conditions(api: Api, name: str) -> dict[str, str]:
    """The message of each condition of a claim's devices."""
    devices = api.get(f"{CLAIMS}/{name}").get("status", {}).get("devices", ())
    return {
        each["type"]: each["message"] for device in devices for each in device.get("conditions", ())
    }


def test_a_pod_is_bound_when_the_ledger_has_its_claim(service: Service) -> None:
    api = service.plane.api

    claim_share(api, "sound", 60 * GIB, NODE)

    within(60, lambda: node_of(api, "sound") == NODE)
    assert conditions(api, "sound") == {COMMITTED: "the ledger has the claim"}
    (row,) = held(service.plane, NODE).values()
    assert [grant["memory"] for grant in row["grants"]] == [60 * GIB]


def test_a_claim_of_cards_in_use_is_rejected_and_its_pod_comes_when_there_is_room(
    service: Service,
) -> None:
    """The scheduler's own records say that the card is free."""
    api = service.plane.api
    bind_share(service, NODE, "full", 70 * 1024)

    claim_share(api, "late", 40 * GIB, NODE)

    within(60, lambda: any("memory" in each for each in events(api, "late")))
    assert not node_of(api, "late")
    assert set(held(service.plane, NODE)) == {"full"}
    api.delete(f"{PODS}/full")
    within(120, lambda: node_of(api, "late") == NODE)
    assert COMMITTED in conditions(api, "late")
