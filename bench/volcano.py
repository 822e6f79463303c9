"""Pods per second, and the cost of a pod, through the real vc-scheduler on the test bed.

    python bench/volcano.py [PODS [NODES...]]

By default 60 pods at once on 100 and 1,000 nodes (kwok). For each number of nodes, rounds with the
scheduler's own plugin deviceshare, with the service as extender and without devices take turns. The
service runs in its rounds only: beside another plugin it would adopt that one's pods.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledgers_of
from e2e.harness.cluster.ready_cluster import cluster
from e2e.harness.rounds.volcano import Round, alone, grow, with_own_plugin, with_service
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.schedulers.service import Service, install, start_service
from e2e.testbed.cache import NotBuiltError

TURNS = 3

Result = tuple[str, float, str, str | None, float | None]
"""Name, value, unit, what it is compared with, and the ratio."""

Rounds = tuple[Sequence[Round], Sequence[Round], Sequence[Round]]
"""With the service, with the scheduler's own plugin, and without devices."""


def measure(pods: int, sizes: Sequence[int]) -> Iterator[Result]:
    """Each number of nodes; each result as arguments of ``run.report``."""
    with cluster([]) as plane:
        install(plane)
        start_volcano_controllers(plane)
        service = start_service(plane, log={"level": "warning", "format": "json"})
        for size in sizes:
            grow(plane, size)
            ledgers_of(plane, size)
            yield from _results(size, take_turns(plane, service, pods, TURNS))


def take_turns(plane: ControlPlane, service: Service, pods: int, turns: int) -> Rounds:
    """Rounds of each kind, one after the other; the service runs at the begin and at the end."""
    ours, own, bare = [], [], []
    for _ in range(turns):
        ours.append(with_service(plane, service, pods))
        service.stop()
        own.append(with_own_plugin(plane, pods))
        bare.append(alone(plane, pods))
        service.start()
    return ours, own, bare


def _results(size: int, rounds: Rounds) -> Iterator[Result]:
    name, (ours, _, bare) = f"volcano_{size}", rounds
    rate, theirs, most = (median(one.rate for one in kind) for kind in rounds)
    yield f"{name}_pods_per_s", rate, "1/s", "own plugin", rate / theirs
    yield f"{name}_own_plugin_pods_per_s", theirs, "1/s", "alone", theirs / most
    yield f"{name}_alone_pods_per_s", most, "1/s", None, None
    seconds, without = (median(one.seconds for one in kind) for kind in (ours, bare))
    yield f"{name}_s", seconds, "s", "alone", seconds / without
    pods = sum(one.pods for one in ours)
    calls = sum(sum(one.calls.values()) for one in ours)
    yield f"{name}_calls_per_pod", calls / pods, "", None, None
    sizes = sum(sum(one.sizes.values()) for one in ours)
    yield f"{name}_kib_per_pod", sizes / pods / 1024, "KiB", None, None
    spent = sum(one.processor["dragoman"] for one in ours)
    yield f"{name}_our_cpu_ms_per_pod", spent / pods * 1e3, "ms", None, None
    cpu, bare_cpu = (median(one.processor["vc-scheduler"] for one in kind) for kind in (ours, bare))
    yield f"{name}_scheduler_cpu_s", cpu, "s", "alone", cpu / bare_cpu if bare_cpu else None


def main() -> None:
    """Measure what the command line names."""
    import run

    pods, *sizes = map(int, [*sys.argv[1:], "60"][: max(len(sys.argv) - 1, 1)])
    try:
        for result in measure(pods, sizes or (100, 1_000)):
            run.report(*result)
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")


if __name__ == "__main__":
    main()
