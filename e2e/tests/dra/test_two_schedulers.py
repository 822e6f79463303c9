"""Two stock kube-schedulers that allocate the same cards by claims, with the arbiter and without.

Nothing in Kubernetes compares the devices of two claims when a scheduler writes an allocation, so
that two schedulers over-allocate a card (kubernetes/kubernetes issue 128980, closed unsolved).
"""

from collections.abc import Iterator
from fractions import Fraction

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS, events, node_of
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import (
    CAPACITY,
    CARDS,
    CLAIMS,
    GIB,
    NODE,
    SCHEDULERS,
    a_claim,
    a_pod,
    allocated,
)
from e2e.tests.dra.arbiter import (
    add,
    decisions,
    end,
    end_round,
    is_asked,
    is_free,
    newest,
    stranger_on,
    wait_for_ledger,
)
from e2e.tests.dra.race import rounds

pytestmark = pytest.mark.local("the API server admits no claims of other modules")

QUOTAS = "/apis/dragoman.dev/v1alpha1/namespaces/default/sharequotas"
ROUNDS = 6
ATTEMPTS = 30
"""Rounds in which the schedulers must over-allocate once; they do so in most."""


@pytest.fixture(scope="module")
def running(plane: ControlPlane) -> Iterator[Service]:
    """A service that the API server does not ask yet."""
    made = start_service(plane, dra={"claims": True, "arbiter": True})
    wait_for_ledger(plane)
    yield made
    made.stop()


@pytest.fixture
def service(running: Service) -> Iterator[Service]:
    """A service that is the arbiter for one test: tests without it come before and after."""
    within(60, lambda: is_free(running.plane))
    with webhooks(running):
        within(60, lambda: is_asked(running))
        within(60, lambda: is_free(running.plane))
        yield running


def test_two_schedulers_over_allocate_without_the_arbiter(plane: ControlPlane) -> None:
    over = next((found for found in rounds(plane.api, SCHEDULERS, ATTEMPTS) if found), Fraction(0))

    print(f"over-allocated by {float(over / GIB)} GiB")
    assert over > 0, "the schedulers did not race, so that the next test proves nothing"


def test_two_schedulers_never_over_allocate_with_the_arbiter(service: Service) -> None:
    plane, before = service.plane, newest(service)

    found = []
    for over in rounds(plane.api, SCHEDULERS, ROUNDS):
        found.append(over)
        within(60, lambda: is_free(plane))

    outcomes = [row["outcome"] for row in decisions(service, before)]
    print(f"{outcomes.count('adopted')} adopted, {outcomes.count('refused')} refused")
    assert found == [0] * ROUNDS
    assert "refused" in outcomes, "the schedulers did not race"


def test_a_choice_that_a_pod_has_is_corrected_and_counted_by_the_scheduler(
    service: Service,
) -> None:
    """The scheduler takes the first card, which a claim that it does not compare has."""
    plane, api, before = service.plane, service.plane.api, newest(service)
    with stranger_on(plane, 0):
        for name, memory in (("large", 70 * GIB), ("small", 5 * GIB)):
            api.create(CLAIMS, a_claim(name, memory))
            api.create(PODS, a_pod(name, SCHEDULERS[0], name))
            within(60, lambda name=name: node_of(api, name) == NODE)  # type: ignore[misc]

        found = allocated(api, CARDS)
        outcomes = {row["pod"]: row["outcome"] for row in reversed(decisions(service, before))}

    assert found == {CARDS[0]: 0, CARDS[1]: 75 * GIB}
    assert outcomes["default/large"] == outcomes["default/small"] == "corrected"
    end_round(api)
    within(60, lambda: is_free(plane))


def test_a_rejected_allocation_is_the_pods_event_and_comes_when_there_is_room(
    service: Service,
) -> None:
    """The second card is in use by a claim of another driver, which no scheduler compares."""
    plane, api = service.plane, service.plane.api
    api.create(CLAIMS, a_claim("all-0", CAPACITY))
    api.create(PODS, a_pod("all-0", SCHEDULERS[0], "all-0"))
    within(60, lambda: node_of(api, "all-0") == NODE)
    with stranger_on(plane, 1):
        api.create(CLAIMS, a_claim("waits", GIB))
        api.create(PODS, a_pod("waits", SCHEDULERS[1], "waits"))

        within(60, lambda: any("dragoman: dra-node: card" in row for row in events(api, "waits")))

        print(events(api, "waits"))
        assert "allocation" not in api.get(f"{CLAIMS}/waits").get("status", {})
    within(60, lambda: node_of(api, "waits") == NODE)
    assert set(held(plane, NODE)) == {"all-0", "waits"}
    end_round(api)
    within(60, lambda: is_free(plane))


def test_a_claim_beyond_the_quota_is_refused_until_its_namespace_has_room(
    service: Service,
) -> None:
    plane, api = service.plane, service.plane.api
    limited = {"metadata": {"name": "quota"}, "spec": {"limits": {"memory": "10Gi"}}}
    api.create(QUOTAS, {"apiVersion": "dragoman.dev/v1alpha1", "kind": "ShareQuota", **limited})
    try:
        within(60, lambda: api.get(f"{QUOTAS}/quota").get("status", {}).get("counted"))
        add(api, "first", SCHEDULERS[0], 6 * GIB)
        within(60, lambda: node_of(api, "first") == NODE)
        add(api, "second", SCHEDULERS[1], 6 * GIB)

        reason = "dragoman: quota of namespace default: memory 2 GiB short (6 GiB of 10 GiB used)"
        within(60, lambda: any(reason in row for row in events(api, "second")))

        assert "allocation" not in api.get(f"{CLAIMS}/second").get("status", {})
        api.delete(f"{PODS}/first")
        api.delete(f"{CLAIMS}/first")
        within(60, lambda: node_of(api, "second") == NODE)
    finally:
        api.delete(f"{QUOTAS}/quota")
        end(plane)
