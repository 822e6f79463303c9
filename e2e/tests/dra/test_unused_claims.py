"""Claims that a stock kube-scheduler leaves allocated when their pods vanish while it binds."""

from collections.abc import Iterator
from time import sleep

import pytest

from e2e.harness.cluster.api import Api
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS, clear, node_of
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import start_service
from e2e.harness.workloads.claims import CLAIMS, GIB, NODE, SCHEDULERS, a_claim, a_pod

pytestmark = pytest.mark.local("the schedulers are of this control plane")

PODS_OF_A_ROUND = 30
ROUNDS = 30
"""At most; in the first ones some claims stay allocated."""

WIDTHS = 4
"""Rounds of which each spreads the deletions over twice the time: from 30 to 240 milliseconds."""


def test_deleted_pods_leave_claims_allocated_and_the_leader_deallocates_them(
    plane: ControlPlane,
) -> None:
    api = plane.api
    left = next((found for found in rounds(api) if found), set[str]())
    print(f"{len(left)} claims stay allocated")
    assert left, "no pod vanished at the right moment, so that the test proves nothing"
    switches = {"claims": True, "deallocateUnused": ["gpu.dragoman.dev"], "unusedSeconds": 2}

    service = start_service(plane, dra=switches)

    within(60, lambda: not unused(api))
    within(60, lambda: not held(plane, NODE))
    within(60, lambda: "dragoman_claims_unused 0.0" in service.metrics())
    assert set(left) <= {claim["metadata"]["name"] for claim in api.get(CLAIMS)["items"]}
    service.stop()
    api.delete(CLAIMS)
    within(60, lambda: not api.get(CLAIMS)["items"])


def rounds(api: Api) -> Iterator[set[str]]:
    """Delete pods while they are bound; the claims that stay allocated, without any consumer."""
    for number in range(ROUNDS):
        names = [f"leak-{number}-{index}" for index in range(PODS_OF_A_ROUND)]
        for name in names:
            api.create(CLAIMS, a_claim(name, GIB))
        for index, name in enumerate(names):
            api.create(PODS, a_pod(name, SCHEDULERS[0], name))
            # Each pod vanishes at another moment of its binding, which takes longer under load.
            sleep(index * 2 ** (number % WIDTHS) / 1000)
            api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
        clear(api)
        api.create(PODS, a_pod("later", SCHEDULERS[0]))
        within(60, lambda: node_of(api, "later") == NODE)
        clear(api)
        within(60, lambda: not reserved(api))
        yield unused(api)


def unused(api: Api) -> set[str]:
    """Claims with an allocation and without a consumer."""
    return {
        claim["metadata"]["name"]
        for claim in api.get(CLAIMS)["items"]
        if "allocation" in claim.get("status", {}) and not claim["status"].get("reservedFor")
    }


def reserved(api: Api) -> bool:
    return any(claim.get("status", {}).get("reservedFor") for claim in api.get(CLAIMS)["items"])
