"""The service of the measurements: composed in process, or a process of its own with a port.

    python bench/served.py NODES FOLDER

serves NODES nodes, or one node for a storm of binds where NODES is 0, with a certificate that it
writes to FOLDER. It prints its port. Its ledgers change 500 times a second, except in a storm.
"""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import clusters
import uvloop

from adapters.dialects.dialect import Defaults
from adapters.dialects.registry import dialects
from adapters.service.certificates.tls_context import CertificateFiles
from adapters.service.decide.ports import Ports
from adapters.service.decide.service import Service
from adapters.service.observe.decision_log import StructuredDecisionLog, logger
from adapters.service.observe.metrics import Metrics
from adapters.service.runtime import Cluster, ServiceRuntime, SystemClock, settle
from adapters.service.settings.settings import Log, Settings
from adapters.service.standalone import LocalCluster
from adapters.service.web import server
from adapters.service.web.app import Answer, Call, Route
from adapters.stores.memory import MemoryStore
from adapters.wire.kube import Container, Metadata, Pod, PodSpec, Resources
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.request import PodRef

EVENTS = 500
"""Ledger changes per second."""

PODS = 100
"""Pods of a storm, ``p0`` and on, for its node ``storm``."""


async def composed(ledgers: list[NodeLedger], table: LocalCluster) -> Service:
    """A service without a port."""
    store, metrics = MemoryStore(), Metrics()
    for ledger in ledgers:
        await store.write(ledger, None)
    journal = StructuredDecisionLog(logger("error", "json"), metrics)
    ports = Ports(
        store=store,
        binder=table,
        pods=table,
        events=table,
        clock=SystemClock(),
        decision_log=journal,
    )
    service = Service(dialects({}, Defaults()), ports)
    service.ledgers.load(await store.load())
    service.readiness.mark_synced("ledgers")
    settle()
    return service


class CountingStore(MemoryStore):
    """Counts writes, and writes that failed by a conflict."""

    writes = 0
    conflicts = 0

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """Implements ``Store.write``."""
        type(self).writes += 1
        try:
            return await super().write(ledger, expected)
        except Exception:
            type(self).conflicts += 1
            raise


class CountingCluster(LocalCluster):
    """Counts the Bindings."""

    bindings = 0

    async def bind(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str],
        version: str = "",
    ) -> None:
        """Implements ``Binder.bind``."""
        type(self).bindings += 1
        await super().bind(pod, node, annotations, labels, version)


async def serve(nodes: int, folder: Path) -> None:
    """Print the port and serve until killed."""
    ledgers = clusters.ledgers(nodes, "volcano") if nodes else [roomy()]
    store = CountingStore()
    for ledger in ledgers:
        await MemoryStore.write(store, ledger, None)
    table = CountingCluster([] if nodes else [small(number) for number in range(PODS)])
    settings = Settings(listen="127.0.0.1:0", log=Log(level="error"))
    log = logger("error", "json")
    runtime = ServiceRuntime(
        settings, {}, store, Cluster(binder=table, pods=table, events=table), log
    )
    await runtime.load()

    async def counted(_: Call) -> Answer:
        writes = CountingStore.writes + CountingCluster.bindings
        counts = {"writes": writes, "conflicts": CountingStore.conflicts}
        return Answer(json.dumps(counts).encode())

    listener = server.listener(settings.listen)
    app = runtime.app({("GET", "/counted"): Route(counted)})
    port = listener.getsockname()[1]
    one = server.server(app, certificate(folder), lambda: print(port, flush=True))
    tasks = [runtime.follow()] + ([change(store, ledgers)] if nodes else [])
    running = [asyncio.create_task(task) for task in tasks]
    await one.serve(sockets=[listener])
    del running


async def change(store: MemoryStore, ledgers: list[NodeLedger]) -> None:
    """Write as another service would: add and release small allocations."""
    seed = random.Random(1)  # noqa: S311
    known = {ledger.node.name: (ledger, str(at + 1)) for at, ledger in enumerate(ledgers)}
    start, done = perf_counter(), 0
    while True:
        name = seed.choice(ledgers).node.name
        ledger, version = known[name]
        changed = ledger.release("event")
        if changed is ledger:
            share: Allocation = clusters.share(ledger, [0], 1 << 20, 0, "event")
            changed = ledger.adopt(share)
        known[name] = (changed, await store.write(changed, version))
        done += 1
        # A server that was stopped does not catch up.
        start = max(start, perf_counter() - (done + 50) / EVENTS)
        await asyncio.sleep(max(start + done / EVENTS - perf_counter(), 0))


def roomy() -> NodeLedger:
    """An empty node of 16 cards."""
    node = clusters.ledgers(1, "volcano")[0].node
    cards = [
        replace(card, uuid=f"{card.uuid}-{more}", index=card.index + 8 * more, node="storm")
        for more in range(2)
        for card in node.cards
    ]
    return NodeLedger.of(replace(node, name="storm", cards=tuple(cards)))


def small(number: int) -> Pod:
    """A pod that requests a tenth of a card."""
    limits: dict[str, str | int | float] = {
        "volcano.sh/vgpu-number": 1,
        "volcano.sh/vgpu-memory": 8000,
    }
    return Pod(
        metadata=Metadata(name=f"p{number}", namespace="default", uid=f"p{number}"),
        spec=PodSpec(containers=(Container("main", Resources(limits)),)),
    )


def certificate(folder: Path) -> CertificateFiles:
    """A self-signed certificate."""
    crt, key = folder / "crt", folder / "key"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=b"
    command = ["openssl", *words.split(), "-keyout", str(key), "-out", str(crt)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return CertificateFiles(crt, key, None)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
