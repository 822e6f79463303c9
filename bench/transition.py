"""Pods of all dialects come and go while nodes go from a device plugin to claims, and some return.

    python bench/transition.py [NODES [PODS [SECONDS]]]

By default 200 nodes of two cards (kwok), 2,000 pods in 300 seconds: once without Dragoman, where
each way of giving cards keeps its own book, and once with it. In both runs the same pods come at
the same times, the same nodes change, and the API server stalls; with Dragoman replicas are killed.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

from e2e.harness.rounds.transition import ASKS, Outcome, Size, ground, kind_of, run
from e2e.testbed.cache import NotBuiltError

IDLE = 10
"""Seconds for which a card is free while a pod waits that could have it: the longest backoff of
kube-scheduler."""


def measure(size: Size, *, served: bool) -> Outcome:
    """One run on a cluster of its own."""
    with ground() as plane:
        found = run(plane, size, served=served)
    for what in ("problems", "blocked", "waiting"):
        rows: Sequence[str] = getattr(found, what)
        print(f"{served=}: {len(rows)} {what}: {rows[:8]}", file=sys.stderr)
    print(cells(found), file=sys.stderr, flush=True)
    return found


def cells(found: Outcome) -> dict[str, str]:
    """The rows of a run."""
    kinds = dict.fromkeys(kind for kind, _ in ASKS)
    waits = sorted(found.waited.values())
    idle = [name for name, seconds in found.idle.items() if seconds > IDLE]
    holders = Counter(kind_of(name) for name, _ in found.over)
    return {
        **{f"bound of {kind}": f"{found.bound[kind]} of {found.came[kind]}" for kind in kinds},
        "pods and claims that got a card of others": str(len({name for name, _ in found.over})),
        "the same, by kind": ", ".join(f"{kind} {n}" for kind, n in sorted(holders.items())),
        "cards blocked by a pod that has another one": str(len(found.blocked)),
        "pods that waited at the end": str(len(found.waiting)),
        "wait: median, s": f"{median(waits):.2f}",
        "wait: longest, s": f"{waits[-1]:.0f}",
        f"pods that waited {IDLE} s while a card was free for them": str(len(idle)),
        "pods that the kubelet rejected": str(len(found.rejected)),
        "nodes that changed their state": str(found.steps),
        "replicas killed": str(found.kills),
        "stalls of the API server": str(found.stalls),
        "whole run, s": f"{found.seconds:.0f}",
    }


def main() -> None:
    """Measure what the command line names."""
    nodes, pods, seconds = map(int, [*sys.argv[1:], *("200", "2000", "300")[len(sys.argv) - 1 :]])
    load = os.getloadavg()[0]
    size = Size(nodes, pods, groups=10, seconds=seconds / 15, pause=seconds / pods, faults=10)
    try:
        alone, ours = (measure(size, served=served) for served in (False, True))
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")
    print(f"{nodes} nodes of 2 cards, {pods} pods, {os.cpu_count()} processors, load {load:.1f}\n")
    print("| | with Dragoman | without |\n|---|---|---|")
    rows = cells(ours), cells(alone)
    for row, text in rows[0].items():
        print(f"| {row} | {text} | {rows[1][row]} |")
    longer = Counter(
        kind_of(name)
        for name, waited in ours.waited.items()
        if waited > alone.waited.get(name, waited) + IDLE
    )
    print(f"\n{longer.total()} pods waited {IDLE} s longer with Dragoman: {dict(longer)}")


if __name__ == "__main__":
    main()
