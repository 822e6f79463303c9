"""Pods per second through stock schedulers, with the service and without, on the test bed.

    python bench/scale.py [NODES [PODS [SCHEDULER...]]]

By default 1,000 nodes of eight cards (kwok), 5,000 pods, kube-scheduler and koord-scheduler. Each
scheduler has a cluster of its own; rounds with and without the service alternate, and ``turns``
says how they are compared. The service runs in its rounds only: beside a scheduler alone it would
adopt that one's pods.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

import turns

from e2e.harness.rounds import scale
from e2e.testbed.cache import NotBuiltError

TURNS = 3
"""Rounds with the service, each between two without it."""


def measure(nodes: int, pods: int, scheduler: str) -> Iterator[turns.Result]:
    """One scheduler; each result as arguments of ``run.report``."""
    rounds: list[scale.SchedulerRound] = []
    with scale.ground(nodes) as plane:
        renewal = scale.renewal_of(plane)
        rounds.append(scale.bind_all(plane, scheduler, pods, None))
        for turn in range(TURNS):
            service, seconds = scale.described_by(plane, nodes)
            if not turn:
                yield f"describe_{nodes}_nodes_s", seconds, "s", None, None
            rounds.append(scale.bind_all(plane, scheduler, pods, service))
            service.stop()
            rounds.append(scale.bind_all(plane, scheduler, pods, None))
    alone = [one for one in rounds if not one.served]
    served = [one for one in rounds if one.served]
    yield from turns.compare(scheduler, alone, served)
    for way, kind in (("_alone", alone), ("", served)):
        for name in renewal:
            spent = mean(one.beyond(renewal)[name] / one.pods for one in kind)
            yield f"{scheduler}{way}_{name}_own_cpu_ms_per_pod", spent * 1e3, "ms", None, None
    yield f"{scheduler}_our_rss_mib", max(one.resident for one in served), "MiB", None, None
    for what in served[0].writes:
        count = mean(one.writes[what] for one in served)
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
