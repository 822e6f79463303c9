"""Kubernetes objects in three dialects, as a cluster would hold them."""

import json
from typing import Any

Manifest = dict[str, Any]

CARDS = 8


def cluster(nodes: int, pods: int) -> Manifest:
    """A ``List`` of nodes with eight cards, their ``Device`` objects, and pending pods.

    Half of the nodes have NVIDIA cards that Volcano and Koordinator describe, half MetaX cards
    that MetaX and Koordinator describe.
    """
    items = [item for number in range(nodes) for item in node(number)]
    items += [_pod(number) for number in range(pods)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def node(number: int) -> list[Manifest]:
    """A node and its Device: NVIDIA's cards where the number is even, else MetaX's."""
    name = f"node-{number:05}"
    cards = uuids(number)
    nvidia = number % 2 == 0
    key, text = _volcano(cards) if nvidia else _metax(cards)
    labels = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"} if nvidia else {}
    found = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {key: text}},
        "status": {},
    }
    return [found, _device(name, cards, "nvidia" if nvidia else "metax")]


def uuids(number: int) -> list[str]:
    """The cards of the node with this number."""
    return [f"GPU-{number:08x}-0000-4000-8000-{card:012x}" for card in range(CARDS)]


def _volcano(uuids: list[str]) -> tuple[str, str]:
    cards = (f"{uuid},10,81920,NVIDIA-A100-SXM4-80GB,true,hami-core:" for uuid in uuids)
    return "volcano.sh/node-vgpu-register", "".join(cards)


def _metax(uuids: list[str]) -> tuple[str, str]:
    cards = [
        {
            "uuid": uuid,
            "bdf": f"0000:{card}8:00.0",
            "model": "C500",
            "totalDevCount": 16,
            "totalCompute": 100,
            "totalVRam": 65536,
            "healthy": True,
            "qosPolicy": "best-effort",
            "linkZone": card // 4 + 1,
        }
        for card, uuid in enumerate(uuids)
    ]
    return "metax-tech.com/node-gpu-devices", json.dumps(cards)


def _device(name: str, uuids: list[str], vendor: str) -> Manifest:
    memory = "81920Mi" if vendor == "nvidia" else "65536Mi"
    resources = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": memory,
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    model = "A100-SXM4-80GB" if vendor == "nvidia" else "C500"
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {
            "name": name,
            "labels": {
                "node.koordinator.sh/gpu-vendor": vendor,
                "node.koordinator.sh/gpu-model": model,
            },
        },
        "spec": {
            "devices": [
                {"type": "gpu", "id": uuid, "minor": card, "health": True, "resources": resources}
                for card, uuid in enumerate(uuids)
            ]
        },
    }


def _pod(number: int) -> Manifest:
    metadata: Manifest = {"name": f"pod-{number:05}", "namespace": "bench"}
    match number % 4:
        case 0:
            asked = {
                "volcano.sh/vgpu-number": 1 + number % 3,
                "volcano.sh/vgpu-memory": 8000 + 1000 * (number % 7),
                "volcano.sh/vgpu-cores": 30,
            }
        case 1:
            metadata["labels"] = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
            asked = {
                "koordinator.sh/gpu.shared": 1,
                "koordinator.sh/gpu-core": 25,
                "koordinator.sh/gpu-memory-ratio": 20 + number % 30,
            }
        case 2:
            asked = {
                "metax-tech.com/sgpu": 1,
                "metax-tech.com/vcore": 40,
                "metax-tech.com/vmemory": 8 + number % 20,
            }
        case _:
            metadata["annotations"] = {"metax-tech.com/sgpu-topology-aware": "true"}
            asked = {"metax-tech.com/sgpu": 1 + number % 4}
    container = {
        "name": "main",
        "image": "bench",
        "resources": {"limits": asked, "requests": asked},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container]},
    }
