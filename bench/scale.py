"""Pods per second through stock schedulers, with the service and without, on the test bed.

    python bench/scale.py [NODES [PODS [SCHEDULER...]]]

By default 1,000 nodes of eight cards (kwok), 5,000 pods, kube-scheduler and koord-scheduler. Each
scheduler has a cluster of its own; rounds with and without the service alternate. The service runs
in its rounds only: beside a scheduler alone it would adopt that one's pods.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

from e2e.harness.rounds import scale
from e2e.testbed.cache import NotBuiltError

Result = tuple[str, float, str, str | None, float | None]
"""As in ``service``."""


def measure(nodes: int, pods: int, scheduler: str, turns: int = 1) -> Iterator[Result]:
    """One scheduler; each result as arguments of ``run.report``."""
    with scale.ground(nodes) as plane:
        rounds = [scale.bind_all(plane, scheduler, pods, None)]
        for turn in range(turns):
            service, seconds = scale.described_by(plane, nodes)
            if not turn:
                yield f"describe_{nodes}_nodes_s", seconds, "s", None, None
            rounds.append(scale.bind_all(plane, scheduler, pods, service))
            service.stop()
            rounds.append(scale.bind_all(plane, scheduler, pods, None))
    alone = [one.rate for one in rounds if not one.served]
    base = sum(alone) / len(alone)
    yield f"{scheduler}_alone_pods_per_s", base, "1/s", None, None
    for one in rounds:
        way = "" if one.served else "_alone"
        spent = sum(one.processor.values()) / one.pods
        yield f"{scheduler}{way}_all_cpu_ms_per_pod", spent * 1e3, "ms", None, None
        if one.served:
            yield f"{scheduler}_pods_per_s", one.rate, "1/s", "alone", one.rate / base
            cpu = one.processor[service.name] / one.pods
            yield f"{scheduler}_our_cpu_ms_per_pod", cpu * 1e3, "ms", None, None
            yield f"{scheduler}_our_rss_mib", one.resident, "MiB", None, None
            for what, count in one.writes.items():
                yield f"{scheduler}_{what}_per_pod", count, "", None, None


def main() -> None:
    """Measure what the command line names."""
    import run

    nodes, pods, *schedulers = [*sys.argv[1:], *("1000", "5000")[len(sys.argv) - 1 :]]
    try:
        for scheduler in schedulers or scale.STARTERS:
            for result in measure(int(nodes), int(pods), scheduler):
                run.report(*result)
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")


if __name__ == "__main__":
    main()
