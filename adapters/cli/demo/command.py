"""``dragoman demo``: a service with a SQLite file, called over HTTP as the schedulers call it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import as_file, files
from itertools import groupby
from pathlib import Path

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from adapters.answer.judge import finished
from adapters.answer.node_rules import NodeChooser
from adapters.cli.demo.schedulers import (
    Json,
    RejectionError,
    SchedulerClient,
    kube_preempt,
    name_of,
    schedule,
    scheduler_of,
)
from adapters.cli.input.origin import read_files
from adapters.cli.input.source import InputError
from adapters.cli.output.report import CardLine, Sharer
from adapters.cli.output.table import WIDE, color, write_cards
from adapters.cli.output.terminal import message, terminal_page
from adapters.wire.kube import Amount, Metadata, Pod, Resources
from adapters.wire.visible import visible, visible_lines
from core.hardware.card import Card
from core.hardware.quantity import MIB

EXAMPLE = files("adapters.cli.demo").joinpath("mixed.yaml")
"""A copy of configs/examples/mixed.yaml, which an installed package does not have."""

PRIORITY = 1000
"""The priority of the last pod, which evicts others."""


def demo(inventory: str | None) -> None:
    """Run the demonstration with a file, or with the example; exit status 2 for a bad file."""
    with as_file(EXAMPLE) as example:
        file = inventory or str(example)
        try:
            found = read_files([file])
        except InputError as error:
            message("dragoman", error)
            raise typer.Exit(2) from None
        nodes = NodeChooser({name: node for name, (node, _) in found.nodes.items()})
        waiting = [pod for pod, _ in found.pods.values() if not pod.spec.node_name]
        with _service(file) as address:
            _Demonstration(address, nodes, waiting).run()


@contextmanager
def _service(inventory: str) -> Iterator[str]:
    """Run a service on a free port of this machine, and end it with a signal, as a cluster does."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:{Path(folder, 'ledger.db')}"
        options = ["-f", inventory, "--store", store, "--listen", "127.0.0.1:0"]
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-P", "-m", "dragoman", "serve", *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "DRAGOMAN_GRPC": "off"},
            )
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise SystemExit(visible_lines(Path(folder, "log").read_text()))
            yield line.split()[-1]
        finally:
            process.terminate()
            process.wait(10)


class _Demonstration:
    def __init__(self, address: str, nodes: NodeChooser, waiting: Sequence[Pod]) -> None:
        self.address = address
        self.nodes = nodes
        self.waiting = waiting
        self.client = SchedulerClient(address)
        self.console = Console(highlight=False, emoji=False, markup=False)
        self.rejected: list[Pod] = []

    def run(self) -> None:
        self._print(f"A service with a SQLite ledger listens on {self.address}.")
        self._print("The API server creates pods; admission validates each one:", "bold")
        created: list[Pod] = []
        for pod in self.waiting:
            try:
                created.append(self.client.create(pod))
            except RejectionError as rejection:
                self._line("✗", "red", name_of(pod), "admission", str(rejection))
        self._print("\nTwo schedulers work at the same time, each with its own protocol:", "bold")
        self._schedule(created)
        self._show()
        self._print("\nAn urgent pod requests a whole card:", "bold")
        self._preempt(created)
        self._print("\nTwo pods end, and a scheduler retries a pod that did not fit:", "bold")
        for name in ("koord-lab", "metax-lab"):
            freed = self.client.delete(f"default/{name}")
            self._line("-", "cyan", name, "deleted", f"its share of {', '.join(freed)} is free")
        for pod in self.rejected:
            self._place(self.client, pod)
        self._show()
        pods = self._get("/api/pods")
        over = [
            one["uuid"]
            for one in self._get("/api/cards")
            if one["usedMemoryMiB"] > one["memoryMiB"] or one["usedCompute"] > 100
        ]
        summary = f"\n{len(pods)} pods have cards, {len(over)} cards are over-allocated"
        self._print(f"{summary}; the service stops.", "green" if not over else "red")

    def _schedule(self, pods: Sequence[Pod]) -> None:
        """Schedule the pods of each scheduler in their order, both schedulers at the same time.

        They go step by step, and the last pod of each comes in the last step: which pod gets a
        card that two request is then the same in every run.
        """

        def is_volcano(pod: Pod) -> bool:
            return scheduler_of(pod) == "volcano"

        def in_steps(queue: Sequence[Pod]) -> list[Pod | None]:
            return [*queue[:-1], *[None] * (longest - len(queue)), *queue[-1:]]

        def work(client: SchedulerClient, pod: Pod | None) -> None:
            if pod is not None and not self._place(client, pod):
                self.rejected.append(pod)

        by_scheduler = sorted(pods, key=scheduler_of)
        queues = [list(queue) for _, queue in groupby(by_scheduler, key=is_volcano)]
        clients = [SchedulerClient(self.address) for _ in queues]
        longest = max(map(len, queues), default=0)
        with ThreadPoolExecutor() as threads:
            for step in zip(*(in_steps(queue) for queue in queues), strict=True):
                list(threads.map(work, clients, step))

    def _place(self, client: SchedulerClient, pod: Pod) -> bool:
        try:
            node = schedule(client, pod, finished(self.nodes.steps(pod)).selection.names)
        except RejectionError as rejection:
            self._line("✗", "red", name_of(pod), scheduler_of(pod), str(rejection))
            return False
        self._line("✓", "green", name_of(pod), scheduler_of(pod), f"bound to {node}")
        return True

    def _preempt(self, pods: Sequence[Pod]) -> None:
        """Create a copy of a Volcano pod that requests one whole card, of a higher priority."""
        replace = msgspec.structs.replace
        model = next(pod for pod in pods if pod.metadata.name == "volcano-notebook")
        limits: dict[str, Amount] = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 100}
        container = replace(model.spec.containers[0], resources=Resources(limits))
        spec = replace(
            model.spec, containers=(container,), priority=PRIORITY, scheduler_name="kube-scheduler"
        )
        meta = Metadata(name="volcano-urgent", namespace=model.metadata.namespace)
        pod = self.client.create(replace(model, metadata=meta, spec=spec))
        names = finished(self.nodes.steps(pod)).selection.names
        if self._place(self.client, pod):
            return
        node, uids = kube_preempt(self.client, pod, names)
        known = {one["uid"]: f"{one['namespace']}/{one['name']}" for one in self._get("/api/pods")}
        victims = [known[uid] for uid in uids]
        self._line("!", "yellow", name_of(pod), "preempt", f"evicts {', '.join(victims)} on {node}")
        for victim in victims:
            self.client.delete(victim)
        self._place(self.client, pod)

    def _show(self) -> None:
        self._print("")
        lines: list[CardLine] = []
        for one in self._get("/api/cards"):
            card = Card(
                uuid=one["uuid"],
                node=one["node"],
                index=one["index"],
                vendor=one["vendor"],
                model=one["model"],
                memory=one["memoryMiB"] * MIB,
                slots=one["slots"],
                dialects=frozenset(one["dialects"]),
            )
            sharers = tuple(
                Sharer(s["pod"], s["dialect"], s["memoryMiB"] * MIB, s["compute"], s["blocking"])
                for s in one["sharers"]
            )
            lines.append(CardLine(card, one["usedMemoryMiB"] * MIB, one["usedCompute"], sharers))
        write_cards(lines, terminal_page(self.console))

    def _get(self, path: str) -> Json:
        return self.client.call("GET", path)

    def _line(self, mark: str, style: str, pod: str, component: str, text: str) -> None:
        pod, component, text = map(visible, (pod, component, text))
        dialect = pod.partition("-")[0].replace("koord", "koordinator")
        line = Text(f"  {mark} ", style=style)
        line.append(f"{pod:<18} ", style=color(dialect) if "-" in pod else "bold")
        first, *more = text.split("; ") if mark == "✗" and self.console.width < WIDE else [text]
        line.append(f"{component:<16} ", style="grey50").append(first, style="default")
        self.console.print(line, *(f"{'':<40}{part}" for part in more), sep="\n", soft_wrap=True)

    def _print(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style))
