"""More pods than cards, two schedulers, a service that is killed: no card is sold twice."""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from e2e.harness.api import Api, Object
from e2e.harness.bulk import create_all
from e2e.harness.cluster import PODS, clear, cluster, pod, turn
from e2e.harness.control_plane import ControlPlane
from e2e.harness.inventory import Described, described, gpus, metax, volcano
from e2e.harness.schedulers import start_koord_scheduler, start_kube_scheduler
from e2e.harness.service import (
    Service,
    explained,
    held,
    install,
    kube_like,
    ledger,
    start_service,
)
from e2e.harness.waiting import within

pytestmark = pytest.mark.local

NODE = "eight"
CARDS, MEMORY = 8, 81920
PODS_TRIED = 100
# Eight pods of this size fill a card by its memory; nine would fit by number and compute.
SHARE = MEMORY // 8
VOLCANO = {
    "volcano.sh/vgpu-number": "1",
    "volcano.sh/vgpu-memory": str(SHARE),
    "volcano.sh/vgpu-cores": "10",
}
METAX = {
    "metax-tech.com/sgpu": "1",
    "metax-tech.com/vmemory": str(SHARE // 1024),
    "metax-tech.com/vcore": "10",
}
FIT = CARDS * 8


def the_node() -> Described:
    """A node with eight cards that two vocabularies describe."""
    cards = gpus(NODE, CARDS, MEMORY)
    found = described(NODE, volcano(cards), metax(cards))
    for amounts in (found.node["status"]["capacity"], found.node["status"]["allocatable"]):
        amounts |= {"pods": "500", "cpu": "500"}
    return found


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """One node, and two schedulers that ask the service."""
    with cluster([the_node().node]) as plane:
        install(plane)
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    made = start_service(plane)
    kube = kube_like(made, "kube-scheduler-config.yaml", "kube")
    koord = kube_like(made, "koord-scheduler-config.yaml", "koord")
    first = turn(partial(start_kube_scheduler, plane, kube), plane)
    second = turn(partial(start_koord_scheduler, plane, koord), plane)
    with first, second:
        yield made


@pytest.fixture
def pods(plane: ControlPlane, service: Service) -> Iterator[None]:
    """A hundred pods, half for each scheduler and half in each vocabulary."""
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
    within(30, lambda: not held(service.plane, NODE))


def bound(api: Api) -> dict[str, Object]:
    """The bound pods by their names."""
    items = api.get(PODS)["items"]
    return {row["metadata"]["name"]: row for row in items if row["spec"].get("nodeName")}


def cards_of(found: Object) -> list[tuple[str, int]]:
    """The cards of a pod, with MiB, as its own annotations tell its node."""
    written = found["metadata"]["annotations"]
    record = written.get("volcano.sh/vgpu-ids-new") or written[
        "hami.io/metax-sgpu-devices-allocated"
    ].strip(";")
    rows = [row.split(",") for row in record.strip(":").split(":")]
    return [(card, int(memory)) for card, _, memory, _ in rows]


def is_sound(plane: ControlPlane) -> int:
    """Nobody was given what somebody else has, by pods and ledger alike; how many are bound."""
    found = bound(plane.api)
    memory: Counter[str] = Counter()
    compute: Counter[str] = Counter()
    for row in found.values():
        for card, share in cards_of(row):
            memory[card] += share
            compute[card] += 10
    assert all(share <= MEMORY for share in memory.values()), memory
    assert all(share <= 100 for share in compute.values()), compute
    booked = held(plane, NODE)
    assert booked.keys() >= found.keys(), "a bound pod is not in the ledger"
    for name, row in found.items():
        assert booked[name]["uid"] == row["metadata"]["uid"]
        assert [grant["card"] for grant in booked[name]["grants"]] == [
            card for card, _ in cards_of(row)
        ], name
    return len(found)


def all_that_fit(plane: ControlPlane, service: Service, patience: float = 90) -> None:
    """Wait until as many pods are bound as fit, and see that it stays so."""
    seconds = explained(service, lambda: within(patience, lambda: len(bound(plane.api)) >= FIT))
    time.sleep(2)
    assert is_sound(plane) == FIT
    assert held(plane, NODE).keys() == bound(plane.api).keys()
    conflicts = [
        line for line in service.metrics().splitlines() if line.startswith("dragoman_ledger_conf")
    ]
    print(f"{FIT} of {PODS_TRIED} bound after {seconds:.1f} s; {conflicts}")


@pytest.mark.usefixtures("pods")
def test_of_a_hundred_pods_from_two_schedulers_just_those_are_bound_that_fit(
    plane: ControlPlane, service: Service
) -> None:
    all_that_fit(plane, service)


@pytest.mark.usefixtures("pods")
def test_the_same_when_the_service_is_killed_on_the_way(
    plane: ControlPlane, service: Service
) -> None:
    for at_least in (5, 20, 40):
        within(60, partial(lambda least: len(bound(plane.api)) >= least, at_least))
        service.kill()
        count = is_sound(plane)
        left = len(held(plane, NODE)) - count
        print(f"killed when {count} were bound; {left} more had cards in the ledger")
        service.start()

    all_that_fit(plane, service, 240)


@pytest.mark.usefixtures("pods")
def test_the_cards_of_deleted_pods_go_to_those_that_wait(
    plane: ControlPlane, service: Service
) -> None:
    all_that_fit(plane, service)
    gone = sorted(bound(plane.api))[: PODS_TRIED - FIT]
    started = time.monotonic()
    for name in gone:
        plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")

    everyone = PODS_TRIED - len(gone)
    explained(service, lambda: within(60, lambda: len(bound(plane.api)) == everyone))
    print(f"{len(gone)} deleted: the others ran {time.monotonic() - started:.1f} s later")
    assert is_sound(plane) == everyone


@pytest.mark.usefixtures("pods")
def test_a_terminating_pod_keeps_its_cards_and_a_finished_one_does_not(
    plane: ControlPlane, service: Service
) -> None:
    all_that_fit(plane, service)
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
    """Nobody confirms the end of a pod for the length of a block."""
    (kwok,) = [each for each in plane.run.processes if each.name == "kwok"]
    kwok.identity.signal_group(signal.SIGSTOP)
    try:
        yield
    finally:
        kwok.identity.signal_group(signal.SIGCONT)
