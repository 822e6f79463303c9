"""More pods than cards, two services that are killed at times: no card is allocated twice."""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle

import pytest

from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import PODS, clear, cluster, pod, turn
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_koord_scheduler, start_kube_scheduler
from e2e.harness.schedulers.service import (
    Service,
    held,
    install,
    kube_like,
    ledger,
    start_service,
    wait_until_free,
)
from e2e.tests.service.eight_gpu_node import (
    CARDS,
    FIT,
    METAX,
    VOLCANO,
    bound,
    eight_gpu_node,
    violations,
)

pytestmark = pytest.mark.local

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
    """See that no card is allocated twice; how many pods are bound."""
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
    with kubelet_asleep(plane):
        plane.api.delete(f"{PODS}/{ends}?gracePeriodSeconds=60")
        plane.api.merge(f"{PODS}/{finishes}/status", {"status": {"phase": "Succeeded"}})

        within(20, lambda: finishes not in held(plane, NODE))
        within(30, lambda: len(held(plane, NODE)) == FIT)
        assert ends in held(plane, NODE), "its containers may still run"
    within(20, lambda: ends not in held(plane, NODE))
    within(30, lambda: len(held(plane, NODE)) == FIT)
    assert len(ledger(plane, NODE)["cards"]) == CARDS


@contextmanager
def kubelet_asleep(plane: ControlPlane) -> Iterator[None]:
    """No kubelet confirms the end of a pod for the length of a block."""
    (kwok,) = [each for each in plane.run.processes if each.name == "kwok"]
    kwok.identity.signal_group(signal.SIGSTOP)
    try:
        yield
    finally:
        kwok.identity.signal_group(signal.SIGCONT)
