"""More pods than cards, two services that are killed at times: no card is allocated twice."""

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import cycle

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger, wait_until_free
from e2e.harness.cluster.nodes import add_nodes
from e2e.harness.cluster.ready_cluster import (
    PODS,
    clear,
    cluster,
    events,
    pod,
    turn,
    wait_for_nodes,
)
from e2e.harness.names import LEDGERS
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_koord_scheduler, start_kube_scheduler
from e2e.harness.schedulers.service import Service, install, kube_like, start_service
from e2e.tests.service.driving import asleep, started
from e2e.tests.service.eight_gpu_node import (
    CARDS,
    FIT,
    METAX,
    SHARE,
    VOLCANO,
    bound,
    eight_gpu_node,
    violations,
)
from e2e.tests.service.share_seconds import Key, counted_before, expected, exported, history

pytestmark = [pytest.mark.local, pytest.mark.timeout(500)]
"""Seconds: the tests wait for 90, 60 and 60 one after the other, one of them for 240."""

NODE = "eight"
PODS_TRIED = 100

Pair = tuple[Service, Service]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """One node, and two schedulers that ask the service."""
    with cluster([eight_gpu_node(NODE).node]) as plane:
        install(plane)
        yield plane


@pytest.fixture(scope="module")
def services(plane: ControlPlane) -> Iterator[Pair]:
    """Two, each asked by a scheduler of its own."""
    made = start_service(plane, "one"), start_service(plane, "two")
    kube = kube_like(made[0], "kube-scheduler-config.yaml", "kube")
    koord = kube_like(made[1], "koord-scheduler-config.yaml", "koord")
    first = turn(partial(start_kube_scheduler, plane, kube), plane)
    second = turn(partial(start_koord_scheduler, plane, koord), plane)
    with first, second:
        yield made


@pytest.fixture
def pods(plane: ControlPlane, services: Pair) -> Iterator[None]:
    """A hundred pods, half for each scheduler and half in each dialect."""
    create_all(
        plane.api,
        PODS,
        [
            pod(
                f"pod-{number}",
                ("kube", "koord")[number % 2],
                (VOLCANO, METAX)[number // 2 % 2],
            )
            for number in range(PODS_TRIED)
        ],
    )
    yield
    clear(plane.api)
    wait_until_free(services[0].plane, NODE)


def is_sound(plane: ControlPlane) -> int:
    """Check that no card is allocated twice; returns how many pods are bound."""
    assert violations(plane, NODE) == []
    return len(bound(plane.api))


def all_that_fit(plane: ControlPlane, services: Pair, patience: float = 90) -> None:
    """Wait until as many pods are bound as fit, and see that it stays so."""
    try:
        seconds = within(patience, lambda: len(bound(plane.api)) >= FIT)
    except TimeoutError as late:
        said = [service.get("/api/decisions")[:20] for service in services]
        raise AssertionError(f"{late}; the services said:\n{said}") from late
    time.sleep(2)
    assert is_sound(plane) == FIT
    assert held(plane, NODE).keys() == bound(plane.api).keys()
    by = Counter(row["spec"]["schedulerName"] for row in bound(plane.api).values())
    conflicts = [
        line
        for service in services
        for line in service.metrics().splitlines()
        if line.startswith("dragoman_ledger_conflicts_total")
    ]
    print(f"{FIT} of {PODS_TRIED} bound after {seconds:.1f} s, {dict(by)}; {conflicts}")


@pytest.mark.usefixtures("pods")
def test_of_a_hundred_pods_from_two_schedulers_with_a_service_each_just_those_are_bound_that_fit(
    plane: ControlPlane, services: Pair
) -> None:
    all_that_fit(plane, services)


@pytest.mark.usefixtures("pods")
def test_the_same_when_the_services_are_killed_on_the_way(
    plane: ControlPlane, services: Pair
) -> None:
    for at_least, service in zip((5, 20, 40), cycle(services), strict=False):
        within(60, partial(lambda least: len(bound(plane.api)) >= least, at_least))
        service.kill()
        count = is_sound(plane)
        left = len(held(plane, NODE)) - count
        print(f"killed when {count} were bound; {left} more had cards in the ledger")
        service.start()

    all_that_fit(plane, services, 240)


@pytest.mark.usefixtures("pods")
def test_the_cards_of_deleted_pods_go_to_those_that_wait(
    plane: ControlPlane, services: Pair
) -> None:
    all_that_fit(plane, services)
    gone = sorted(bound(plane.api))[: PODS_TRIED - FIT]
    started = time.monotonic()
    for name in gone:
        plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")

    everyone = PODS_TRIED - len(gone)
    within(60, lambda: len(bound(plane.api)) == everyone)
    print(f"{len(gone)} deleted: the others ran {time.monotonic() - started:.1f} s later")
    assert is_sound(plane) == everyone


@pytest.mark.usefixtures("pods")
def test_a_terminating_pod_keeps_its_cards_and_a_finished_one_does_not(
    plane: ControlPlane, services: Pair
) -> None:
    all_that_fit(plane, services)
    ends, finishes = sorted(bound(plane.api))[:2]
    with asleep(started(plane, "kwok")):  # no kubelet confirms the end of a pod
        plane.api.delete(f"{PODS}/{ends}?gracePeriodSeconds=60")
        plane.api.merge(f"{PODS}/{finishes}/status", {"status": {"phase": "Succeeded"}})

        within(20, lambda: finishes not in held(plane, NODE))
        within(30, lambda: len(held(plane, NODE)) == FIT)
        assert ends in held(plane, NODE), "its containers may still run"
    within(20, lambda: ends not in held(plane, NODE))
    within(30, lambda: len(held(plane, NODE)) == FIT)
    assert len(ledger(plane, NODE)["cards"]) == CARDS


@pytest.mark.usefixtures("services")
def test_seconds_of_shares_are_exact_after_the_leader_was_killed(
    plane: ControlPlane, services: Pair
) -> None:
    """Series never step back for a Prometheus, whichever replica exports them."""
    begin = plane.api.get(f"{LEDGERS}/{NODE}")
    last: dict[Key, float] = {}

    def sample(service: Service) -> bool:
        # A change of the object brings the watch up to date, as the writes of a busy node do.
        note = {"metadata": {"annotations": {"e2e/time": str(time.monotonic_ns())}}}
        plane.api.merge(f"{LEDGERS}/{NODE}", note)
        found = exported(service)
        if found is None:
            return False
        for series, value in found.values.items():
            assert value >= last.get(series, 0), f"{series} stepped back"
            last[series] = value
        pods = {row["pod"] for row in held(plane, NODE).values()}
        return bool(pods) and found.until > ledger(plane, NODE)["meter"]["until"]

    def create(*numbers: int) -> None:
        rows = [
            pod(f"used-{one}", ("kube", "koord")[one % 2], (VOLCANO, METAX)[one // 2 % 2])
            for one in numbers
        ]
        create_all(plane.api, PODS, rows)
        within(60, lambda: {f"used-{one}" for one in numbers} <= held(plane, NODE).keys())

    create(*range(6))
    (leader,) = [one for one in services if "dragoman_reconciler_leader 1.0" in one.metrics()]
    (other,) = [one for one in services if one is not leader]
    within(90, partial(sample, leader))
    before = dict(last)
    leader.kill()
    plane.api.delete(f"{PODS}/used-0?gracePeriodSeconds=0")
    within(60, lambda: "used-0" not in held(plane, NODE))
    create(7 if services.index(other) else 8)
    within(90, partial(sample, other))
    leader.start()
    within(60, partial(sample, other))

    found = exported(other)
    specs = [begin["spec"], *history(plane, begin["metadata"]["resourceVersion"])]
    assert found is not None
    assert before.keys() <= found.values.keys()
    by_history = expected(specs, found.until)
    earlier = {series: found.values[series] - by_history[series] for series in by_history}
    counted = counted_before(begin["spec"])
    assert {series: round(value, 2) for series, value in earlier.items()} == {
        series: round(counted.get(series, 0), 2) for series in by_history
    }
    clear(plane.api)
    wait_until_free(plane, NODE)


QUOTAS = "/apis/dragoman.dev/v1alpha1/namespaces/default/sharequotas"
LIMIT = 13
"""Shares that the quota allows; both nodes together have room for ten times as many."""

OTHER = "other"


@pytest.fixture
def quota(plane: ControlPlane, services: Pair) -> Iterator[None]:
    """A second node, and a quota that counts; both are gone after the test."""
    add_nodes(plane.api, [eight_gpu_node(OTHER).node])
    wait_for_nodes(plane.api, {OTHER})
    within(30, lambda: len(ledger(plane, OTHER).get("cards", ())) == CARDS)
    limits = {"memory": f"{LIMIT * SHARE}Mi", "cards": CARDS * 2}
    kind = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "ShareQuota"}
    plane.api.create(QUOTAS, {**kind, "metadata": {"name": "quota"}, "spec": {"limits": limits}})
    within(30, lambda: status_of_quota(plane).get("counted", False))
    for service in services:
        within(30, partial(knows_quota, service))
    yield
    clear(plane.api, QUOTAS)
    wait_until_free(plane, NODE, OTHER)
    plane.api.delete(f"/api/v1/nodes/{OTHER}")
    within(60, lambda: not ledger(plane, OTHER))


@pytest.mark.usefixtures("quota")
def test_two_services_and_two_dialects_on_two_nodes_never_exceed_the_quota_of_a_namespace(
    plane: ControlPlane, services: Pair
) -> None:
    schedulers = ("kube", NODE), ("koord", OTHER)
    create_all(
        plane.api,
        PODS,
        [
            pod(
                f"quota-{number}",
                schedulers[number % 2][0],
                (VOLCANO, METAX)[number // 2 % 2],
                nodeSelector={"kubernetes.io/hostname": schedulers[number % 2][1]},
            )
            for number in range(4 * LIMIT)
        ],
    )

    within(90, lambda: shares(plane) >= 3)
    services[0].kill()
    services[0].start()
    within(120, lambda: shares(plane) == LIMIT)
    within(60, lambda: len(bound(plane.api)) == LIMIT)
    waits = sorted({f"quota-{number}" for number in range(4 * LIMIT)} - bound(plane.api).keys())
    text = f"quota of namespace default: memory 10 GiB short ({LIMIT * 10} GiB of"
    within(60, lambda: any(text in event for event in events(plane.api, waits[0])))
    status = status_of_quota(plane)
    assert (status["pods"], status["used"]["memory"]) == (LIMIT, f"{LIMIT * 10}Gi")
    assert {claim["pod"] for claim in status["claims"]} == {
        f"default/{name}" for name in bound(plane.api)
    }

    for name in sorted(bound(plane.api))[:3]:
        plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    within(90, lambda: shares(plane) == LIMIT and len(bound(plane.api)) == LIMIT)
    more = {"memory": f"{(LIMIT + 4) * SHARE}Mi"}
    plane.api.merge(f"{QUOTAS}/quota", {"spec": {"limits": more}})
    within(90, lambda: shares(plane) == LIMIT + 4 == len(bound(plane.api)))
    dialects = {row["dialect"] for node in (NODE, OTHER) for row in held(plane, node).values()}
    assert dialects == {"volcano", "metax"}
    assert [violations(plane, node) for node in (NODE, OTHER)] == [[], []]


def knows_quota(service: Service) -> bool:
    """Whether the watch of a service has reported the quota."""
    return "dragoman_quota_limit{" in service.metrics()


def shares(plane: ControlPlane) -> int:
    """How many pods have a share by the ledgers; never more than the quota allows."""
    every = plane.api.get(LEDGERS)["items"]  # one list: all ledgers of one moment
    limit = plane.api.get(f"{QUOTAS}/quota")["spec"]["limits"]["memory"]
    found = {row["pod"] for each in every for row in each["spec"].get("allocations", ())}
    assert len(found) * SHARE <= int(limit.removesuffix("Mi"))
    return len(found)


def status_of_quota(plane: ControlPlane) -> Object:
    """What the service wrote into the quota."""
    found: Object = plane.api.get(f"{QUOTAS}/quota").get("status", {})
    return found
