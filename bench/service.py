"""What the service costs: a filter beside a naive one, its times over TLS, a storm of binds.

Server and client are processes of their own. The server's ledgers change 500 times a second.
"""

import asyncio
import json
import random
import ssl
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import clusters

from adapters.dialects.dialect import Defaults
from adapters.dialects.registry import dialects
from adapters.sidecar import server
from adapters.sidecar.clock import SystemClock
from adapters.sidecar.journal import Journal, logger
from adapters.sidecar.kube_flow import KubeFlow
from adapters.sidecar.local import LocalCluster
from adapters.sidecar.metrics import Metrics
from adapters.sidecar.runtime import Cluster, Runtime, settle
from adapters.sidecar.service import Ports, Service
from adapters.sidecar.settings import Log, Settings, Tls
from adapters.sidecar.tls import Certificate
from adapters.stores.memory import MemoryStore
from adapters.wire.kube import Container, Metadata, Pod, PodSpec, Resources
from core.grant import Allocation
from core.ledger import NodeLedger

Result = tuple[str, float, str, str | None, float | None]
"""Name, value, unit; and beside what it was measured, and the ratio."""

EVENTS = 500
"""Changes of ledgers in a second while latencies are measured."""

CALLS = 400
PODS = 100
CLIENTS = 8
LIMITS: Mapping[str, str | int | float] = {
    "volcano.sh/vgpu-number": 2,
    "volcano.sh/vgpu-memory": 49_152,
    "volcano.sh/vgpu-cores": 30,
}


def measure() -> Iterator[Result]:
    """All of it; each result as ``run.tell`` takes it."""
    yield asyncio.run(filter_cpu(5_000))
    for nodes in (500, 5_000, 12_500):
        with serving(nodes) as (port, process):
            times = sorted(latencies(port, nodes))
            yield f"filter_{nodes}_p50_ms", statistics.median(times) * 1e3, "ms", None, None
            yield f"filter_{nodes}_p99_ms", times[int(len(times) * 0.99)] * 1e3, "ms", None, None
            if nodes == 5_000:
                yield "service_rss_mib", rss(process.pid), "MiB", None, None
    writes, conflicts, seconds = storm()
    yield "storm_100_s", seconds, "s", None, None
    yield "storm_100_conflicts", conflicts, "", None, None
    yield "bind_api_writes", writes, "", None, None


async def filter_cpu(nodes: int) -> Result:
    """Processor time of one filter, bytes in to bytes out, beside the naive way to answer it."""
    ledgers = clusters.ledgers(nodes, "volcano")
    flow = KubeFlow(await composed(ledgers, LocalCluster()))
    content = question([ledger.node.name for ledger in ledgers])
    ours: list[float] = []
    plain: list[float] = []
    for _ in range(15):
        start = process_time()
        found = json.loads(await flow.filter(content))
        middle = process_time()
        also = json.loads(naive(content, ledgers))
        plain.append(process_time() - middle)
        start = process_time()
        await flow.filter(content)
        ours.append(process_time() - start)
        if found["NodeNames"] != also["NodeNames"]:
            sys.exit("filter_5000_cpu: the service and the naive answer disagree")
    mine, theirs = statistics.median(ours), statistics.median(plain)
    return "filter_5000_cpu", mine * 1e3, "ms", "naive", mine / theirs


def naive(content: bytes, ledgers: list[NodeLedger]) -> bytes:
    """What one writes first: a dictionary of the body, every card of every node as an object."""
    args = json.loads(content)
    limits = args["Pod"]["spec"]["containers"][0]["resources"]["limits"]
    count = int(limits["volcano.sh/vgpu-number"])
    memory = int(limits["volcano.sh/vgpu-memory"]) << 20
    compute = int(limits["volcano.sh/vgpu-cores"])
    known = {ledger.node.name: ledger for ledger in ledgers}
    fitting: list[str] = []
    failed: dict[str, str] = {}
    for name in args["NodeNames"]:
        ledger = known[name]
        free = 0
        for card, use in zip(ledger.node.cards, ledger.uses, strict=True):
            if (
                card.healthy
                and use.slots < card.slots
                and card.memory - use.memory >= memory
                and 100 - use.compute >= compute
                and not any(holder.exclusive or holder.blocked for holder in use.holders)
            ):
                free += 1
        if free >= count:
            fitting.append(name)
        else:
            failed[name] = f"{len(ledger.node.cards) - free}/{len(ledger.node.cards)} cards"
    return json.dumps({"Nodes": None, "NodeNames": fitting, "FailedNodes": failed}).encode()


def latencies(port: int, nodes: int) -> list[float]:
    """Seconds of filters with all names, one after the other on one TLS connection."""
    content = question([f"node-{number:05}.example" for number in range(nodes)])
    connection = connect(port)
    times: list[float] = []
    for turn in range(CALLS + 20):
        start = perf_counter()
        ask(connection, "/extender/filter", content)
        if turn >= 20:  # the first ones warm it up
            times.append(perf_counter() - start)
    return times


def storm() -> tuple[float, float, float]:
    """100 pods, one node, 8 clients: writes for each pod, conflicts, seconds until all have it."""
    with serving(0) as (port, _):

        def bind(numbers: range) -> None:
            connection = connect(port)
            for number in numbers:
                body = {
                    "PodName": f"p{number}",
                    "PodNamespace": "default",
                    "PodUID": f"p{number}",
                    "Node": "storm",
                }
                if ask(connection, "/extender/bind", json.dumps(body).encode())["Error"]:
                    sys.exit(f"storm_100_s: pod {number} was not bound")

        start = perf_counter()
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(bind, (range(at, PODS, CLIENTS) for at in range(CLIENTS))))
        seconds = perf_counter() - start
        counted = ask(connect(port), "/counted", b"", "GET")
    return counted["writes"] / PODS, counted["conflicts"], seconds


def question(names: list[str]) -> bytes:
    """A filter's body, with a pod that two thirds of the nodes have room for."""
    pod = {
        "metadata": {"name": "new", "namespace": "default", "uid": "new"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": dict(LIMITS)}}]},
    }
    body = {"Pod": pod, "Nodes": None, "NodeNames": names}
    return json.dumps(body, separators=(",", ":")).encode()  # as Go writes it


def connect(port: int) -> HTTPSConnection:
    """A connection that believes every certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return HTTPSConnection("127.0.0.1", port, context=context, timeout=30)


def ask(connection: HTTPSConnection, path: str, content: bytes, method: str = "POST") -> Any:
    """What is answered."""
    connection.request(method, path, content)
    answer = connection.getresponse()
    return json.loads(answer.read())


def rss(pid: int) -> float:
    """Resident MiB of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)


@contextmanager
def serving(nodes: int) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """A server of its own with so many nodes; with none, one node and 100 pods for it."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, __file__, str(nodes), folder], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None  # noqa: S101
            yield int(process.stdout.readline()), process
        finally:
            process.terminate()
            process.communicate()


async def composed(ledgers: list[NodeLedger], table: LocalCluster) -> Service:
    """A service without a port."""
    store, metrics = MemoryStore(), Metrics()
    for ledger in ledgers:
        await store.write(ledger, None)
    journal = Journal(logger("error", "json"), metrics)
    ports = Ports(store, table, table, table, SystemClock(), journal)
    service = Service(dialects({}, Defaults()), ports)
    service.book.load(await store.load())
    service.known("ledgers")
    settle()
    return service


class CountingStore(MemoryStore):
    """Counts the writes, and those that lost."""

    writes = 0
    conflicts = 0

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """As in ``Store``."""
        type(self).writes += 1
        try:
            return await super().write(ledger, expected)
        except Exception:
            type(self).conflicts += 1
            raise


class CountingCluster(LocalCluster):
    """Counts the Bindings."""

    bindings = 0

    async def bind(self, *args: Any, **kwargs: Any) -> None:
        """As in ``ports.Binder``."""
        type(self).bindings += 1
        await super().bind(*args, **kwargs)


async def serve(nodes: int, folder: Path) -> None:
    """Serve until killed; the port is printed."""
    from adapters.sidecar.web.app import Answer, Call, Route

    ledgers = clusters.ledgers(nodes, "volcano") if nodes else [roomy()]
    store = CountingStore()
    for ledger in ledgers:
        await MemoryStore.write(store, ledger, None)
    table = CountingCluster([] if nodes else [small(number) for number in range(PODS)])
    settings = Settings(listen="127.0.0.1:0", log=Log(level="error"))
    log = logger("error", "json")
    runtime = Runtime(settings, {}, store, Cluster(table, table, table), log)
    await runtime.load()

    async def counted(_: Call) -> Answer:
        writes = CountingStore.writes + CountingCluster.bindings
        told = {"writes": writes, "conflicts": CountingStore.conflicts}
        return Answer(json.dumps(told).encode())

    listener = server.listener(settings.listen)
    app = runtime.app({("GET", "/counted"): Route(counted)})
    port = listener.getsockname()[1]
    one = server.server(app, certificate(folder), lambda: print(port, flush=True))
    tasks = [runtime.follow()] + ([change(store, ledgers)] if nodes else [])
    running = [asyncio.create_task(task) for task in tasks]
    await one.serve(sockets=[listener])
    del running


async def change(store: MemoryStore, ledgers: list[NodeLedger]) -> None:
    """Another service's writes: small shares come and go."""
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
        await asyncio.sleep(max(start + done / EVENTS - perf_counter(), 0))


def roomy() -> NodeLedger:
    """An empty node of 16 cards."""
    from dataclasses import replace

    node = clusters.ledgers(1, "volcano")[0].node
    cards = [
        replace(card, uuid=f"{card.uuid}-{more}", index=card.index + 8 * more, node="storm")
        for more in range(2)
        for card in node.cards
    ]
    return NodeLedger.of(replace(node, name="storm", cards=tuple(cards)))


def small(number: int) -> Pod:
    """A pod that asks for a tenth of a card."""
    limits: dict[str, str | int | float] = {
        "volcano.sh/vgpu-number": 1,
        "volcano.sh/vgpu-memory": 8000,
    }
    return Pod(
        metadata=Metadata(name=f"p{number}", namespace="default", uid=f"p{number}"),
        spec=PodSpec(containers=(Container("main", Resources(limits)),)),
    )


def certificate(folder: Path) -> Certificate:
    """A certificate of this machine's own."""
    crt, key = folder / "crt", folder / "key"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=b"
    command = ["openssl", *words.split(), "-keyout", str(key), "-out", str(crt)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return Certificate(Tls(certificate=crt, key=key))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        for result in measure():
            print(result)
    else:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
