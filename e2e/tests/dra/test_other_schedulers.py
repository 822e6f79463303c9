"""vc-scheduler 1.14.1 and koord-scheduler 1.8.0 as schedulers of claims, with the arbiter.

vc-scheduler allocates claims where its plugin predicates has them on; for shares it also needs the
feature gate, which is off in its library of Kubernetes 1.34.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import events, node_of, turn
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import (
    start_koord_scheduler_alone,
    start_volcano_controllers,
    start_volcano_scheduler,
)
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import CLAIMS, GIB, NODE, SCHEDULERS
from e2e.tests.dra.arbiter import (
    add,
    decisions,
    end,
    end_round,
    is_asked,
    newest,
    stranger_on,
    wait_for_ledger,
)
from e2e.tests.dra.race import rounds

pytestmark = pytest.mark.local("the API server admits no claims of other modules")

KOORD, VOLCANO = "koord-scheduler", "volcano"
CONFIGURATION = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
    arguments:
      predicate.DynamicResourceAllocationEnable: true
  - name: nodeorder
"""
EACH = 60 * GIB
"""More than half of a card: any two claims of the same card over-allocate it."""

ROUNDS = 4
ATTEMPTS = 20
"""Rounds in which the schedulers must over-allocate once."""


@pytest.fixture(scope="module")
def running(plane: ControlPlane) -> Iterator[Service]:
    """A service that the API server does not ask yet."""
    made = start_service(plane, dra={"claims": True, "arbiter": True})
    wait_for_ledger(plane)
    start_volcano_controllers(plane)
    yield made
    made.stop()


@pytest.fixture
def service(running: Service) -> Iterator[Service]:
    """A service that is the arbiter for one test."""
    end(running.plane)
    with webhooks(running):
        within(60, lambda: is_asked(running))
        yield running
        end(running.plane)


@contextmanager
def started(plane: ControlPlane, scheduler: str) -> Iterator[None]:
    """One of the schedulers, new: vc-scheduler 1.14.1 does not forget devices of failed bindings.

    Source: volcano-sh/volcano issue 5103.
    """
    profile: Object = {"profiles": [{"schedulerName": KOORD}]}
    gates = "DRAConsumableCapacity=true"
    start = {
        KOORD: lambda: start_koord_scheduler_alone(plane, profile),
        VOLCANO: lambda: start_volcano_scheduler(plane, CONFIGURATION, gates=gates, period="20ms"),
    }[scheduler]
    with turn(start, plane):
        yield


def test_vc_scheduler_and_kube_scheduler_over_allocate_without_the_arbiter(
    running: Service,
) -> None:
    plane = running.plane
    end_round(plane.api)

    with started(plane, VOLCANO):
        found = rounds(plane.api, (SCHEDULERS[0], VOLCANO), ATTEMPTS, EACH)
        over = next((each for each in found if each), Fraction(0))

    print(f"over-allocated by {float(over / GIB)} GiB")
    assert over > 0, "the schedulers did not race, so that the next test proves nothing"


def test_vc_scheduler_and_kube_scheduler_never_over_allocate_with_the_arbiter(
    service: Service,
) -> None:
    plane = service.plane
    contested = 0

    with started(plane, VOLCANO):
        before = newest(service)
        for number, over in enumerate(
            rounds(plane.api, (SCHEDULERS[0], VOLCANO), ATTEMPTS, EACH), 1
        ):
            assert over == 0
            outcomes = {row["outcome"] for row in decisions(service, before)}
            contested += bool(outcomes & {"refused", "corrected"})
            before = newest(service)
            if contested and number >= ROUNDS:
                break

    print(f"{contested} of {number} rounds had claims that were rejected or corrected")
    assert contested, "the schedulers did not race"


@pytest.mark.parametrize("scheduler", [VOLCANO, KOORD])
def test_a_rejection_is_an_event_and_the_pod_is_bound_when_there_is_room(
    service: Service, scheduler: str
) -> None:
    """A claim of another driver has both cards, and HAMi's devices say nothing of it."""
    plane, api = service.plane, service.plane.api
    with started(plane, scheduler), stranger_on(plane, 0, 1):
        add(api, "waits", scheduler, 4 * GIB)

        within(60, lambda: any("dragoman: dra-node: card" in row for row in events(api, "waits")))

        print(events(api, "waits"))
        assert "allocation" not in api.get(f"{CLAIMS}/waits").get("status", {})
        assert not node_of(api, "waits")
        api.delete(f"{CLAIMS}/stranger")
        within(60, lambda: node_of(api, "waits") == NODE)
        (grant,) = held(plane, NODE)["waits"]["grants"]
        assert grant["memory"] == 4 * GIB
