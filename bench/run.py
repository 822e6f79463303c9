"""Measure what the design promises; one JSON object a line.

``value`` is a median. ``ratio``, where there is one, is ``value`` divided by what ``versus`` took
in the same run: machines differ and are noisy, ratios much less so.
"""

import gc
import json
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
import service
import sync

from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Placement
from core.requests.request import Request

SIZES = {"fit_8k": 1_000, "fit_40k": 5_000, "fit_100k": 12_500}
ROUNDS = 41
COMMAND = Path(sys.executable).with_name("dragoman")


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
    node.measure(tell)
    measure_sync()
    for result in chain(filters.measure(), service.measure(), describe.measure()):
        tell(*result)


def measure_fit(name: str, inventory: Inventory, ledgers: Sequence[NodeLedger]) -> None:
    """Which nodes a request may fit: against reading the columns once, and against asking each."""
    request = clusters.request()
    columns = [read for table in inventory.columns() for read in table[:3]]
    look, bare = medians(
        lambda: inventory.mask(request), lambda: [np.bitwise_or.reduce(c, None) for c in columns]
    )
    tell(name, look * 1e6, "us", "bare_read", look / bare)
    (whole,) = medians(lambda: inventory.candidates(request))
    (twin,) = medians(lambda: twins(request, ledgers), rounds=3)
    if inventory.candidates(request) != twins(request, ledgers):
        sys.exit(f"{name}: the columns and the ledgers disagree")
    tell(f"{name}_versus_twin", whole * 1e6, "us", "twin", whole / twin)


def twins(request: Request, ledgers: Sequence[NodeLedger]) -> list[str]:
    """The slow twin of ``Inventory.candidates``."""
    return [ledger.node.name for ledger in ledgers if isinstance(fit(request, ledger), Placement)]


def measure_update(inventory: Inventory, ledger: NodeLedger) -> None:
    """One allocation on two cards: the ledger's change, the mirror's, and its bare writes."""
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
    tell("update_us", update / 2 * 1e6, "us", "bare_write", update / bare)
    (book,) = medians(lambda: ledger.adopt(allocation), repeat=200)
    tell("book_us", book * 1e6, "us")


def measure_memory(inventory: Inventory, ledgers: Sequence[NodeLedger]) -> None:
    """What the mirror takes, without and with its indexes; the ledgers themselves not counted."""
    cards = len(ledgers) * clusters.CARDS
    columns = sum(numbers.nbytes for table in inventory.columns() for numbers in table)
    tell("bytes_per_card", columns / cards, "B")
    tracemalloc.start()
    mirror = Inventory(ledgers)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    tell("index_bytes_per_card", (taken - columns) / cards, "B")
    del mirror


def measure_schedule(nodes: int, pods: int) -> None:
    """The whole command, from manifests to report, three vocabularies mixed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_text(json.dumps(manifests.cluster(nodes, pods)))
        command: list[str | Path] = [COMMAND, "schedule", "-f", file, "-o", "json"]
        (whole,) = medians(lambda: placed(command, pods), rounds=3)
        (start,) = medians(
            lambda: subprocess.check_output([COMMAND, "--version"]),  # noqa: S603
            rounds=3,
        )
    tell(f"schedule_{pods}_pods_per_s", pods / whole, "1/s")
    tell("command_start_ms", start * 1e3, "ms")


def measure_sync() -> None:
    """The first sync of 20,000 pods and 5,000 nodes, every object kept as it was read."""
    syncs = [sync.measure(pods=20_000, nodes=5_000) for _ in range(3)]
    tell("sync_20k_pods_s", statistics.median(each.seconds for each in syncs), "s")
    tell("sync_20k_pods_cpu_s", statistics.median(each.processor for each in syncs), "s")
    tell("sync_20k_pods_mib", statistics.median(each.mib for each in syncs), "MiB")
    tell("sync_20k_pods_rest_mib", statistics.median(each.rest for each in syncs), "MiB")


def placed(command: Sequence[str | Path], pods: int) -> None:
    """Run the command, and see that it has placed all pods."""
    report = json.loads(subprocess.check_output(command))  # noqa: S603
    if sum(pod["placed"] for pod in report["pods"]) != pods:
        sys.exit("not all pods were placed")


def medians(*calls: Callable[[], object], rounds: int = ROUNDS, repeat: int = 1) -> list[float]:
    """Median seconds of each call; they take turns, so that noise meets all of them alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, times, strict=True):
            start = perf_counter()
            for _ in range(repeat):
                call()
            taken.append((perf_counter() - start) / repeat)
    return [statistics.median(taken) for taken in times]


def tell(
    bench: str, value: float, unit: str, versus: str | None = None, ratio: float | None = None
) -> None:
    """Print one result, to three digits."""
    line: dict[str, object] = {"bench": bench, "value": digits(value), "unit": unit}
    if ratio is not None:
        line |= {"versus": versus, "ratio": digits(ratio)}
    print(json.dumps(line), flush=True)


def digits(number: float) -> float:
    """A number to three digits."""
    return float(f"{number:.3g}")


if __name__ == "__main__":
    main()
