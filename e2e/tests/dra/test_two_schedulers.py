"""Two stock kube-schedulers that allocate the same cards by claims, with the arbiter and without.

Nothing in Kubernetes compares the devices of two claims when a scheduler writes an allocation, so
that two schedulers over-allocate a card (kubernetes/kubernetes issue 128980, closed unsolved).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import takewhile

import pytest

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import PODS, clear, events, node_of
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, held, ledger, start_service, webhooks
from e2e.harness.workloads.claims import (
    CAPACITY,
    CARDS,
    CLAIMS,
    CLASS,
    GIB,
    NODE,
    RESOURCES,
    SCHEDULERS,
    a_claim,
    a_pod,
    allocated,
)

pytestmark = pytest.mark.local("the API server admits no claims of other modules")

ROUNDS = 6
ATTEMPTS = 30
"""Rounds in which the schedulers must over-allocate once; they do so in most."""
PODS_OF_A_ROUND = 12
EACH = 20 * GIB


def most_over(api: Api) -> Fraction:
    """By how many bytes the worst card is over-allocated."""
    return max(max(found - CAPACITY, Fraction(0)) for found in allocated(api, CARDS).values())


def decided(api: Api) -> bool:
    """Whether each pod is bound, or was rejected since the last change of a claim."""
    rows = api.get(PODS)["items"]
    return all(
        row["spec"].get("nodeName")
        or any(
            (each["type"], each["status"]) == ("PodScheduled", "False")
            for each in row.get("status", {}).get("conditions", ())
        )
        for row in rows
    )


def race(api: Api) -> Fraction:
    """Let both schedulers place pods at once; by how much they over-allocate a card."""
    names = [f"p{number}" for number in range(PODS_OF_A_ROUND)]
    for name in names:
        api.create(CLAIMS, a_claim(name, EACH))
    for number, name in enumerate(names):
        api.create(PODS, a_pod(name, SCHEDULERS[number % 2], name))
    within(120, lambda: decided(api))
    return most_over(api)


def end_round(api: Api) -> None:
    clear(api)
    api.delete(CLAIMS)
    within(60, lambda: not api.get(CLAIMS)["items"])


def rounds(plane: ControlPlane, count: int) -> Iterator[Fraction]:
    for _ in range(count):
        over = race(plane.api)
        end_round(plane.api)
        yield over


@pytest.fixture(scope="module")
def running(plane: ControlPlane) -> Iterator[Service]:
    """A service that the API server does not ask yet."""
    made = start_service(plane, dra={"claims": True, "arbiter": True})
    within(60, lambda: len(ledger(plane, NODE).get("cards", ())) == len(CARDS))
    yield made
    made.stop()


@pytest.fixture
def service(running: Service) -> Iterator[Service]:
    """A service that is the arbiter for one test: tests without it come before and after."""
    within(60, lambda: free(running.plane))
    with webhooks(running):
        within(60, lambda: _asked(running))
        within(60, lambda: free(running.plane))
        yield running


def _asked(service: Service) -> bool:
    """Whether the API server asks the service about claims: it learns of webhooks late."""
    api, before = service.plane.api, newest(service)
    api.create(CLAIMS, a_claim("known", GIB))
    api.create(PODS, a_pod("known", SCHEDULERS[0], "known"))
    within(60, lambda: node_of(api, "known") == NODE)
    end_round(api)
    return bool(decisions(service, before))


def newest(service: Service) -> str:
    """The number of the newest decision; empty where there is none."""
    rows = service.get("/api/decisions")
    return str(rows[0]["decision"]) if rows else ""


def decisions(service: Service, after: str) -> list[Object]:
    """Decisions about claims after another decision, newest first."""
    rows = takewhile(lambda row: row["decision"] != after, service.get("/api/decisions"))
    return [row for row in rows if row["verb"] == "claim"]


def free(plane: ControlPlane) -> bool:
    return not held(plane, NODE)


def test_two_schedulers_over_allocate_without_the_arbiter(plane: ControlPlane) -> None:
    over = next((found for found in rounds(plane, ATTEMPTS) if found), Fraction(0))

    print(f"over-allocated by {float(over / GIB)} GiB")
    assert over > 0, "the schedulers did not race, so that the next test proves nothing"


def test_two_schedulers_never_over_allocate_with_the_arbiter(service: Service) -> None:
    plane, before = service.plane, newest(service)

    found = []
    for over in rounds(plane, ROUNDS):
        found.append(over)
        within(60, lambda: free(plane))

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
    within(60, lambda: free(plane))


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
    within(60, lambda: free(plane))


@contextmanager
def stranger_on(plane: ControlPlane, number: int) -> Iterator[None]:
    """A claim of another driver has a card: its device is another one for every scheduler."""
    api, driver = plane.api, "accelerators.example.com"
    spec = {
        "driver": driver,
        "nodeName": NODE,
        "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "card", "attributes": {"uuid": {"string": CARDS[number]}}}],
    }
    slices = f"{RESOURCES}/resourceslices"
    api.create(slices, {"metadata": {"name": "stranger"}, "spec": spec})
    request = {"name": "card", "exactly": {"deviceClassName": CLASS}}
    claim = api.create(
        CLAIMS, {"metadata": {"name": "stranger"}, "spec": {"devices": {"requests": [request]}}}
    )
    result = {"request": "card", "driver": driver, "pool": NODE, "device": "card"}
    field = {"key": "metadata.name", "operator": "In", "values": [NODE]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}
    api.replace(f"{CLAIMS}/stranger/status", {**claim, "status": status})
    within(60, lambda: "grants" in held(plane, NODE).get("stranger", {}))
    yield
    api.delete(f"{CLAIMS}/stranger")
    api.delete(f"{slices}/stranger")
    within(60, lambda: "stranger" not in held(plane, NODE))
