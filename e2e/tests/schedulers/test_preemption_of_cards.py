"""A pod whose node has enough in sum and no card that has: the service evicts, where it may."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import (
    PODS,
    add_priorities,
    clear,
    events,
    node_of,
    pod,
    turn,
)
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import (
    KOORD,
    KUBE,
    add_ready_nodes,
    starter,
    wait_for_cards,
)
from e2e.harness.schedulers.gangs import GATE, POD_GROUPS, gang_scheduler, start_gang_plane
from e2e.harness.schedulers.schedulers import define, start_kube_scheduler
from e2e.harness.schedulers.service import (
    Service,
    install,
    kube_like,
    start_service,
    with_decisions,
)
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.inventory import described, gpus, volcano
from e2e.testbed import cache

pytestmark = [pytest.mark.local, pytest.mark.timeout(300)]

NODE = "node"
LARGE = {NUMBER: "1", MEMORY: "50000"}
"""More than half of a card of 81920 MiB: of these a card takes one, and three are less than two
cards."""
WHOLE = {NUMBER: "1", MEMORY: "81920"}
"""A card. Of three, the sum of two cards is short."""
LONG = 15
"""Seconds in which nothing must be evicted."""
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
FILES = ("kube-scheduler-config.yaml", "kube-scheduler-preemption-config.yaml")
LOW = ("low-1", "low-2")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with run() as this:
        plane = start_gang_plane(this)
        add_priorities(plane.api)
        # Early: the API server rejects a pod of a class that its cache does not have yet.
        plane.api.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"},
        )
        install(plane)
        add_ready_nodes(plane, [described(NODE, volcano(gpus(NODE, 2)))])
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Service:
    made = start_service(plane, publish=["volcano"], preemption={"enabled": True})
    wait_for_cards(plane, [NODE])
    return made


@pytest.fixture(autouse=True)
def _cleared(plane: ControlPlane) -> Iterator[None]:
    yield
    clear(plane.api, BUDGETS, POD_GROUPS)
    wait_until_free(plane, NODE)


def fill(
    plane: ControlPlane,
    scheduler: str = KUBE,
    share: dict[str, str] = LARGE,
    *,
    slow: bool = False,
    **spec: object,
) -> None:
    """Two pods of low priority, each on a card of its own; slow ones do not end when deleted."""
    pods = [pod(name, scheduler, share, priority="low", **spec) for name in LOW]
    for each in pods:
        each["metadata"]["labels"] = {"guarded": "yes"}
        if slow:
            each["metadata"]["finalizers"] = ["example.com/slow"]
    create_all(plane.api, PODS, pods)
    try:
        within(60, lambda: all(node_of(plane.api, name) for name in LOW))
    except TimeoutError as late:
        raise AssertionError([events(plane.api, name) for name in LOW]) from late


def names(plane: ControlPlane) -> set[str]:
    rows: list[Object] = plane.api.get(PODS)["items"]
    return {row["metadata"]["name"] for row in rows if not row["metadata"].get("deletionTimestamp")}


def deleted(plane: ControlPlane) -> list[str]:
    rows = plane.api.get(PODS)["items"]
    return [row["metadata"]["name"] for row in rows if "deletionTimestamp" in row["metadata"]]


def let_end(plane: ControlPlane) -> None:
    for name in LOW:
        plane.api.merge(f"{PODS}/{name}", {"metadata": {"finalizers": None}})


def reasons(plane: ControlPlane) -> list[tuple[str, str]]:
    """Names of pods and reasons of the service's Events."""
    rows = plane.api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    ours = (row for row in rows if row.get("reportingController") == "dragoman.dev/scheduler")
    return [(row["regarding"]["name"], row["reason"]) for row in ours]


def wanted(plane: ControlPlane, service: Service, scheduler: str = KUBE) -> float:
    """Create a pod of high priority and wait until it is bound; the seconds."""
    plane.api.create(PODS, pod("wanted", scheduler, LARGE, priority="high"))
    try:
        return with_decisions(
            service, lambda: within(60, lambda: node_of(plane.api, "wanted") == NODE)
        )
    except AssertionError as late:
        raise AssertionError(f"{late} {events(plane.api, 'wanted')}") from late


@pytest.mark.parametrize("file", FILES)
def test_one_pod_goes_and_the_one_of_higher_priority_is_bound(
    plane: ControlPlane, service: Service, file: str
) -> None:
    with turn(starter(service, KUBE, file=file), plane):
        fill(plane)
        plane.api.create(PODS, pod("waiting", KUBE, LARGE, priority="low"))

        seconds = wanted(plane, service)

        print(f"{file}: bound {seconds:.1f} s after it was created")
        assert len(names(plane) & {*LOW}) == 1
        assert node_of(plane.api, "waiting") == ""
        (victim,) = {*LOW} - names(plane)
        within(10, lambda: {("wanted", "Preempting"), (victim, "Preempted")} <= {*reasons(plane)})
        text = service.metrics()
        assert 'verb="evict"' in text
        assert "dragoman_preemptions_waiting 0.0" in text


def test_koord_scheduler_gets_the_same(plane: ControlPlane, service: Service) -> None:
    define(plane, cache.asset("koordinator", "crd"))
    with turn(starter(service, KOORD, file="koord-scheduler-preemption-config.yaml"), plane):
        fill(plane, KOORD)

        seconds = wanted(plane, service, KOORD)

        print(f"koord-scheduler: bound {seconds:.1f} s after it was created")
        assert len(names(plane) & {*LOW}) == 1


def test_the_hole_is_kept_while_the_victim_ends(plane: ControlPlane, service: Service) -> None:
    """A finalizer keeps the victim for a while; a pod that waits for longer takes nothing."""
    with turn(starter(service, KUBE), plane):
        fill(plane, slow=True)
        plane.api.create(PODS, pod("waiting", KUBE, LARGE, priority="low"))
        time.sleep(2)
        plane.api.create(PODS, pod("wanted", KUBE, LARGE, priority="high"))
        try:
            within(30, lambda: bool(deleted(plane)))
            time.sleep(5)
            assert len(deleted(plane)) == 1
            assert node_of(plane.api, "wanted") == ""
        finally:
            let_end(plane)
        with_decisions(service, lambda: within(30, lambda: node_of(plane.api, "wanted") == NODE))
        assert node_of(plane.api, "waiting") == ""


def test_no_second_pod_goes_where_kube_scheduler_preempts_itself(
    plane: ControlPlane, service: Service
) -> None:
    with turn(starter(service, KUBE, file=FILES[1]), plane):
        within(30, lambda: MEMORY in plane.api.get(f"/api/v1/nodes/{NODE}")["status"]["capacity"])
        fill(plane, share=WHOLE, slow=True)
        before = service.metrics().count('result="evicted"')
        plane.api.create(PODS, pod("wanted", KUBE, WHOLE, priority="high"))
        try:
            within(30, lambda: bool(deleted(plane)))
            time.sleep(LONG)

            assert len(deleted(plane)) == 1
            assert plane.api.get(f"{PODS}/wanted")["status"]["nominatedNodeName"] == NODE
            assert service.metrics().count('result="evicted"') == before
        finally:
            let_end(plane)
        with_decisions(service, lambda: within(60, lambda: node_of(plane.api, "wanted") == NODE))


def test_pods_that_a_budget_protects_stay(plane: ControlPlane, service: Service) -> None:
    with turn(starter(service, KUBE), plane):
        fill(plane)
        spec = {"minAvailable": 2, "selector": {"matchLabels": {"guarded": "yes"}}}
        plane.api.create(BUDGETS, {"metadata": {"name": "guard"}, "spec": spec})

        def in_force() -> bool:
            status = plane.api.get(f"{BUDGETS}/guard").get("status", {})
            return status.get("currentHealthy") == 2 and not status["disruptionsAllowed"]

        within(30, in_force)
        plane.api.create(PODS, pod("wanted", KUBE, LARGE, priority="high"))

        time.sleep(LONG)

        assert names(plane) == {*LOW, "wanted"}
        plane.api.delete(f"{BUDGETS}/guard")
        with_decisions(service, lambda: within(120, lambda: node_of(plane.api, "wanted") == NODE))


def test_a_pod_that_never_preempts_waits(plane: ControlPlane, service: Service) -> None:
    with turn(starter(service, KUBE), plane):
        fill(plane)
        plane.api.create(PODS, pod("wanted", KUBE, LARGE, priority="patient"))

        time.sleep(LONG)

        assert names(plane) == {*LOW, "wanted"}
        assert node_of(plane.api, "wanted") == ""


def test_a_group_that_is_disrupted_together_goes_as_a_whole(
    plane: ControlPlane, service: Service
) -> None:
    with turn(gang_scheduler(service), plane):
        spec = {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "disruptionMode": {"all": {}},
            "priorityClassName": "low",
        }
        plane.api.create(POD_GROUPS, {"metadata": {"name": "group"}, "spec": spec})
        fill(plane, schedulingGroup={"podGroupName": "group"})

        wanted(plane, service)

        within(10, lambda: names(plane) == {"wanted"})


@pytest.mark.parametrize("gates", ["", GATE])
@pytest.mark.usefixtures("service")
def test_nothing_is_evicted_where_preemption_is_not_enabled(
    plane: ControlPlane, gates: str
) -> None:
    """The scheduler asks another replica, in which it is off."""
    plain = start_service(plane, "plain")
    configuration = kube_like(plain, FILES[1], KUBE)
    try:
        with turn(partial(start_kube_scheduler, plane, configuration, gates=gates), plane):
            fill(plane)
            plane.api.create(PODS, pod("wanted", KUBE, LARGE, priority="high"))

            time.sleep(LONG)

            assert names(plane) == {*LOW, "wanted"}
            assert node_of(plane.api, "wanted") == ""
            assert held(plane, NODE).keys() == {*LOW}
    finally:
        plain.stop()
