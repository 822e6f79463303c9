"""What one run of the descheduler does for pods that no card has room for, beside a plan of moves.

    python bench/descheduler.py [NODES [PENDING [LEAST [MOST [SEED]]]]]

By default 20 nodes of eight cards (kwok), of each ``LEAST`` 70 to ``MOST`` 90 % in use, and 10 pods
that ask for 72 GiB of one card, which none has free. The service and the mover carry the plan out.
Each run starts with the same pods on the same cards. The descheduler is no part of
``make testbed``; this builds it: ``python3 -m e2e.testbed.build descheduler``.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

from adapters.cli.defrag.goal import Gain, PendingPods, gain
from adapters.cli.defrag.planning import Planned, planned
from adapters.cli.defrag.report import as_object
from adapters.cli.fleet.facts import FleetFacts
from adapters.cli.fleet.fleet import Fleet, read_fleet
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.origin import Origin
from adapters.dialects.dialect import Defaults
from core.moves.make_room import SearchLimits
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.rounds import descheduler
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.testbed.cache import NotBuiltError

ASKED = 72
"""GiB of one card that each pod that waits asks for."""

Result = tuple[str, float, str]
"""Name, value and unit."""


def measure(nodes: int, pending: int, least: int, most: int, seed: int) -> Iterator[Result]:
    """Each result as arguments of ``run.report``."""
    with descheduler.ground(nodes) as (plane, service):

        def begin() -> AbstractContextManager[None]:
            return descheduler.fragmented(plane, pending, ASKED, (least, most), seed)

        with begin():
            made, seconds = plan(plane)
            yield from planned_moves(made, seconds)
            written = as_object(made)
            del written["report"]
            found = descheduler.carry_out(plane, service, written)
            yield from outcome("defrag_executed", found, plane)
        for name, plugin, arguments in runs(least, most):
            with begin():
                found = descheduler.deschedule(plane, service, plugin, arguments)
                yield from outcome(name, found, plane)


def runs(least: int, most: int) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Name, plugin and arguments of each run of the descheduler.

    HighNodeUtilization evicts from nodes below a percentage of card memory: a quarter of the nodes,
    half of them, three quarters.
    """
    yield "duplicates", "RemoveDuplicates", {}
    for percent in (least + quarter * (most - least) // 4 for quarter in (1, 2, 3)):
        # What is not named has 100, as CPU, memory and pods: by these no node is below or above.
        thresholds = {MEMORY: percent, NUMBER: 100, descheduler.CORES: 100}
        yield f"high_utilization_{percent}", "HighNodeUtilization", {"thresholds": thresholds}


def read(plane: ControlPlane) -> tuple[Fleet, Manifests]:
    """The cluster, as the command reads it."""
    found = Origin((), plane.kubeconfig("reader", "system:masters")).read(evictions=True)
    return read_fleet(found, Defaults()), found


def plan(plane: ControlPlane) -> tuple[Planned, float]:
    """The plan of ``dragoman defrag`` for all pods that wait, and seconds of processor time."""
    start = process_time()
    fleet, found = read(plane)
    made = planned(fleet, found, PendingPods(), SearchLimits())
    return made, process_time() - start


def planned_moves(made: Planned, seconds: float) -> Iterator[Result]:
    """The plan before any eviction."""
    name = "descheduler_defrag"
    yield from state(f"{name}_before", made.gain, 0)
    yield f"{name}_moves", len(made.moves), "pods"
    placed = sum(not target.reason for target in made.targets)
    yield f"{name}_placed", placed, f"of {len(made.targets)}"
    yield f"{name}_cost", made.cost, "weight"
    yield f"{name}_bound", made.bound, "weight"
    yield f"{name}_cpu_s", seconds, "s"
    yield from state(name, made.gain, 1)


def outcome(name: str, found: descheduler.Evictions, plane: ControlPlane) -> Iterator[Result]:
    """What evictions led to."""
    name = f"descheduler_{name}"
    yield f"{name}_evicted", found.evicted, "pods"
    yield f"{name}_placed", found.bound, "pods"
    yield f"{name}_without_place", found.without_place, "pods"
    yield f"{name}_s", found.seconds, "s"
    ledgers = {ledger.node.name: ledger for ledger in FleetFacts(read(plane)[0]).inventory}
    yield from state(name, gain(ledgers, ledgers), 0)


def state(name: str, gain: Gain, when: int) -> Iterator[Result]:
    """What is free before (0) or after (1) the moves of a plan."""
    for model in gain.models:
        yield f"{name}_largest_free_gib", model.largest[when] / 2**30, "GiB"
        yield f"{name}_idle_cards", model.idle[when], "cards"
    yield f"{name}_fragmentation", gain.fragmentation[when], "%"


def main() -> None:
    """Measure what the command line names."""
    import run

    given = [*sys.argv[1:], *("20", "10", "70", "90", "4")[len(sys.argv) - 1 :]]
    nodes, pending, least, most, seed = map(int, given)
    try:
        for result in measure(nodes, pending, least, most, seed):
            run.report(*result)
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")


if __name__ == "__main__":
    main()
