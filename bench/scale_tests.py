"""The tests of scale that KAI Scheduler publishes, through stock schedulers, in one table.

    python bench/scale_tests.py [NODES [WAY...]]

By default 500 nodes of eight cards (kwok) and every way: a scheduler in one of its modes, or alone,
each on a cluster of its own. All else grows with the nodes: at 500, 4,000 pods fill the cards, 512
are a gang, 500 wait, and a plan has 410 moves. Figures are seconds; ``no`` stands for what was not
there in time or not right. The reason, and the processor seconds of each component, are on the
standard error.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

from e2e.harness.processes.usage import processor_seconds
from e2e.harness.rounds import scale_tests as tests
from e2e.testbed.cache import NotBuiltError

ENDS = 30
"""Pods that end, one each second, while others wait."""

PEER = {
    tests.WHOLES: "398",
    tests.EVICTED: "13.9",
    tests.UNFIT: "249",
    tests.GANG: "49",
    tests.BURSTS[8]: "up to four on a card",
    tests.FIRST: "456 for all 410",
}
"""Published for KAI 0.17: 500 nodes of eight cards, five processors for the scheduler alone."""

AIMS = {
    tests.HALVES: "55; koord 90",
    tests.WHOLES: "50",
    tests.AT_ONCE: "4",
    tests.EVICTED: "4",
    tests.UNFIT: "1",
    tests.FREED: "1.2 of alone",
    tests.GANG: "1.15 of its pods",
    tests.BURSTS[8]: "0.5",
    tests.BURSTS[1]: "0.5; koord 1",
    tests.PLAN: "10",
    tests.FIRST: "12",
}
"""For 500 nodes, on two processors for all components together."""


def measure(nodes: int, way: str) -> dict[str, str]:
    """The figures of a way by test."""
    found: dict[str, str] = {}
    with (
        tests.ground(nodes, tests.WAYS[way]) as service,
        tests.bed(service, nodes, tests.WAYS[way]) as on,
    ):
        for rows, test in tests.tests(on, ENDS):
            used = processor_seconds(service.plane.run)
            try:
                found |= {row: f"{seconds:.3g}" for row, seconds in zip(rows, test(), strict=True)}
            except (TimeoutError, tests.WrongError) as wrong:
                found |= dict.fromkeys(rows, "no")
                print(f"{way}: {rows[0]}: {wrong}", file=sys.stderr)
            now = processor_seconds(service.plane.run)
            spent = {name: round(each - used.get(name, 0), 1) for name, each in now.items()}
            print(way, {row: found.get(row) for row in rows}, spent, file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Measure what the command line names."""
    nodes, *ways = [*sys.argv[1:], *("500",)[len(sys.argv) - 1 :]]
    load = os.getloadavg()[0]
    try:
        columns = {way: measure(int(nodes), way) for way in ways or tests.WAYS}
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")
    print(f"{nodes} nodes of 8 cards, {os.cpu_count()} processors, load {load:.1f} before\n")
    print("| seconds |", " | ".join([*columns, "KAI 0.17, 500 nodes", "aim, 500 nodes"]), "|")
    print("|---|", "---|" * (len(columns) + 2), sep="")
    for row in tests.ROWS:
        cells = [found.get(row, "") for found in columns.values()]
        print("|", " | ".join([row, *cells, PEER.get(row, ""), AIMS.get(row, "")]), "|")


if __name__ == "__main__":
    main()
