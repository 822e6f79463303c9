"""Cost of a pod through the real vc-scheduler, with the service and alone, on the test bed.

    python bench/volcano.py [PODS [NODES...]]

By default 20 pods at once on 10, 100 and 1,000 nodes (kwok).
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

from e2e.harness.cluster.node_ledgers import ledgers_of
from e2e.harness.cluster.ready_cluster import cluster
from e2e.harness.rounds.volcano import Round, alone, grow, with_service
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.schedulers.service import install, start_service
from e2e.testbed.cache import NotBuiltError

Result = tuple[str, float, str, str | None, float | None]
"""Name, value, unit, what it is compared with, and the ratio."""


def measure(pods: int, sizes: Sequence[int]) -> Iterator[Result]:
    """Each size with the service and without; each result as arguments of ``run.report``."""
    with cluster([]) as plane:
        install(plane)
        start_volcano_controllers(plane)
        service = start_service(plane, log={"level": "warning", "format": "json"})
        for size in sizes:
            grow(plane, size)
            ledgers_of(plane, size)
            ours = with_service(plane, service, pods)
            own = alone(plane, service, pods)
            yield from _results(size, ours, own)


def _results(size: int, ours: Round, own: Round) -> Iterator[Result]:
    name, pods = f"volcano_{size}", ours.pods
    yield f"{name}_s", ours.seconds, "s", "alone", ours.seconds / own.seconds
    yield f"{name}_calls_per_pod", sum(ours.calls.values()) / pods, "", None, None
    yield f"{name}_kib_per_pod", sum(ours.sizes.values()) / pods / 1024, "KiB", None, None
    yield f"{name}_our_cpu_ms_per_pod", ours.processor["dragoman"] / pods * 1e3, "ms", None, None
    theirs, bare = ours.processor["vc-scheduler"], own.processor["vc-scheduler"]
    ratio = theirs / bare if bare else None
    yield f"{name}_scheduler_cpu_s", theirs, "s", "alone", ratio


def main() -> None:
    """Measure what the command line names."""
    import run

    pods, *sizes = map(int, [*sys.argv[1:], "20"][: max(len(sys.argv) - 1, 1)])
    try:
        for result in measure(pods, sizes or (10, 100, 1_000)):
            run.report(*result)
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")


if __name__ == "__main__":
    main()
