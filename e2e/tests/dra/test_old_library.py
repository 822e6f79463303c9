"""koord-scheduler 1.8.0, whose library does not look at the part of a device that a claim requests.

Alone it allocates the whole device for a claim of 8 GiB, without a word.
"""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS, node_of, turn
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_koord_scheduler_alone
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import (
    CARDS,
    CLAIMS,
    GIB,
    NODE,
    SCHEDULERS,
    a_claim,
    a_pod,
    allocated,
)
from e2e.tests.dra.arbiter import end, wait_for_ledger

pytestmark = pytest.mark.local("the API server admits no claims of other modules")

KOORD = "koord-scheduler"


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    """The arbiter, which the API server does not ask yet, and koord-scheduler without extender."""
    made = start_service(plane, dra={"claims": True, "arbiter": True})
    wait_for_ledger(plane)
    profile: Object = {"profiles": [{"schedulerName": KOORD}]}
    with turn(lambda: start_koord_scheduler_alone(plane, profile), plane):
        yield made
    made.stop()


def result(api: Api, name: str, scheduler: str, memory: int) -> Object:
    """What a scheduler allocates to a claim."""
    api.create(CLAIMS, a_claim(name, memory))
    api.create(PODS, a_pod(name, scheduler, name))
    within(90, lambda: node_of(api, name) == NODE)
    allocation = api.get(f"{CLAIMS}/{name}")["status"]["allocation"]
    (found,) = allocation["devices"]["results"]
    return dict(found)


def test_a_claim_of_a_part_is_made_a_share_beside_which_others_fit(service: Service) -> None:
    api = service.plane.api
    assert "shareID" not in result(api, "alone", KOORD, 8 * GIB), "nothing would have to be made"
    end(service.plane)

    with webhooks(service):
        within(60, lambda: "shareID" in retried(service, api))
        share = api.get(f"{CLAIMS}/part")["status"]["allocation"]["devices"]["results"][0]
        beside = result(api, "beside", SCHEDULERS[0], 72 * GIB)

    assert share["consumedCapacity"] == {"memory": str(8 * GIB), "cores": "0"}
    assert beside["device"] == share["device"]
    assert sorted(allocated(api, CARDS).values()) == [0, 80 * GIB]
    assert set(held(service.plane, NODE)) == {"part", "beside"}
    end(service.plane)


def retried(service: Service, api: Api) -> Object:
    """The result for the claim, made once more: the API server learns of webhooks late."""
    end(service.plane)
    return result(api, "part", KOORD, 8 * GIB)
