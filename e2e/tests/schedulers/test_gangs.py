"""Gangs under stock kube-scheduler and koord-scheduler with the extender: all pods or none."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest

from e2e.harness.cluster.control_plane import start_control_plane
from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, clear, node_of, pod, turn
from e2e.harness.processes.flags import Flags
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import (
    KOORD,
    KUBE,
    add_ready_nodes,
    prepare,
    starter,
    wait_for_cards,
)
from e2e.harness.schedulers.native import GANG
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.schedulers.service import Service, kube_like, start_service, webhooks
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.inventory import described, gpus, hami, volcano

pytestmark = [pytest.mark.local, pytest.mark.timeout(300)]

GATE = "GenericWorkload=true"
NODES = ("left", "right")
POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
LARGE = {NUMBER: "1", MEMORY: "50000"}
"""More than half of a card of 81920 MiB: of these a card takes one."""
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "50000"}
LONG = 20
"""Seconds in which a gang that fits nowhere is tried again."""

_NUMBERS = count()


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A cluster with gangs of Kubernetes' own, two nodes of two cards, and both schedulers."""
    flags: Flags = {"feature-gates": GATE, "runtime-config": "scheduling.k8s.io/v1beta1=true"}
    with run() as this:
        plane = start_control_plane(this, flags)
        prepare(plane)
        cards = {name: gpus(name, 2) for name in NODES}
        add_ready_nodes(plane, [described(n, volcano(cards[n]), hami(cards[n])) for n in NODES])
        made = start_service(plane)
        kube = partial(
            start_kube_scheduler,
            plane,
            kube_like(made, "kube-scheduler-config.yaml", KUBE),
            gates=GATE,
        )
        with webhooks(made), turn(kube, plane), turn(starter(made, KOORD), plane):
            wait_for_cards(plane, NODES)
            yield made


@pytest.fixture(autouse=True)
def _cleared(service: Service) -> Iterator[None]:
    yield
    clear(service.plane.api)
    wait_until_free(service.plane, *NODES)


def by_kubernetes(service: Service, size: int, *shares: dict[str, str]) -> list[str]:
    """A gang of kube-scheduler's own; the names of its pods."""
    name = f"group-{next(_NUMBERS)}"
    policy = {"gang": {"minCount": size}}
    service.plane.api.create(
        POD_GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}
    )
    return _add(service, KUBE, name, shares, schedulingGroup={"podGroupName": name})


def by_koordinator(service: Service, size: int, *shares: dict[str, str]) -> list[str]:
    """A gang of koord-scheduler; the names of its pods."""
    name = f"gang-{next(_NUMBERS)}"
    texts = {f"{GANG}/name": name, f"{GANG}/min-available": str(size)}
    return _add(service, KOORD, name, shares, texts)


def _add(
    service: Service,
    scheduler: str,
    gang: str,
    shares: tuple[dict[str, str], ...],
    texts: dict[str, str] | None = None,
    **spec: Any,
) -> list[str]:
    names = [f"{gang}-{number}" for number in range(len(shares))]
    for name, share in zip(names, shares, strict=True):
        made = pod(name, scheduler, share, **spec)
        if texts:
            made["metadata"]["annotations"] = texts
        service.plane.api.create(PODS, made)
    return names


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
