"""Cost of the service: latency of filter calls over TLS, and a storm of binds.

The server is a process of its own: ``served``.
"""

import json
import os
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import clusters
import sync
from served import PODS

Server = subprocess.Popen[str]

Result = tuple[str, float, str, str | None, float | None]
"""Name, value, unit, what it is compared with, and the ratio."""

CALLS = 200
"""Calls in one block."""

BLOCKS = 3
SIZES = (500, 5_000, 12_500)
CLIENTS = 8
LIMITS: Mapping[str, str | int | float] = {
    "volcano.sh/vgpu-number": 2,
    "volcano.sh/vgpu-memory": 49_152,
    "volcano.sh/vgpu-cores": 30,
}


def measure() -> Iterator[Result]:
    """All measurements; each result as arguments of ``run.report``."""
    yield from latencies_by_size()
    yield from whole_nodes(5_000)
    writes, conflicts, seconds = storm()
    yield "storm_100_s", seconds, "s", None, None
    yield "storm_100_conflicts", conflicts, "", None, None
    yield "bind_api_writes", writes, "", None, None


def latencies_by_size() -> Iterator[Result]:
    """Filters over TLS; sizes alternate in blocks, so that noise affects all of them equally."""
    with ExitStack() as stack:
        servers = {nodes: stack.enter_context(serving(nodes)) for nodes in SIZES}
        found: dict[int, list[float]] = {nodes: [] for nodes in SIZES}
        used: dict[int, list[float]] = {nodes: [] for nodes in SIZES}
        for _ in range(BLOCKS):
            for nodes, (port, process) in servers.items():
                with only(process, [other for _, other in servers.values()]):
                    times, seconds = latencies(port, nodes, process.pid)
                found[nodes] += times
                used[nodes].append(seconds / len(times))
        size = rss(servers[5_000][1].pid)
    middle = {nodes: statistics.median(times) for nodes, times in found.items()}
    for nodes, times in found.items():
        late = sorted(times)[int(len(times) * 0.99)]
        yield f"filter_{nodes}_p50_ms", middle[nodes] * 1e3, "ms", None, None
        yield f"filter_{nodes}_p99_ms", late * 1e3, "ms", "p50", late / middle[nodes]
        cpu = statistics.median(used[nodes])
        yield f"filter_{nodes}_server_cpu_ms", cpu * 1e3, "ms", None, None
    growth = middle[12_500] / middle[5_000]
    yield "filter_growth", middle[12_500] * 1e3, "ms", "filter_5000_p50_ms", growth
    yield "service_rss_mib", size, "MiB", None, None


def whole_nodes(nodes: int) -> Iterator[Result]:
    """Filters whose body contains whole nodes: latency, and growth of the process."""
    items = b",".join(json.dumps(sync.node(number)).encode() for number in range(nodes))
    in_full = b'"Nodes":{"items":[%b]},"NodeNames":null' % items
    times: list[float] = []
    with serving(nodes) as (port, process):
        connection = connect(port)
        for turn in range(14):
            names_only = question([], f"pod-{turn}")
            body = names_only.replace(b'"Nodes":null,"NodeNames":[]', in_full)
            start = perf_counter()
            ask(connection, "/extender/filter", body)
            times.append(perf_counter() - start)
            if turn == 3:
                before = rss(process.pid)
        grown = rss(process.pid) - before
    megabytes = len(body) / (1 << 20)
    yield f"filter_whole_{nodes}_mib", megabytes, "MiB", None, None
    yield f"filter_whole_{nodes}_ms", statistics.median(times) * 1e3, "ms", None, None
    yield f"filter_whole_{nodes}_grown_mib", grown, "MiB", None, None


def latencies(port: int, nodes: int, pid: int) -> tuple[list[float], float]:
    """Latencies in seconds of sequential filters with shuffled names on one TLS connection.

    Returns:
        the latencies, and the processor seconds that the server used for them.
    """
    names = [clusters.name(number) for number in range(nodes)]
    connection = connect(port)
    for number in range(10):  # warm up
        ask(connection, "/extender/filter", question(names, f"warm-{number}"))
    times: list[float] = []
    used = processor(pid)
    for _ in range(CALLS):
        body = question(names, str(uuid4()))
        start = perf_counter()
        ask(connection, "/extender/filter", body)
        times.append(perf_counter() - start)
    return times, processor(pid) - used


def storm() -> tuple[float, float, float]:
    """100 pods, one node, 8 clients: writes per pod, conflicts, seconds until all are bound."""
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


def question(names: list[str], uid: str) -> bytes:
    """Body of a filter call, with a new pod that fits two thirds of the nodes."""
    pod = {
        "metadata": {"name": "new", "namespace": "default", "uid": uid},
        "spec": {"containers": [{"name": "main", "resources": {"limits": dict(LIMITS)}}]},
    }
    body = {"Pod": pod, "Nodes": None, "NodeNames": clusters.in_another_order(names, uid)}
    return json.dumps(body, separators=(",", ":")).encode()  # as Go writes it


def connect(port: int) -> HTTPSConnection:
    """A connection that accepts every certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return HTTPSConnection("127.0.0.1", port, context=context, timeout=30)


def ask(connection: HTTPSConnection, path: str, content: bytes, method: str = "POST") -> Any:
    """Send one request and parse the response."""
    connection.request(method, path, content)
    answer = connection.getresponse()
    return json.loads(answer.read())


def processor(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def only(chosen: Server, others: Iterable[Server]) -> Iterator[None]:
    """Stop all servers but one for the duration of a block."""
    for other in others:
        other.send_signal(signal.SIGSTOP if other is not chosen else signal.SIGCONT)
    try:
        yield
    finally:
        for other in others:
            other.send_signal(signal.SIGCONT)


def rss(pid: int) -> float:
    """Resident MiB of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)


@contextmanager
def serving(nodes: int) -> Iterator[tuple[int, Server]]:
    """A server process with this many nodes; 0 means one node and 100 pods for it."""
    program = Path(__file__).with_name("served.py")
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, program, str(nodes), folder], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None  # noqa: S101
            yield int(process.stdout.readline()), process
        finally:
            process.terminate()
            process.communicate()


if __name__ == "__main__":
    for result in measure():
        print(result)
