"""Pods per second through each stock scheduler in each of its modes, on the test bed.

    python bench/pace.py [NODES [PODS [TURNS [SCHEDULER...]]]]

By default 1,000 nodes of eight cards (kwok), 200 pods at once, two turns, all three schedulers, and
``plain-pods``: kube-scheduler with pods without a card. The modes take turns on one cluster: the
scheduler's own device plugin alone (``own``), the same with Dragoman as arbiter and mirrored
records (``native``), Dragoman as extender (``extender``), no choice of cards (``none``), and, of
plain pods, kube-scheduler's own configuration (``stock``). Every rate is compared with that of the
first mode in the same run.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

from e2e.harness.rounds import pace
from e2e.testbed.cache import NotBuiltError

Result = tuple[str, float, str, str | None, float | None]
"""Name, value, unit, what it is compared with, and the ratio."""


def measure(nodes: int, pods: int, turns: int, scheduler: str) -> Iterator[Result]:
    """One scheduler; each result as arguments of ``run.report``."""
    modes = pace.MODES[scheduler]
    rounds: dict[str, list[pace.PaceRound]] = {mode: [] for mode in modes}
    with pace.ground(nodes) as (plane, service):
        for _ in range(turns):
            for mode in modes:
                rounds[mode].append(pace.bind_all(plane, service, scheduler, mode, pods))
    first = mean(one.rate for one in rounds[modes[0]])
    for mode, found in rounds.items():
        name, rate = f"{scheduler}_{nodes}_{mode}", mean(one.rate for one in found)
        yield f"{name}_pods_per_s", rate, "1/s", modes[0], rate / first
        yield f"{name}_rejected_bindings", sum(one.rejected for one in found), "", None, None
        yield f"{name}_corrected_bindings", sum(one.corrected for one in found), "", None, None
        for part in sorted({name for one in found for name in one.processor}):
            spent = mean(one.processor.get(part, 0.0) / one.pods for one in found)
            yield f"{name}_{part}_cpu_ms_per_pod", spent * 1e3, "ms", None, None


def main() -> None:
    """Measure what the command line names."""
    import run

    nodes, pods, turns, *schedulers = [*sys.argv[1:], *("1000", "200", "2")[len(sys.argv) - 1 :]]
    try:
        for scheduler in schedulers or pace.MODES:
            for result in measure(int(nodes), int(pods), int(turns), scheduler):
                run.report(*result)
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")


if __name__ == "__main__":
    main()
