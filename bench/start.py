"""The start of the service: every ledger of a large cluster read, parsed and loaded.

An API server that only sends prepared answers is a process of its own, and so is the service, as
far as it reads ledgers: reflector, store, cache, and the garbage collection at the end.
"""

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterator
from subprocess import check_output
from time import process_time

import clusters
import service
import sync

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.api.paths import NODE_LEDGERS, Selection
from adapters.cluster.watch.object_tracker import EventHandler
from adapters.cluster.watch.reflector import Reflector, WatchSettings
from adapters.service.observe.decision_log import logger
from adapters.service.runtime import Cluster, ServiceRuntime
from adapters.service.settings.settings import Log, Settings
from adapters.service.standalone import LocalCluster
from adapters.stores.kubernetes import KubernetesStore
from adapters.wire.records.ledger import LedgerObject, encode
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger

SIZES = (5_000, 50_000)
SHARE = 8 * GIB, 10


def measure(sizes: tuple[int, ...] = SIZES) -> Iterator[service.Result]:
    """Each size; the ratio is that of the processor time of a node to one of the first size."""
    first = 0.0
    for nodes in sizes:
        with sync.serving(__file__, nodes) as address:
            seconds, mib = json.loads(check_output([sys.executable, __file__, "load", address]))  # noqa: S603
        first = first or seconds / nodes
        yield f"start_{nodes}_cpu_s", seconds, "s", "start_first", seconds / nodes / first
        yield f"start_{nodes}_mib", mib, "MiB", None, None


async def _load(address: str) -> tuple[float, float]:
    async with KubeClient(KubeCredentials(address)) as client:

        def follow(handler: EventHandler[LedgerObject]) -> Coroutine[object, object, None]:
            pace = WatchSettings(page=sync.PAGE, streaming=False)
            return Reflector(
                client, Selection(NODE_LEDGERS), LedgerObject, handler, settings=pace
            ).run()

        store, table = KubernetesStore(client, follow), LocalCluster()
        settings = Settings(log=Log(level="error"))
        cluster = Cluster(binder=table, pods=table, events=table)
        runtime = ServiceRuntime(settings, {}, store, cluster, logger("error", "json"))
        await client.find("/version")
        used = process_time()
        await runtime.load()
        used = process_time() - used
        assert len(runtime.service.ledgers.inventory) > 0  # noqa: S101
        await store.close()
    return used, sync.resident()


def _object(ledger: NodeLedger, version: int) -> bytes:
    metadata = {
        "name": ledger.node.name,
        "uid": f"22222222-0000-0000-0000-{version:012}",
        "resourceVersion": str(version),
        "annotations": {"dragoman.dev/write": f"{version:016x}"},
    }
    return b'{"apiVersion":"dragoman.dev/v1alpha1","kind":"NodeLedger","metadata":%b,"spec":%b}' % (
        json.dumps(metadata).encode(),
        encode(ledger),
    )


def _objects(nodes: int) -> Iterator[bytes]:
    """Nodes of eight cards with a share on each."""
    for number, ledger in enumerate(clusters.idle(nodes, "volcano")):
        shared = ledger
        for card in range(clusters.CARDS):
            uid = f"33333333-0000-0000-{card:04}-{number:012}"
            shared = shared.adopt(clusters.share(shared, [card], *SHARE, uid))
        yield _object(shared, number + 1)


def main() -> None:
    """Serve or load, as the first argument says; else measure these numbers of nodes."""
    match sys.argv[1:]:
        case ["serve", nodes]:
            asyncio.run(sync.serve({"nodeledgers": sync.pages([*_objects(int(nodes))])}))
        case ["load", address]:
            print(json.dumps(asyncio.run(_load(address))))
        case numbers:
            for result in measure(tuple(map(int, numbers)) or SIZES):
                print(*result)


if __name__ == "__main__":
    main()
