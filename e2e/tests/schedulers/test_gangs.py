"""Gangs under stock schedulers with the extender: all pods are bound, or none."""

import time
from collections.abc import Callable, Iterator
from random import Random

import pytest

from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, clear, events, node_of, pod, turn
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import (
    KOORD,
    KUBE,
    VOLCANO,
    add_ready_nodes,
    prepare,
    starter,
    wait_for_cards,
)
from e2e.harness.schedulers.gangs import (
    by_koordinator,
    by_kubernetes,
    by_volcano,
    gang_scheduler,
    start_gang_plane,
)
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.inventory import described, gpus, hami, volcano

pytestmark = [pytest.mark.local, pytest.mark.timeout(400)]

NODES = ("left", "right")
LARGE = {NUMBER: "1", MEMORY: "50000"}
"""More than half of a card of 81920 MiB: of these a card takes one."""
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "50000"}
GANGS = 18
"""Gangs of the three schedulers together, a third of each."""
LATE = 20
"""Seconds in which the pods of a gang are bound after the first one."""
LONG = 20
"""Seconds in which a gang that fits nowhere is tried again."""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A cluster of two nodes with two cards each, and all three schedulers."""
    with run() as this:
        plane = start_gang_plane(this)
        prepare(plane)
        cards = {name: gpus(name, 2) for name in NODES}
        add_ready_nodes(plane, [described(n, volcano(cards[n]), hami(cards[n])) for n in NODES])
        made = start_service(plane)
        start_volcano_controllers(plane, plane.scheduler(VOLCANO))
        koord, volcano_scheduler = starter(made, KOORD), starter(made, VOLCANO)
        with (
            webhooks(made),
            turn(gang_scheduler(made), plane),
            turn(koord, plane),
            turn(volcano_scheduler, plane),
        ):
            wait_for_cards(plane, NODES)
            yield made


@pytest.fixture(autouse=True)
def _cleared(service: Service) -> Iterator[None]:
    yield
    clear(service.plane.api)
    wait_until_free(service.plane, *NODES)


Gang = Callable[..., list[str]]
BOTH = pytest.mark.parametrize("gang", [by_kubernetes, by_koordinator])


def bound(service: Service, names: list[str]) -> int:
    return sum(bool(node_of(service.plane.api, name)) for name in names)


@BOTH
def test_of_a_gang_that_does_not_fit_no_pod_is_bound(service: Service, gang: Gang) -> None:
    names = gang(service, 5, *[LARGE] * 5)

    time.sleep(LONG)

    assert bound(service, names) == 0
    assert not any(held(service.plane, node) for node in NODES)
    single = pod("single", KUBE, LARGE)
    service.plane.api.create(PODS, single)
    within(30, lambda: bool(node_of(service.plane.api, "single")))


@BOTH
def test_a_gang_that_fits_is_bound_as_a_whole(service: Service, gang: Gang) -> None:
    names = gang(service, 4, LARGE, HAMI, LARGE, HAMI)

    within(60, lambda: bound(service, names) == 4)

    cards = [
        grant["card"]
        for node in NODES
        for row in held(service.plane, node).values()
        for grant in row["grants"]
    ]
    assert len({*cards}) == 4


@BOTH
def test_a_gang_that_waits_is_bound_when_all_of_it_has_room(service: Service, gang: Gang) -> None:
    service.plane.api.create(PODS, pod("before", KUBE, LARGE))
    within(30, lambda: bool(node_of(service.plane.api, "before")))
    names = gang(service, 4, *[LARGE] * 4)
    time.sleep(LONG / 4)
    assert bound(service, names) == 0

    service.plane.api.delete(f"{PODS}/before?gracePeriodSeconds=0")

    within(90, lambda: bound(service, names) == 4)


def test_gangs_of_three_schedulers_at_once_are_bound_as_a_whole(service: Service) -> None:
    """A gang that is bound makes room for the others.

    The service stays up: koord-scheduler 1.8.0 panics where an extender does not answer about a
    gang's pod (``runPreEnqueuePlugin``, assignment to entry in nil map).
    """
    random = Random(7)  # noqa: S311
    kinds = (by_kubernetes, by_koordinator, by_volcano)
    gangs: list[list[str]] = []
    for number in range(GANGS):
        size = random.choice((2, 2, 3, 4))
        shares = [random.choice((LARGE, HAMI)) for _ in range(size)]
        make = kinds[number % len(kinds)]
        gangs.append(make(service, size, *(shares if make is not by_volcano else [LARGE] * size)))
    first: dict[str, float] = {}

    def waiting() -> str:
        return str({each: events(service.plane.api, each) for names in gangs for each in names})

    def left() -> bool:
        there = {row["metadata"]["name"]: row for row in service.plane.api.get(PODS)["items"]}
        for names in [*gangs]:
            placed = sum(bool(there[name]["spec"].get("nodeName")) for name in names)
            if placed == len(names):
                gangs.remove(names)
                for name in names:
                    service.plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
            elif placed:
                since = first.setdefault(names[0], time.monotonic())
                assert time.monotonic() - since < LATE, waiting()
        return not gangs

    within(200, left, waiting)
