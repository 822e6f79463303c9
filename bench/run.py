"""Run the benchmarks; print one JSON object per line.

``value`` is a median. ``ratio``, if present, is ``value`` divided by the value of ``versus`` in the
same run: absolute times differ between machines and are noisy, ratios much less so.
"""

import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from time import perf_counter

import clusters
import describe
import filters
import manifests
import node
import numpy as np
import plan
import scrape
import service
import start
import sync

from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Placement
from core.requests.request import Request

SIZES = {"fit_8k": 1_000, "fit_40k": 5_000, "fit_100k": 12_500}
ROUNDS = 41
COMMAND = Path(sys.executable).with_name("dragoman")
EXAMPLE = Path(__file__).parents[1] / "configs" / "examples" / "mixed.yaml"


def main() -> None:
    """Run all benchmarks."""
    for name, nodes in SIZES.items():
        ledgers = clusters.ledgers(nodes)
        inventory = Inventory(ledgers)
        gc.collect()
        gc.freeze()
        measure_fit(name, inventory, ledgers)
        if name == "fit_40k":
            measure_update(inventory, ledgers[nodes // 2])
            measure_memory(inventory, ledgers)
    measure_schedule(nodes=1_000, pods=1_000)
    plan.measure(report, nodes=5_000, pods=20_000)
    measure_start()
    node.measure(report)
    measure_sync()
    for result in chain(
        scrape.measure(), filters.measure(), service.measure(), start.measure(), describe.measure()
    ):
        report(*result)


def measure_fit(name: str, inventory: Inventory, ledgers: Sequence[NodeLedger]) -> None:
    """Nodes that may fit a request: compared with one read of the columns, and with a loop."""
    request = clusters.request()
    columns = [read for table in inventory.columns() for read in table[:3]]
    look, bare = medians(
        lambda: inventory.mask(request), lambda: [np.bitwise_or.reduce(c, None) for c in columns]
    )
    report(name, look * 1e6, "us", "bare_read", look / bare)
    (whole,) = medians(lambda: inventory.candidates(request))
    (looped,) = medians(lambda: oracle(request, ledgers), rounds=3)
    if inventory.candidates(request) != oracle(request, ledgers):
        sys.exit(f"{name}: the columns and the ledgers disagree")
    report(f"{name}_versus_twin", whole * 1e6, "us", "twin", whole / looped)


def oracle(request: Request, ledgers: Sequence[NodeLedger]) -> list[str]:
    """Slow reference implementation of ``Inventory.candidates``."""
    return [ledger.node.name for ledger in ledgers if isinstance(fit(request, ledger), Placement)]


def measure_update(inventory: Inventory, ledger: NodeLedger) -> None:
    """One allocation on two cards: update of the ledger, of the inventory, and its bare writes."""
    allocation = clusters.share(ledger, [2, 5], 1 << 30, 10, "one-more")
    changed = ledger.adopt(allocation)
    views = [np.zeros((clusters.CARDS, 8_192), kind).data for kind in ("q", "b", "B")]

    def put() -> None:
        inventory.put(changed)
        inventory.put(ledger)

    def write() -> None:
        for card in (2, 5, 2, 5):
            for view in views:
                view[card, 4_096] = 1

    update, bare = medians(put, write, repeat=200)
    report("update_us", update / 2 * 1e6, "us", "bare_write", update / bare)
    (adopted,) = medians(lambda: ledger.adopt(allocation), repeat=200)
    report("book_us", adopted * 1e6, "us")


def measure_memory(inventory: Inventory, ledgers: Sequence[NodeLedger]) -> None:
    """Memory of the inventory, without and with its indexes; ledgers are not counted."""
    cards = len(ledgers) * clusters.CARDS
    columns = sum(numbers.nbytes for table in inventory.columns() for numbers in table)
    report("bytes_per_card", columns / cards, "B")
    tracemalloc.start()
    extra = Inventory(ledgers)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    report("index_bytes_per_card", (taken - columns) / cards, "B")
    del extra


def measure_schedule(nodes: int, pods: int) -> None:
    """The whole command, from manifests to report, with three dialects mixed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_text(json.dumps(manifests.cluster(nodes, pods)))
        command: list[str | Path] = [COMMAND, "schedule", "-f", file, "-o", "json"]
        (whole,) = medians(lambda: placed(command, pods), rounds=3)
    report(f"schedule_{pods}_pods_per_s", pods / whole, "1/s")


def measure_start() -> None:
    """The start of the command: seconds and processor time of ``--version``, and of a small run."""
    version: list[str | Path] = [COMMAND, "--version"]
    (start,) = medians(lambda: subprocess.check_output(version), rounds=3)  # noqa: S603
    report("command_start_ms", start * 1e3, "ms")
    report("command_start_cpu_ms", processor_time(version) * 1e3, "ms")
    small: list[str | Path] = [COMMAND, "schedule", "-f", EXAMPLE, "-o", "json"]
    report("schedule_small_cpu_ms", processor_time(small) * 1e3, "ms")


def processor_time(command: Sequence[str | Path], rounds: int = 7) -> float:
    """Median seconds of processor time of a command; status 1 means that some pods do not fit.

    With bytecode, which an installed package and the images have: to compile ours takes a quarter.
    """
    spent: list[float] = []
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, check=False, env=environment)  # noqa: S603
        if done.returncode not in (0, 1):
            sys.exit(f"{command}: {done.stderr.decode()}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return statistics.median(spent)


def measure_sync() -> None:
    """The first sync of 20,000 pods and 5,000 nodes, every object kept as it was read."""
    syncs = [sync.measure(pods=20_000, nodes=5_000) for _ in range(3)]
    report("sync_20k_pods_s", statistics.median(each.seconds for each in syncs), "s")
    report("sync_20k_pods_cpu_s", statistics.median(each.processor for each in syncs), "s")
    report("sync_20k_pods_mib", statistics.median(each.mib for each in syncs), "MiB")
    report("sync_20k_pods_rest_mib", statistics.median(each.rest for each in syncs), "MiB")


def placed(command: Sequence[str | Path], pods: int) -> None:
    """Run the command and check that it placed all pods."""
    report = json.loads(subprocess.check_output(command))  # noqa: S603
    if sum(pod["placed"] for pod in report["pods"]) != pods:
        sys.exit("not all pods were placed")


def medians(*calls: Callable[[], object], rounds: int = ROUNDS, repeat: int = 1) -> list[float]:
    """Median seconds of each call; calls alternate, so that noise affects all of them equally."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, seconds in zip(calls, times, strict=True):
            start = perf_counter()
            for _ in range(repeat):
                call()
            seconds.append((perf_counter() - start) / repeat)
    return [statistics.median(seconds) for seconds in times]


def report(
    bench: str, value: float, unit: str, versus: str | None = None, ratio: float | None = None
) -> None:
    """Print one result, rounded to three digits."""
    line: dict[str, object] = {"bench": bench, "value": digits(value), "unit": unit}
    if ratio is not None:
        line |= {"versus": versus, "ratio": digits(ratio)}
    print(json.dumps(line), flush=True)


def digits(number: float) -> float:
    """A number rounded to three significant digits."""
    return float(f"{number:.3g}")


if __name__ == "__main__":
    main()
