"""Time and memory of the first sync of a large cluster.

An API server that only sends prepared answers, and the reflectors, each in a process of its own.
Pods are about 8 KiB and nodes 12 KiB of JSON, as real ones are.
"""

import asyncio
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import clusters

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeconfigSource, KubeCredentials, load
from adapters.cluster.api.paths import NODES, PODS, Selection
from adapters.cluster.watch.object_tracker import Identity, KubeObject
from adapters.cluster.watch.reflector import Reflector, WatchSettings
from adapters.dialects.allocation_record import MARK
from adapters.wire.body import PodDecoder
from adapters.wire.kube import KubeNode, Unreadable

PAGE = 500


@dataclass(frozen=True, slots=True)
class Sync:
    """Result of one first sync.

    Attributes:
        seconds: until pods and nodes were both synced.
        processor: seconds of processor time of the syncing process.
        mib: growth in MiB, with every object kept as it was read.
        rest: MiB resident after the sync and a garbage collection.
        longest: longest time in seconds that the event loop was blocked.
        objects: number of synced objects.
    """

    seconds: float
    processor: float
    mib: float
    rest: float
    longest: float
    objects: int


def measure(pods: int = 20_000, nodes: int = 5_000, *, streaming: bool = False) -> Sync:
    """Sync a generated cluster, served by a process that does nothing else."""
    with serving(__file__, pods, nodes) as address:
        return _apart(address, streaming=streaming)


@contextmanager
def serving(program: str, *counts: int) -> Iterator[str]:
    """The address of a server: a process that runs ``PROGRAM serve COUNT...``."""
    server = subprocess.Popen(  # noqa: S603
        [sys.executable, program, "serve", *map(str, counts)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None  # noqa: S101
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.communicate()


def measure_real(kubeconfig: Path, *, streaming: bool = True) -> Sync:
    """Sync the cluster that a kubeconfig names."""
    return _apart(str(kubeconfig), streaming=streaming)


def _apart(where: str, *, streaming: bool) -> Sync:
    words = [sys.executable, __file__, "sync", where, "stream" if streaming else "pages"]
    return Sync(**json.loads(subprocess.check_output(words)))  # noqa: S603


class ObjectStore:
    """Stores every object as it was read."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], KubeObject] = {}

    def on_update(self, thing: KubeObject) -> None:
        """Store it."""
        self.objects[thing.metadata.namespace, thing.metadata.name] = thing

    def on_delete(self, what: Identity) -> None:
        """Remove it."""
        self.objects.pop((what.namespace, what.name), None)

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """End the run: the generated objects are all readable."""
        sys.exit(f"{what}: {problem}")

    def on_synced(self) -> None:
        """The reflector's ``ready`` event says the same."""


async def _sync(where: str, *, streaming: bool) -> Sync:
    made = (
        KubeCredentials(where)
        if where.startswith("http")
        else load(KubeconfigSource(kubeconfig=Path(where)))
    )
    stores = ObjectStore(), ObjectStore()
    pace = WatchSettings(page=PAGE, streaming=streaming)
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - before)

    async with KubeClient(made) as client:
        await client.find("/version")
        size, used, began = resident(), time.process_time(), time.perf_counter()
        reflectors = (
            Reflector(client, Selection(PODS), PodDecoder(MARK), stores[0], settings=pace),
            Reflector(client, Selection(NODES), KubeNode, stores[1], settings=pace),
        )
        tasks = [asyncio.create_task(each.run()) for each in reflectors]
        await asyncio.gather(*(each.ready.wait() for each in reflectors))
        seconds, used = time.perf_counter() - began, time.process_time() - used
        grown = resident() - size
        beating = asyncio.create_task(beat())
        again = Reflector(client, Selection(PODS), PodDecoder(MARK), ObjectStore(), settings=pace)
        tasks += [asyncio.create_task(again.run()), beating]
        await again.ready.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        del again
    gc.collect()
    return Sync(
        seconds, used, grown, resident(), longest, sum(len(each.objects) for each in stores)
    )


def resident() -> float:
    """Resident MiB of this process."""
    count = int(Path("/proc/self/statm").read_text().split()[1])
    return count * resource.getpagesize() / 2**20


def _pod(number: int) -> dict[str, object]:
    name = f"train-{number:06}-worker-0"
    fields = [{"manager": f"manager-{i}", "fieldsV1": {"f:spec": "x" * 900}} for i in range(4)]
    env = [{"name": f"VARIABLE_{i}", "value": "v" * 40} for i in range(20)]
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "env": env,
        "resources": {"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "8000"}},
        "volumeMounts": [{"name": f"v{i}", "mountPath": f"/mnt/v{i}"} for i in range(6)],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 40}",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(number + 1),
            "labels": {"app": name, "team": f"team-{number % 40}"},
            "annotations": {"volcano.sh/vgpu-ids-new": f"GPU-{number},NVIDIA,8000,10:"},
            "managedFields": fields,
        },
        "spec": {"nodeName": f"node-{number % 5000:05}", "containers": [container] * 2},
        "status": {"phase": "Running", "conditions": conditions},
    }


def node(number: int) -> dict[str, object]:
    """A whole node, as the API server stores it."""
    name = clusters.name(number)
    cards = ":".join(f"GPU-{number}-{i},10,81920,100,NVIDIA-A100,0,true" for i in range(8))
    amounts = {"cpu": "128", "memory": "1056Gi", "pods": "110", "volcano.sh/vgpu-number": "80"}
    return {
        "metadata": {
            "name": name,
            "uid": f"11111111-0000-0000-0000-{number:012}",
            "resourceVersion": str(number + 1),
            "labels": {f"label-{i}.example/name": "value" for i in range(20)},
            "annotations": {"volcano.sh/node-vgpu-register": cards},
            "managedFields": [{"manager": f"m{i}", "fieldsV1": "x" * 1000} for i in range(4)],
        },
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "images": [{"names": [f"registry.example/{i}"], "sizeBytes": i} for i in range(50)],
        },
    }


def pages(items: list[bytes]) -> list[bytes]:
    """The pages of a list of these objects."""
    starts = range(0, len(items), PAGE)
    return [
        b'{"metadata":{"resourceVersion":"99","continue":"%s"},"items":[%s]}'
        % (b"%d" % (i + 1) if i + 1 < len(starts) else b"", b",".join(items[s : s + PAGE]))
        for i, s in enumerate(starts)
    ]


async def serve(ready: Mapping[str, list[bytes]]) -> None:
    """Print the address and send the pages of each collection, until killed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            target = urlsplit(head.split(b" ", 2)[1].decode())
            query = parse_qs(target.query)
            if "watch" in query:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(3600)
            found = ready.get(target.path.rpartition("/")[2], [b"{}"])
            body = found[int(query.get("continue", ["0"])[0])]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve or sync, as the first argument says; without arguments measure and print the result."""
    match sys.argv[1:]:
        case ["serve", pods, nodes]:
            ready = {
                "pods": pages([json.dumps(_pod(i)).encode() for i in range(int(pods))]),
                "nodes": pages([json.dumps(node(i)).encode() for i in range(int(nodes))]),
            }
            asyncio.run(serve(ready))
        case ["sync", where, way]:
            print(json.dumps(asdict(asyncio.run(_sync(where, streaming=way == "stream")))))
        case _:
            print(json.dumps(asdict(measure())))


if __name__ == "__main__":
    main()
