"""One decision by the peers' own plugins and by Dragoman, on the same clusters, in one run.

    python bench/peers/compare.py [NODES...]

By default 50, 1,000, 5,000 and 12,500 nodes of eight cards with a share on each card. A new pod
requests a tenth of a card, which fits every node. All contestants of a size run at once and take
turns; those that wait are stopped. It prints processor time: one JSON object per line, and a table
to standard error. docs/reference/benchmarks.md says what each contestant's time includes.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]  # e2e and bench's modules, from the checkout

import service  # noqa: E402
from peers.build import built  # noqa: E402

from e2e.testbed.golang import BuildError  # noqa: E402

SIZES = (50, 1_000, 5_000, 12_500)
TURNS = 7
"""Turns of each contestant; one more comes first and is not counted."""

CALLS = 20_000
"""Nodes that a contestant decides about in one turn, at least; and at least two calls."""

MOST_CALLS = 50

VERSUS = "volcano_filter"
"""The contestant with which all others are compared."""

OURS = Path(__file__).with_name("ours.py")


def commands(nodes: int) -> dict[str, list[str]]:
    """What starts each contestant.

    Raises:
        BuildError: a peer's program could not be built.
    """
    volcano, koordinator, size = str(built("volcano")), str(built("koordinator")), str(nodes)
    ours = {
        "volcano_filter": "volcano",
        "koordinator_filter": "koordinator",
        "metax_filter": "metax",
        "volcano_predicates": "predicate",
        "filter_fits_nowhere": "nowhere",
        "explain_fits_nowhere": "explain",
    }
    return {
        "peer_volcano_v0": [volcano, size, "0"],
        "peer_volcano_v3": [volcano, size, "3"],
        "peer_koordinator_v0": [koordinator, size, "0"],
        **{name: [sys.executable, str(OURS), kind, size] for name, kind in ours.items()},
    }


def measure(nodes: int) -> dict[str, list[float]]:
    """Milliseconds of processor time of each contestant's decisions."""
    calls = min(max(CALLS // nodes, 2), MOST_CALLS)
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(
                subprocess.Popen(  # noqa: S603
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for name, command in commands(nodes).items()
        }
        for name, process in running.items():
            if _line(process) != "ready":
                sys.exit(f"{name} did not start")
        for turn in range(TURNS + 1):
            for name, process in running.items():
                with service.only(process, running.values()):
                    spent = _decide(process, calls)
                if turn:
                    found.setdefault(name, []).extend(spent)
    return found


def main(sizes: Sequence[int]) -> None:
    """Measure each size, print the results, and a table of all at the end."""
    import run

    medians: dict[str, dict[int, float]] = {}
    for nodes in sizes:
        of_size = {name: statistics.median(spent) for name, spent in measure(nodes).items()}
        for name, value in of_size.items():
            medians.setdefault(name, {})[nodes] = value
            run.report(f"peers_{nodes}_{name}", value, "ms", VERSUS, value / of_size[VERSUS])
    print(_table(medians, sizes), file=sys.stderr)


def _table(medians: dict[str, dict[int, float]], sizes: Sequence[int]) -> str:
    rows = [["processor time, ms", *(f"{size:,} nodes" for size in sizes)]]
    rows += [
        [name, *(f"{by_size[size]:.3g}" for size in sizes)] for name, by_size in medians.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])],
        )
        for row in rows
    )


def _decide(process: "subprocess.Popen[str]", calls: int) -> list[float]:
    assert process.stdin is not None  # noqa: S101
    process.stdin.write(f"{calls}\n")
    process.stdin.flush()
    spent: list[float] = json.loads(_line(process))
    return spent


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None  # noqa: S101
    line = process.stdout.readline().strip()
    if not line:
        sys.exit(f"{process.args!r} ended")
    return line


if __name__ == "__main__":
    try:
        main([int(size) for size in sys.argv[1:]] or SIZES)
    except BuildError as missing:
        sys.exit(f"skipped: {missing}")
