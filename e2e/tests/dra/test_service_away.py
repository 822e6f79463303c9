"""The arbiter is away: what waits for it, and what does not."""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS, events, node_of
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import (
    CLAIMS,
    GIB,
    NODE,
    RESOURCES,
    SCHEDULERS,
    a_class,
    a_pod,
)
from e2e.tests.dra.arbiter import (
    STRANGER,
    add,
    end,
    is_asked,
    is_free,
    kill,
    strange_cards,
    unchecked_while_away,
    wait_for_ledger,
)

pytestmark = pytest.mark.local("the API server admits no claims of other modules")

STRANGE_CLASS = "strange"


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    made = start_service(plane, dra={"claims": True, "arbiter": True})
    wait_for_ledger(plane)
    with webhooks(made):
        within(60, lambda: is_asked(made))
        within(60, lambda: is_free(plane))
        yield made
    made.stop()


def a_strange_claim(name: str) -> dict[str, object]:
    """A claim for a whole device of the other driver."""
    request = {"name": "card", "exactly": {"deviceClassName": STRANGE_CLASS}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def test_while_no_replica_answers_claims_of_our_drivers_wait_and_others_do_not(
    service: Service,
) -> None:
    plane, api = service.plane, service.plane.api
    classes = f"{RESOURCES}/deviceclasses"
    api.create(classes, a_class(STRANGE_CLASS, STRANGER))
    with strange_cards(plane, 1):
        kill(service)
        add(api, "ours", SCHEDULERS[0], 8 * GIB)
        within(60, lambda: any("failed calling webhook" in row for row in events(api, "ours")))

        api.create(PODS, a_pod("plain", SCHEDULERS[0]))
        api.create(CLAIMS, a_strange_claim("strange"))
        api.create(PODS, a_pod("strange", SCHEDULERS[0], "strange"))

        within(60, lambda: node_of(api, "plain") == node_of(api, "strange") == NODE)
        assert not node_of(api, "ours")
        assert "allocation" not in api.get(f"{CLAIMS}/ours").get("status", {})
        service.start()
        within(60, lambda: node_of(api, "ours") == NODE)
        within(60, lambda: set(held(plane, NODE)) == {"ours", "strange"})
        end(plane)
    api.delete(f"{classes}/{STRANGE_CLASS}")


def test_a_claim_that_was_allocated_unchecked_is_adopted(service: Service) -> None:
    plane, api = service.plane, service.plane.api
    with unchecked_while_away(api):
        kill(service)

        add(api, "unchecked", SCHEDULERS[0], 8 * GIB)

        within(60, lambda: node_of(api, "unchecked") == NODE)
        assert not held(plane, NODE)
        service.start()
        within(60, lambda: set(held(plane, NODE)) == {"unchecked"})
        (grant,) = held(plane, NODE)["unchecked"]["grants"]
        assert grant["memory"] == 8 * GIB
    end(plane)
