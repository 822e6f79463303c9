"""Kubernetes before 1.36, where shared devices, counters and taints are off.

The API server of the test bed emulates 1.34, the oldest version that it can: it serves the API of
claims, and drops the fields of features that were not on by default then.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.nodes import start_kwok
from e2e.harness.cluster.ready_cluster import PODS, events, node_of, wait_for_nodes
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.schedulers.service import Service, install, start_service, webhooks
from e2e.harness.workloads.claims import (
    CARDS,
    CLAIMS,
    CLASS,
    DRIVER,
    NODE,
    RESOURCES,
    SCHEDULERS,
    a_card,
    a_class,
    a_pod,
    a_slice,
)
from e2e.harness.workloads.inventory import Gpu, add_inventory, described, volcano
from e2e.tests.dra.arbiter import decisions, end, is_asked, is_free, newest, wait_for_ledger
from e2e.tests.dra.shares import bind_share, shadows

pytestmark = pytest.mark.local("its API server emulates an older version")

VERSION = "1.34"
SLICES = f"{RESOURCES}/resourceslices"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own: which features a server has is decided at its start."""
    with run() as this:
        made = start_control_plane(this, {"emulated-version": VERSION})
        switches = {name: {"enabled": True} for name in ("arbiter", "shadows")}
        made = replace(made, values={"dra": {"enabled": True, **switches}})
        install(made)
        start_kwok(made)
        add_inventory(made.api, [described(NODE, volcano([Gpu(uuid) for uuid in CARDS]))])
        wait_for_nodes(made.api)
        made.api.create(f"{RESOURCES}/deviceclasses", a_class())
        start_kube_scheduler(
            made, {"profiles": [{"schedulerName": SCHEDULERS[0]}]}, version=VERSION
        )
        yield made


@contextmanager
def serving(plane: ControlPlane, **dra: object) -> Iterator[Service]:
    """A service, and a driver whose devices have none of the newer fields."""
    made = plane.api.create(SLICES, a_slice(NODE, [whole(*each) for each in enumerate(CARDS)]))
    service = start_service(plane, dra={"claims": True, **dra})
    try:
        wait_for_ledger(plane)
        yield service
        end(plane)
        within(60, lambda: not shadows(plane.api))
    finally:
        service.stop()
        plane.api.delete(f"{SLICES}/{made['metadata']['name']}")


def whole(number: int, uuid: str) -> Object:
    """A card that claims do not share."""
    card = a_card(number, uuid)
    return {
        "name": card["name"],
        "attributes": card["attributes"],
        "capacity": {"memory": {"value": "80Gi"}},
    }


def claim(plane: ControlPlane, name: str) -> None:
    """A pod with a claim for a card."""
    request = {"name": "card", "exactly": {"deviceClassName": CLASS}}
    spec = {"devices": {"requests": [request]}}
    plane.api.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})
    plane.api.create(PODS, a_pod(name, SCHEDULERS[0], name))


def cards(plane: ControlPlane, name: str) -> list[str]:
    """The cards of a pod or claim, as the ledger says."""
    return [grant["card"] for grant in held(plane, NODE).get(name, {}).get("grants", ())]


def device(plane: ControlPlane, name: str) -> str:
    """The card that a claim's status names."""
    (result,) = plane.api.get(f"{CLAIMS}/{name}")["status"]["allocation"]["devices"]["results"]
    assert result["driver"] == DRIVER
    return CARDS[int(result["device"].removeprefix("gpu-"))]


def test_a_claim_holds_its_card_and_no_pod_gets_it(plane: ControlPlane) -> None:
    with serving(plane) as service:
        claim(plane, "claimant")
        within(60, lambda: node_of(plane.api, "claimant") == NODE)
        within(60, lambda: cards(plane, "claimant") == [device(plane, "claimant")])

        bind_share(service, NODE, "pod", 1024)

        assert cards(plane, "pod") != cards(plane, "claimant")


def test_the_arbiter_corrects_a_choice_and_rejects_what_does_not_fit(plane: ControlPlane) -> None:
    with serving(plane, arbiter=True) as service, webhooks(service):
        within(60, lambda: is_asked(service))
        within(60, lambda: is_free(plane))
        bind_share(service, NODE, "pod", 1024)
        before = newest(service)

        claim(plane, "corrected")
        within(60, lambda: node_of(plane.api, "corrected") == NODE)
        claim(plane, "rejected")
        within(60, lambda: any("dragoman: " in row for row in events(plane.api, "rejected")))

        assert cards(plane, "corrected") == [device(plane, "corrected")] != cards(plane, "pod")
        assert {row["outcome"] for row in decisions(service, before)} >= {"refused"}
        plane.api.delete(f"{PODS}/pod?gracePeriodSeconds=0")
        within(60, lambda: node_of(plane.api, "rejected") == NODE)


def test_shadow_claims_keep_the_scheduler_off_a_card_of_a_pod(plane: ControlPlane) -> None:
    with serving(plane, shadows=True) as service:
        bind_share(service, NODE, "pod", 1024)
        within(
            60, lambda: set(shadows(plane.api)) == {f"gpu-{CARDS.index(cards(plane, 'pod')[0])}"}
        )

        claim(plane, "claimant")

        within(60, lambda: node_of(plane.api, "claimant") == NODE)
        assert [device(plane, "claimant")] != cards(plane, "pod")
