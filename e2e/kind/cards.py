"""Stand-ins of cards on the cluster's nodes: device nodes, HAMi-core's library, a list of cards."""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

CARDS = 2
MEMORY_MIB = 24576
OF_DRIVER = {
    "dragoman-e2e-worker3": (
        "gpu-8d58cba8-e501-254b-f230-3bfb9ba349fe",
        "gpu-40873f01-4f44-4f7c-5cc2-da8841ae1908",
    )
}
"""Uuids that Kubernetes' example driver of claims computes from the name of the node that has it.

Its cards, of which other components state the same, have ``OF_DRIVER_MIB``.
Source: sigs.k8s.io/dra-example-driver v0.4.0, internal/profiles/gpu/gpu.go.
"""
OF_DRIVER_MIB = 81920
LIBRARY = "/usr/local/vgpu/libvgpu.so"
# Empty in effect: the workload's one static program loads no library.
PRELOAD = "/usr/local/vgpu/ld.so.preload"
LISTED = "/etc/dragoman/described.yaml"
"""A list of cards that annotations describe too."""
DEVICES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")


def uuid(node: str, index: int) -> str:
    """The uuid of a card of a node."""
    return OF_DRIVER[node][index] if node in OF_DRIVER else f"GPU-{node}-{index}"


def inventory(node: str) -> str:
    """What the agent reads, with ``node.inventory.source: file``."""
    rows = [
        {
            "uuid": uuid(node, index),
            "index": index,
            "vendor": "nvidia",
            "model": "NVIDIA A10",
            "memoryMiB": OF_DRIVER_MIB if node in OF_DRIVER else MEMORY_MIB,
            "devices": [f"/dev/nvidia{index}"],
        }
        for index in range(CARDS)
    ]
    return yaml.safe_dump({"cards": rows})


def install(node: str) -> None:
    """Put them on a node, as its driver does at each start of the machine."""
    lines = [
        "set -e",
        *(f"test -c /dev/{name} || mknod -m 666 /dev/{name} c 1 3" for name in DEVICES),
        "mkdir -p /etc/dragoman /usr/local/vgpu",
        f"touch {LIBRARY}; echo {LIBRARY} > {PRELOAD}",
        "cat > /etc/dragoman/cards.yaml",
    ]
    subprocess.run(
        ["docker", "exec", "--interactive", node, "bash", "-c", "\n".join(lines)],
        input=inventory(node).encode(),
        check=True,
    )


def add_devices(node: str) -> None:
    """Put device nodes of the guides' cards on a node: NVIDIA's, of MIG instances, and MetaX's."""
    prefixes = ("nvidia", "nvidia-cap", "card")
    names = [*(f"{prefix}{index}" for prefix in prefixes for index in range(8)), "mxcd"]
    lines = [f"test -c /dev/{name} || mknod -m 666 /dev/{name} c 1 3" for name in names]
    subprocess.run(["docker", "exec", node, "bash", "-ec", "\n".join(lines)], check=True)


def write_list(node: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put a list of cards on a node, for an agent that reads ``LISTED``."""
    subprocess.run(
        ["docker", "exec", "--interactive", node, "cp", "/dev/stdin", LISTED],
        input=yaml.safe_dump({"cards": list(rows)}).encode(),
        check=True,
    )


def register(node: str) -> str:
    """What Volcano's device plugin writes in the node's annotation."""
    rows = [
        f"{uuid(node, index)},10,{MEMORY_MIB},NVIDIA-NVIDIA A10,true,hami-core:"
        for index in range(CARDS)
    ]
    return "".join(rows)


def device(node: str) -> dict[str, Any]:
    """What koordlet reports."""
    resources = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": f"{MEMORY_MIB}Mi",
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    rows = [
        {
            "type": "gpu",
            "id": uuid(node, index),
            "minor": index,
            "health": True,
            "resources": resources,
        }
        for index in range(CARDS)
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": node, "labels": {"node.koordinator.sh/gpu-vendor": "nvidia"}},
        "spec": {"devices": rows},
    }
