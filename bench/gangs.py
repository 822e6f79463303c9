"""How long a gang takes to be bound beside the same pods alone, on the test bed.

    python bench/gangs.py [NODES [PODS [TURNS]]]

By default 100 nodes of eight cards (kwok), gangs of 32 pods, five turns of each, through stock
kube-scheduler and koord-scheduler with Dragoman as extender. Pods and gang take turns on one
cluster; a time is from the creation of the first pod to the Binding of the last.
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.node_ledgers import ledgers_of, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, clear, pod, turn
from e2e.harness.processes.run import run as processes
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import KOORD, KUBE, add_ready_nodes, prepare, starter
from e2e.harness.schedulers.gangs import (
    by_koordinator,
    by_kubernetes,
    gang_scheduler,
    start_gang_plane,
)
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.inventory import described, gpus, volcano
from e2e.testbed.cache import NotBuiltError

SHARE = {NUMBER: "1", MEMORY: "50000"}
"""More than half of a card: of these a card takes one."""

GANGS: dict[str, Callable[..., list[str]]] = {KUBE: by_kubernetes, KOORD: by_koordinator}


def alone(service: Service, scheduler: str, pods: int) -> None:
    """Create pods that are in no gang."""
    made = [pod(f"alone-{number}", scheduler, SHARE) for number in range(pods)]
    create_all(service.plane.api, PODS, made)


def seconds(service: Service, nodes: list[str], create: Callable[[], object]) -> float:
    """How long it takes from the creation of pods to the Binding of the last one."""
    api = service.plane.api
    started = time.monotonic()
    create()
    within(300, lambda: all(row["spec"].get("nodeName") for row in api.get(PODS)["items"]))
    taken = time.monotonic() - started
    clear(api)
    wait_until_free(service.plane, *nodes)
    return taken


def measure(nodes: int, pods: int, turns: int) -> Iterator[tuple[str, list[float], list[float]]]:
    """By scheduler, the seconds of the pods alone and of the gangs."""
    names = [f"node-{number:04}" for number in range(nodes)]
    with processes() as this:
        plane = start_gang_plane(this)
        prepare(plane)
        add_ready_nodes(plane, [described(name, volcano(gpus(name, 8))) for name in names])
        service = start_service(plane)
        ledgers_of(plane, nodes)
        with (
            webhooks(service),
            turn(gang_scheduler(service), plane),
            turn(starter(service, KOORD), plane),
        ):
            for scheduler, gang in GANGS.items():
                single = partial(alone, service, scheduler, pods)
                together = partial(gang, service, pods, *[SHARE] * pods)
                seconds(service, names, single)  # warm up
                found: tuple[list[float], list[float]] = ([], [])
                for _ in range(turns):
                    found[0].append(seconds(service, names, single))
                    found[1].append(seconds(service, names, together))
                yield scheduler, *found


def main() -> None:
    """Measure what the command line names."""
    import run

    given = [*sys.argv[1:], *("100", "32", "5")[len(sys.argv) - 1 :]]
    nodes, pods, turns = map(int, given)
    try:
        for scheduler, single, together in measure(nodes, pods, turns):
            run.report(f"{scheduler}_{pods}_pods_alone", median(single), "s")
            ratio = median(together) / median(single)
            run.report(f"{scheduler}_gang_of_{pods}", median(together), "s", "alone", ratio)
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")


if __name__ == "__main__":
    main()
