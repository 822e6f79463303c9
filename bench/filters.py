"""Processor time of one filter call, bytes in to bytes out, compared with a naive implementation.

Only the computation: no port, no TLS. Each call has a new pod uid and the names in another order,
and before each of them another replica's write changes the ledger of one node, as between the
filters of a real scheduler.
"""

import asyncio
import json
import statistics
import sys
from collections.abc import Iterator
from time import process_time

import clusters
import served
import service

from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.standalone import LocalCluster
from adapters.stores.store import Change, Stored
from core.ledger.node_ledger import NodeLedger

ROUNDS = 25


def measure() -> Iterator[service.Result]:
    """Each size compared with the naive implementation, and the largest size with 5,000 nodes."""
    yield from asyncio.run(_measure())


async def _measure() -> Iterator[service.Result]:
    clusters_of = {nodes: clusters.ledgers(nodes, "volcano") for nodes in service.SIZES}
    names = {nodes: [one.node.name for one in found] for nodes, found in clusters_of.items()}
    services = {
        nodes: await served.composed(found, LocalCluster()) for nodes, found in clusters_of.items()
    }
    flows = {nodes: KubeExtender(made) for nodes, made in services.items()}
    ours: dict[int, list[float]] = {nodes: [] for nodes in service.SIZES}
    plain: dict[int, list[float]] = {nodes: [] for nodes in service.SIZES}
    for turn in range(ROUNDS):
        for nodes, flow in flows.items():
            services[nodes].ledgers.apply(change(clusters_of[nodes], turn))
            body = service.question(names[nodes], f"pod-{turn}")
            start = process_time()
            answer = await flow.filter(body)
            middle = process_time()
            also = naive(body, clusters_of[nodes])
            plain[nodes].append(process_time() - middle)
            ours[nodes].append(middle - start)
            if {*json.loads(answer)["NodeNames"]} != {*json.loads(also)["NodeNames"]}:
                sys.exit(f"filter_{nodes}_cpu: the service and the naive answer disagree")
    middles = {nodes: statistics.median(times) for nodes, times in ours.items()}
    results: list[service.Result] = []
    for nodes, mine in middles.items():
        ratio = mine / statistics.median(plain[nodes])
        results.append((f"filter_{nodes}_cpu", mine * 1e3, "ms", "naive", ratio))
    growth = middles[12_500] / middles[5_000]
    results.append(("filter_cpu_growth", middles[12_500] * 1e3, "ms", "filter_5000_cpu", growth))
    return iter(results)


def change(ledgers: list[NodeLedger], turn: int) -> Change:
    """Another replica's write: a node gets a small share, which also replaces its list item."""
    at = turn % len(ledgers)
    share = clusters.share(ledgers[at], [turn % clusters.CARDS], 1 << 20, 0, f"change-{turn}")
    ledgers[at] = ledgers[at].adopt(share)
    return Change(ledgers[at].node.name, Stored(ledgers[at], f"change-{turn}"))


def naive(content: bytes, ledgers: list[NodeLedger]) -> bytes:
    """A naive implementation: parse the whole body, visit every card of every node as an object."""
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
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True):
            if (
                card.healthy
                and use.slots < card.slots
                and card.memory - use.memory >= memory
                and 100 - use.compute >= compute
                and not any(holder.exclusive or holder.blocked for holder in use.shares)
            ):
                free += 1
        if free >= count:
            fitting.append(name)
        else:
            failed[name] = f"{len(ledger.node.cards) - free}/{len(ledger.node.cards)} cards"
    return json.dumps({"Nodes": None, "NodeNames": fitting, "FailedNodes": failed}).encode()
