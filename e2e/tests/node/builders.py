"""Ledgers for nodes that a test runs a container runtime on."""

import json
from typing import Any

from adapters.wire.records.ledger import encode
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant


def a_ledger(
    *allocations: Allocation, name: str = "real", cards: int = 2, slots: int = 10
) -> NodeLedger:
    """Cards ``GPU-0`` and so on, with 80 GiB each, and the allocations."""
    held = tuple(Card(f"GPU-{i}", name, i, "nvidia", "A", 80 * GIB, slots) for i in range(cards))
    ledger = NodeLedger.of(Node(name, held))
    for allocation in allocations:
        ledger = ledger.adopt(allocation)
    return ledger


def an_allocation(
    *grants: Grant, uid: str = "uid-1", pod: str = "ai/pod", node: str = "real", **more: Any
) -> Allocation:
    return Allocation(uid, pod, "volcano", node, grants, **more)


def a_grant(
    card: str = "GPU-0", memory: int = GIB, compute: int = 50, container: str = "main"
) -> Grant:
    return Grant(container, card, memory, compute)


def node_ledger(ledger: NodeLedger) -> dict[str, Any]:
    """The object that the API server keeps."""
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "NodeLedger",
        "metadata": {"name": ledger.node.name},
        "spec": json.loads(encode(ledger)),
    }
