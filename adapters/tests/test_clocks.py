"""A duration is never the difference of the times of two machines."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]

READERS = {"fromisoformat", "strptime"}

FOREIGN_TIMES = {
    "adapters/cli/commands/options.py": "the user states a time",
    "adapters/cli/view/pod_meta.py": "shows how old a pod is",
    "adapters/cli/defrag/execution.py": "shows how long a move took",
    "adapters/cluster/api/timestamps.py": "the reader that others call",
    "adapters/mover/plans.py": "counts evictions for an hour; one of the future counts",
    "adapters/service/decide/gang_state.py": "by ``Sightings.since``",
    "adapters/service/decide/preemption.py": "the end of a grace period, with a margin of a minute",
    "adapters/service/reconcile/preemptor.py": "by ``Sightings.since``",
    "adapters/service/web/dashboard/moves.py": "shows how old a plan is",
}
"""Why a module reads times that another machine may have written. What has to wait for a while
counts from when this process saw it: ``core.durations.Sightings``."""


def _reads_times(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            value, name = node.func.value, node.func.attr
            if name in READERS:
                return True
            if isinstance(value, ast.Name) and (value.id, name) == ("timestamps", "read"):
                return True
    return False


def test_each_module_that_reads_times_of_others_says_why() -> None:
    shipped = (
        path
        for room in ("adapters", "core", "dragoman")
        for path in (ROOT / room).rglob("*.py")
        if "tests" not in path.parts
    )

    found = {str(path.relative_to(ROOT)) for path in shipped if _reads_times(path)}

    assert found == FOREIGN_TIMES.keys()
