"""Time to create the ledgers of many nodes, concurrently and one after the other.

The store simulates an API server that answers after three milliseconds.
"""

import asyncio
import json
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import msgspec
import served
import service
import sync

from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.observe.decision_log import StructuredDecisionLog, logger
from adapters.service.observe.metrics import Metrics
from adapters.service.reconcile import work_queue
from adapters.service.reconcile.nodes.controller import Reconciler
from adapters.service.standalone import LocalCluster
from adapters.stores.memory import MemoryStore
from adapters.stores.store import Stored
from adapters.wire.kube import KubeNode
from core.ledger.node_ledger import NodeLedger

NODES = 1_000
ANSWER = 0.003
"""Seconds until the store answers."""


class DistantStore(MemoryStore):
    """Answers after ``ANSWER`` seconds."""

    written = 0

    async def read(self, node: str) -> Stored | None:
        """Implements ``Store.read``."""
        await asyncio.sleep(ANSWER)
        return await super().read(node)

    async def write(self, ledger: NodeLedger, expected: str | None) -> str:
        """Implements ``Store.write``."""
        await asyncio.sleep(ANSWER)
        self.written += 1
        return await super().write(ledger, expected)


def measure() -> Iterator[service.Result]:
    """Both ways; each result as arguments of ``run.report``."""
    concurrent, limit = asyncio.run(_seconds()), work_queue.LIMIT
    work_queue.LIMIT = 1
    sequential = asyncio.run(_seconds())
    work_queue.LIMIT = limit
    yield f"describe_{NODES}_nodes_s", concurrent, "s", "one_by_one", concurrent / sequential


async def _seconds() -> float:
    cache, store, cluster = ClusterCache(), DistantStore(), LocalCluster()
    made = await served.composed([], cluster)
    live: Any = cluster
    reconciler = Reconciler(
        made, cache, store, live, StructuredDecisionLog(logger("error", "json"), Metrics())
    )
    for number in range(NODES):
        cache.put_node(_node(number))
    started = perf_counter()
    running = asyncio.create_task(reconciler.run())
    while store.written < NODES:
        await asyncio.sleep(0.001)
    running.cancel()
    return perf_counter() - started


def _node(number: int) -> KubeNode:
    found = msgspec.json.decode(json.dumps(sync.node(number)), type=KubeNode)
    cards = "".join(f"GPU-{number}-{at},10,81920,NVIDIA-A100,true,hami-core:" for at in range(8))
    annotations = {"volcano.sh/node-vgpu-register": cards}
    metadata = msgspec.structs.replace(found.metadata, annotations=annotations)
    return msgspec.structs.replace(found, metadata=metadata)
