"""The command on a large cluster: processor time and peak memory of the whole process."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import manifests

COMMAND = Path(sys.executable).with_name("dragoman")
MIB_IN_KIB = 1 << 10

_SPENT = """
import json, resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([status, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""A small process between, because the peak of a process begins with that of its parent."""

Report = Callable[[str, float, str], None]


def measure(report: Report, nodes: int, pods: int) -> None:
    """Place pods on a cluster as JSON and as a table, and compare it with one node less."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_text(json.dumps(manifests.cluster(nodes, pods)))
        report("plan_input_mib", file.stat().st_size / (1 << 20), "MiB")
        for name, words in _commands(file):
            seconds, mib = _spent([COMMAND, *words])
            report(f"{name}_cpu_s", seconds, "s")
            report(f"{name}_mib", mib, "MiB")


def _commands(file: Path) -> Iterator[tuple[str, Sequence[str | Path]]]:
    yield "schedule_large_json", ["schedule", "-f", file, "-o", "json"]
    yield "schedule_large_table", ["schedule", "-f", file]
    yield "whatif_large", ["whatif", "-f", file, "--remove", "node-00000"]


def _spent(command: Sequence[str | Path]) -> tuple[float, float]:
    """Seconds of processor time and MiB at the peak; status 1 means that some pods do not fit."""
    words = [sys.executable, "-c", _SPENT, *map(str, command)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)  # noqa: S603
    status, seconds, kib = json.loads(done.stdout)
    if status not in (0, 1):
        sys.exit(f"{command}: exit status {status}")
    return seconds, kib / MIB_IN_KIB


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]] or [5_000, 20_000]
    measure(lambda *result: print(*result), nodes=numbers[0], pods=numbers[1])
