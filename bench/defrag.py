"""Plans of moves on a fragmented cluster, in seconds of processor time, and how exact they are.

    python bench/defrag.py [NODES [PENDING [SEEDS]]]

By default 1,000 nodes of eight cards and 100 pods that wait (``fragmented.py``), and 1,000 small
clusters, each of whose plans is compared with the cheapest of all plans. Last, 40 nodes that are
nearly full, with 40 pods that wait, in ``SECONDS`` of the clock on the wall.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, process_time

sys.path.insert(0, str(Path(__file__).parents[1]))  # the checkout, for the oracle of the tests

import fragmented

from adapters.cli.defrag.goal import FreeNodes, Goal, PendingPods
from adapters.cli.defrag.planning import Planned, planned
from adapters.cli.fleet.fleet import read_fleet
from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import Source
from adapters.dialects.dialect import Defaults
from core.moves.make_room import SearchLimits, make_room
from core.moves.places import Places
from core.moves.tests.oracle import least_cost
from core.moves.tests.strategies import a_situation

ALONE = 10
"""Pods for which others move, each of which gets a plan of its own."""

MOVES = 3
"""Moves of a plan at most, where it is compared with all others."""

SECONDS = 60.0
"""The default of ``--seconds``."""

Result = tuple[str, float, str]


def measure(nodes: int, pending: int) -> Iterator[Result]:
    """Each result as arguments of ``run.report``."""
    text = json.dumps(fragmented.cluster(nodes, pending))
    start = process_time()
    found = manifests([Source("cluster", text, named=True)], jobs=True)
    fleet = read_fleet(found, Defaults())
    yield "defrag_read_cpu_s", process_time() - start, "s"

    def plan(goal: Goal) -> tuple[Planned, float]:
        start = process_time()
        result = planned(fleet, found, goal, SearchLimits())
        return result, process_time() - start

    every, seconds = plan(PendingPods())
    yield "defrag_all_cpu_s", seconds, "s"
    yield "defrag_all_placed", sum(not target.reason for target in every.targets), "pods"
    yield "defrag_all_may_fit", every.most, "pods"
    yield "defrag_all_cost", every.cost, "weight"
    yield "defrag_all_bound", every.bound, "weight"
    # The pods for which others moved.
    moves = [0, *(target.after or 0 for target in every.targets)]
    need = [each.title for each, before in zip(every.targets, moves, strict=False)
            if (each.after or 0) > before]  # fmt: skip
    ones = [plan(PendingPods((name,))) for name in need[:: max(len(need) // ALONE, 1)][:ALONE]]
    yield "defrag_one_cpu_s", statistics.median(seconds for _, seconds in ones), "s"
    yield "defrag_one_most_cpu_s", max(seconds for _, seconds in ones), "s"
    yield "defrag_one_optimal", sum(one.optimal for one, _ in ones), f"of {len(ones)}"
    freed, seconds = plan(FreeNodes(3))
    yield "defrag_free_3_nodes_cpu_s", seconds, "s"
    yield "defrag_free_3_nodes_cost", freed.cost, "weight"
    yield "defrag_free_3_nodes_bound", freed.bound, "weight"


def limited() -> Iterator[Result]:
    """What is found in a limited time where hardly anything fits."""
    text = json.dumps(fragmented.cluster(40, 40, use=fragmented.NEARLY_FULL))
    found = manifests([Source("cluster", text, named=True)], jobs=True)
    fleet, start = read_fleet(found, Defaults()), monotonic()
    plan = planned(fleet, found, PendingPods(), SearchLimits(), seconds=SECONDS)
    yield "defrag_full_s", monotonic() - start, "s"
    yield "defrag_full_placed", sum(not target.reason for target in plan.targets), "pods"


def exact(seeds: int) -> Iterator[Result]:
    """On how many small clusters a plan costs what the cheapest of all plans does."""
    equal = possible = 0
    for number in range(seeds):
        wanted, situation = a_situation(number)
        best = least_cost(wanted, situation, MOVES)
        plan = make_room(wanted, Places(situation), SearchLimits(MOVES, 1 << 20))
        equal += (plan.cost if plan.found else None) == best
        possible += best is not None
    yield "defrag_exact", equal, f"of {seeds}"
    yield "defrag_exact_with_plan", possible, f"of {seeds}"


def main() -> None:
    """Measure what the command line names."""
    import run

    nodes, pending, seeds = [*sys.argv[1:], *("1000", "100", "1000")[len(sys.argv) - 1 :]]
    for results in (exact(int(seeds)), measure(int(nodes), int(pending)), limited()):
        for result in results:
            run.report(*result)


if __name__ == "__main__":
    main()
