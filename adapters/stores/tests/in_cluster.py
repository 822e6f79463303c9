"""The conformance suite's place in a real cluster."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeconfigSource, load
from adapters.cluster.api.paths import NODE_LEDGERS, Selection
from adapters.cluster.watch.object_tracker import EventHandler
from adapters.cluster.watch.reflector import Reflector
from adapters.stores.kubernetes import KubernetesStore
from adapters.stores.store import Store
from adapters.wire.records.ledger import LedgerObject


class InCluster:
    """The NodeLedgers of a cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self._source = KubeconfigSource(kubeconfig)
        self.address: str | None = f"kubernetes:{kubeconfig}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        client = KubeClient(load(self._source))
        store = KubernetesStore(client, lambda sink: follow(client, sink))
        yield store
        await store.close()
        await _part(client)

    async def spoil(self, node: str, record: bytes) -> None:
        client = KubeClient(load(self._source))
        path = NODE_LEDGERS.path(node)
        there = msgspec.json.decode(await client.get(path))
        await client.replace(path, {**there, "spec": msgspec.Raw(record)})
        await _part(client)


async def _part(client: KubeClient) -> None:
    await client.close()
    await asyncio.sleep(0.1)  # a TLS connection is closed some turns of the loop later


def follow(client: KubeClient, sink: EventHandler[LedgerObject]) -> Coroutine[object, object, None]:
    """Follow the ledgers as the service does."""
    return Reflector(client, Selection(NODE_LEDGERS), LedgerObject, sink).run()
