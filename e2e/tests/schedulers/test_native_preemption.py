"""Preemption in native mode: which pods vc-scheduler and koord-scheduler evict for cards.

A holder of low priority has more than half of the only card, in the words of its own dialect or of
another one; a pod of high priority wants as much. Mirrored records show each holder to both.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest
import yaml

from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, add_priorities, bind, clear, node_of, pod, turn
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import (
    KOORD,
    VOLCANO,
    Planes,
    add_ready_nodes,
    prepare,
    starter,
    wait_for_cards,
)
from e2e.harness.schedulers.native import (
    DESCRIBED,
    KOORD_FILE,
    VOLCANO_FILE,
    changing,
    known_to_peers,
)
from e2e.harness.schedulers.schedulers import (
    start_volcano_controllers,
    start_volcano_scheduler,
)
from e2e.harness.schedulers.service import (
    Service,
    start_service,
    volcano_like,
    webhooks,
    with_decisions,
)
from e2e.harness.schedulers.volcano import GROUPS, MEMORY, NUMBER
from e2e.harness.workloads.inventory import gpus, hami, koordinator, volcano

pytestmark = pytest.mark.local("vc-scheduler's own plugin reads its nodes' handshakes")

NODE = "one-card"
CARDS = gpus(NODE, 1)
MOST = {
    VOLCANO: {NUMBER: "1", MEMORY: "60000"},
    KOORD: {"koordinator.sh/gpu-core": "60", "koordinator.sh/gpu-memory-ratio": "60"},
    "hami": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "60000", "nvidia.com/gpucores": "60"},
}
LONG = 8
"""Seconds in which a pod that may not evict is tried."""


def preempting(configuration: str) -> str:
    """vc-scheduler's configuration in native mode, with its action for preemption."""
    found = yaml.safe_load(configuration)
    # Not enqueue: overcommit would keep the pod out of the queue where it exceeds the small node.
    found["actions"] = "allocate, preempt, backfill"
    return yaml.safe_dump(found)


@pytest.fixture(scope="module")
def service(planes: Planes) -> Iterator[Service]:
    with planes() as plane:
        add_priorities(plane.api)
        prepare(plane)
        row = known_to_peers(
            NODE, volcano(CARDS), koordinator(CARDS, with_shared=True), hami(CARDS)
        )
        add_ready_nodes(plane, [row])
        start_volcano_controllers(plane, plane.scheduler(VOLCANO))
        made = start_service(plane, mirrors=["volcano", "koordinator"])
        wait_for_cards(plane, [NODE])
        vc = plane.scheduler(VOLCANO)
        first = partial(
            start_volcano_scheduler, plane, preempting(volcano_like(made, VOLCANO_FILE)), vc
        )
        second = starter(made, KOORD, file=KOORD_FILE)
        with (
            webhooks(made),
            turn(first, plane),
            turn(second, plane),
            changing(plane.api, NODE, kinds=DESCRIBED),
        ):
            yield made


@pytest.fixture(autouse=True)
def clean(service: Service) -> Iterator[None]:
    yield
    clear(service.plane.api, GROUPS)
    wait_until_free(service.plane, NODE)


def hold(service: Service, dialect: str) -> None:
    """A pod of low priority has more than half of the card."""
    api, is_peer = service.plane.api, dialect != "hami"
    scheduler = service.plane.scheduler(dialect) if is_peer else "no-scheduler"
    made = pod("low", scheduler, MOST[dialect], priority="low")
    made["metadata"]["annotations"] = {"volcano.sh/preemptable": "true"}
    api.create(PODS, made)
    if not is_peer:
        bind(api, "low", NODE)
    with_decisions(service, lambda: within(60, lambda: node_of(api, "low") == NODE))
    within(30, lambda: api.get(f"{PODS}/low")["status"].get("phase") == "Running")


def bound_after(service: Service, scheduler: str, share: dict[str, str]) -> bool:
    """Create a pod of high priority; whether it gets the card, in the place of the other one."""
    api = service.plane.api
    began = time.monotonic()
    api.create(PODS, pod("high", scheduler, share, priority="high"))
    with suppress(TimeoutError):
        within(LONG, lambda: node_of(api, "high") == NODE)
    names = {row["metadata"]["name"] for row in api.get(PODS)["items"]}
    print(f"{scheduler}: {names} after {time.monotonic() - began:.1f} s")
    assert held(service.plane, NODE).keys() == ({"high"} if "low" not in names else {"low"})
    return "low" not in names


@pytest.mark.parametrize(
    ("scheduler", "dialect", "evicts"),
    [
        (VOLCANO, VOLCANO, True),
        (VOLCANO, KOORD, False),
        (VOLCANO, "hami", False),
        (KOORD, KOORD, True),
        (KOORD, VOLCANO, True),
        (KOORD, "hami", True),
    ],
)
def test_which_pods_a_scheduler_in_native_mode_evicts(
    service: Service, scheduler: str, dialect: str, evicts: bool
) -> None:
    hold(service, dialect)

    assert bound_after(service, service.plane.scheduler(scheduler), MOST[scheduler]) == evicts
