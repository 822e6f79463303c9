"""Fragmented clusters as Kubernetes objects, the same for each seed.

    python bench/fragmented.py FILE [NODES [PENDING [SEED]]]

Nodes have eight cards, of which 70 to 90 % are in use: four in ten have NVIDIA cards that Volcano,
HAMi and Koordinator describe, three MetaX cards of two dialects, two HAMi's alone, and one has four
cards in MIG mode. Each pod has the record that its dialect's scheduler writes. Some pods have no
controller, some a higher priority, some a disruption budget; one node in twenty gives a card to a
ResourceClaim. The pods that wait ask for more of one card than most cards have free.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import manifests
import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))  # the checkout, not an installed package

from adapters.cli.fleet.fleet import Fleet, read_fleet
from adapters.cli.input.manifests import manifests as read_manifests
from adapters.cli.input.source import Source
from adapters.dialects.dialect import Defaults
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import Pod
from core.feasibility.fit import placements
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant

Manifest = dict[str, Any]

Range = tuple[float, float]

IN_USE: Range = (0.7, 0.9)

NEARLY_FULL: Range = (0.93, 0.97)

NOW = 1_790_000_000_000_000_000
CARDS = manifests.CARDS
PROFILES = [
    {"name": name, "memoryMB": memory, "core": core, "sliceCount": number,
     "placements": [{"start": start, "size": size} for start in starts]}
    for name, memory, core, number, size, starts in (
        ("1g.5gb", 4864, 15, 1, 1, range(7)), ("2g.10gb", 9856, 29, 2, 2, (0, 2, 4)),
        ("3g.20gb", 19968, 43, 3, 4, (0, 4)), ("7g.40gb", 40192, 100, 7, 8, (0,)),
    )
]  # fmt: skip
"""What NVML says of an A100 of 40 GB, as HAMi 2.10 writes it."""

OWNERS = (*("ReplicaSet",) * 24, *("StatefulSet",) * 8, *("Job",) * 7, "")
PRIORITIES = (0, 0, 0, 0, 100, 1000)
ALLOCATABLE = {"cpu": "96", "memory": "768Gi", "pods": "110"}


def cluster(nodes: int, pending: int, seed: int = 0, use: Range = IN_USE) -> Manifest:
    """A ``List`` with everything.

    Args:
        nodes: how many.
        pending: pods that wait.
        seed: of the random choices.
        use: the least and the most of a node's memory that is in use.
    """
    items = [*_Maker(nodes, seed, use).items(pending)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


class _Maker:
    def __init__(self, nodes: int, seed: int, use: Range) -> None:
        self.use = use
        self.seed = random.Random(seed)  # noqa: S311
        self.nodes = nodes
        self.number = 0

    def items(self, pending: int) -> Iterator[Manifest]:
        """All objects: nodes, bound pods, budgets, and pods that wait."""
        hardware = [item for number in range(self.nodes) for item in self._node(number)]
        yield from hardware
        for node in [item for item in hardware if item["kind"] == "Node"][::20]:
            yield from _claimed(node)
        fleet = read_fleet(
            read_manifests([Source("nodes", json.dumps(_list(hardware)), named=True)]), Defaults()
        )
        for number, state in enumerate(fleet.nodes.values()):
            yield from self._filled(fleet, state.ledger, number)
        for app in range(0, 100, 8):
            yield _budget(app, self.seed.choice((0, 1, 1, 1, 2)))
        yield from map(_job, range(100))
        for _ in range(pending):
            yield self._pod(self.seed.choice((0, 0, 4, 7)), large=True)

    def _node(self, number: int) -> list[Manifest]:
        kind = number % 10
        vendor = 1 if 4 <= kind <= 6 else 0
        node, device = manifests.node(2 * number + vendor)
        node["status"] = {"allocatable": ALLOCATABLE}
        uuids = [each["id"] for each in device["spec"]["devices"]]
        if not vendor:
            texts = node["metadata"]["annotations"]
            texts["hami.io/node-nvidia-register"] = json.dumps(
                [_hami(uuid, card, mig=kind == 9 and card < 4) for card, uuid in enumerate(uuids)]
            )
            if kind >= 7:
                del texts["volcano.sh/node-vgpu-register"]
                return [node]
        return [node, device]

    def _filled(self, fleet: Fleet, ledger: NodeLedger, number: int) -> Iterator[Manifest]:
        """Pods until the node is almost full, without those that have ended since."""
        bound: dict[str, Manifest] = {}
        full, left = self.seed.uniform(0.85, 0.99), self.seed.uniform(*self.use)
        if number % 20 == 0:  # the first card is a claim's
            ledger = ledger.adopt(_whole(ledger))
        for _ in range(200):
            if _share_in_use(ledger) > full:
                break
            plain = self._pod(number % 10)
            pod = msgspec.convert(plain, Pod)
            dialect = dialect_of(pod, fleet.dialects)
            if dialect is None:
                sys.exit(f"no dialect reads {plain}")
            request = dialect.read_request(pod)
            places = [*placements(request, ledger)]
            if places:
                place = self.seed.choice(places)
                ledger = ledger.allocate(Allocation.of(request, place))
                written = dialect.write_result(pod, request, place, ledger.node, NOW)
                meta = plain["metadata"]
                meta["annotations"] = {**meta.get("annotations", {}), **written.annotations}
                meta["labels"] |= written.labels
                plain["spec"]["nodeName"] = ledger.node.name
                plain["status"] = {"phase": "Running", "startTime": "2026-01-31T12:00:00Z"}
                bound[request.uid] = plain
        while _share_in_use(ledger) > left:
            uid = self.seed.choice([*bound])
            ledger = ledger.release(uid)
            del bound[uid]
        yield from bound.values()

    def _pod(self, kind: int, *, large: bool = False) -> Manifest:
        self.number += 1
        seed, app = self.seed, self.seed.randrange(100)
        metadata: Manifest = {
            "name": f"pod-{self.number:06}",
            "namespace": f"team-{app % 10}",
            "uid": f"00000000-0000-4000-8000-{self.number:012x}",
            "labels": {"app": f"app-{app}"},
        }
        owner = seed.choice(OWNERS)
        if owner:
            metadata["ownerReferences"] = [
                {"kind": owner, "name": f"app-{app}", "controller": True}
            ]
        gib = seed.choice((48, 56, 60, 62)) if large else seed.choice((8, 10, 16, 24, 32, 40))
        limits = self._limits(kind, gib, metadata)
        if large and seed.random() < 0.3:
            limits = {"volcano.sh/vgpu-number": seed.choice((2, 3, 4))}
            limits |= {"volcano.sh/vgpu-memory": 81920, "volcano.sh/vgpu-cores": 100}
        requests = {"cpu": str(seed.randint(1, 4)), "memory": f"{seed.choice((4, 8, 16))}Gi"}
        container = {
            "name": "main",
            "image": "bench",
            "resources": {"limits": limits, "requests": {**limits, **requests}},
        }
        spec = {"containers": [container], "priority": seed.choice(PRIORITIES)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _limits(self, kind: int, gib: int, metadata: Manifest) -> Manifest:
        seed = self.seed
        if 4 <= kind <= 6:
            if seed.random() < 0.5:
                return {
                    "metax-tech.com/sgpu": 1,
                    "metax-tech.com/vcore": seed.choice((10, 20)),
                    "metax-tech.com/vmemory": gib,
                }
            return _koordinator(gib * 100 // 64)
        if kind < 4 and seed.random() < 0.7:
            if seed.random() < 0.5:
                metadata["labels"]["koordinator.sh/gpu-isolation-provider"] = "HAMi-core"
                return _koordinator(gib * 100 // 80)
            return {
                "volcano.sh/vgpu-number": seed.choice((1, 1, 1, 2)),
                "volcano.sh/vgpu-memory": gib * 1024,
                "volcano.sh/vgpu-cores": seed.choice((0, 10, 20)),
            }
        if kind == 9 and seed.random() < 0.5:
            metadata["annotations"] = {"nvidia.com/vgpu-mode": "mig"}
            return {"nvidia.com/gpu": 1, "nvidia.com/gpumem": seed.choice((4000, 9000, 18000))}
        return {
            "nvidia.com/gpu": 1,
            "nvidia.com/gpumem": gib * 1024,
            "nvidia.com/gpucores": seed.choice((0, 10, 20)),
        }


def _koordinator(percent: int) -> Manifest:
    return {
        "koordinator.sh/gpu.shared": 1,
        "koordinator.sh/gpu-core": min(percent, 20),
        "koordinator.sh/gpu-memory-ratio": min(max(percent, 1), 95),
    }


def _hami(uuid: str, index: int, *, mig: bool) -> Manifest:
    plain: Manifest = {
        "id": uuid, "index": index, "count": 10, "devmem": 81920, "devcore": 100,
        "type": "NVIDIA-A100-SXM4-80GB", "mode": "hami-core", "health": True,
    }  # fmt: skip
    if mig:
        plain |= {
            "count": 7, "devmem": 40960, "type": "NVIDIA-A100-PCIE-40GB", "mode": "mig",
            "migProfiles": PROFILES,
        }  # fmt: skip
    return plain


def _share_in_use(ledger: NodeLedger) -> float:
    memory = sum(card.memory for card in ledger.node.cards)
    return sum(use.memory for use in ledger.usages) / memory


def _whole(ledger: NodeLedger) -> Allocation:
    card = ledger.node.cards[0]
    grant = Grant("", card.uuid, card.memory, 100, exclusive=True)
    return Allocation("claim", "team-0/claim", "dra", ledger.node.name, (grant,))


def _claimed(node: Manifest) -> list[Manifest]:
    """A driver's slice with the first card of a node, and a claim that has the card."""
    name = node["metadata"]["name"]
    uuid = manifests.uuids(int(name.removeprefix("node-")))[0]
    device = {"name": "gpu-0", "attributes": {"uuid": {"string": uuid}}}
    result = {"request": "card", "driver": "gpu.nvidia.com", "pool": name, "device": "gpu-0"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-gpu"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{**device, "capacity": {"memory": {"value": "80Gi"}}}],
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"claim-{name}", "namespace": "team-0"},
            "spec": {"devices": {"requests": [{"name": "card"}]}},
            "status": {
                "allocation": {
                    "devices": {"results": [result]},
                    "nodeSelector": {"nodeSelectorTerms": [term]},
                }
            },
        },
    ]


def _budget(app: int, allowed: int) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"app-{app}", "namespace": f"team-{app % 10}"},
        "spec": {"selector": {"matchLabels": {"app": f"app-{app}"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def _job(app: int) -> Manifest:
    """A Job that outlives all evictions of its pods."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"app-{app}", "namespace": f"team-{app % 10}"},
        "spec": {"backoffLimit": 1_000_000},
    }


def _list(items: list[Manifest]) -> Manifest:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def main() -> None:
    """Write the cluster that the command line describes."""
    file, nodes, pending, seed = [*sys.argv[1:], *("1000", "50", "0")[len(sys.argv) - 2 :]]
    Path(file).write_text(json.dumps(cluster(int(nodes), int(pending), int(seed))))


if __name__ == "__main__":
    main()
