"""Writes ledgers for an inventory that comes from files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import time_ns

from adapters.dialects.adoption.adopt import adopt, may_use_cards
from adapters.dialects.dialect import Dialect
from adapters.dialects.merge import read_node
from adapters.sidecar.decide.ports import MILLISECOND
from adapters.stores.store import Conflict, Store
from adapters.wire.kube import DeviceObject, KubeNode, Pod, full_name
from adapters.wire.ledger import LedgerRecordError
from core.hardware.node import Node
from core.ledger.consumption import metered
from core.ledger.node_ledger import NodeLedger

ATTEMPTS = 20
"""Writes of one ledger that may lose to another writer."""


@dataclass(frozen=True, slots=True)
class StaticInventory:
    """The content of the files.

    Attributes:
        nodes: all of them.
        devices: by the name of their node.
        pods: bound ones have their cards, the others wait to be scheduled.
    """

    nodes: Sequence[KubeNode] = ()
    devices: Mapping[str, DeviceObject] = field(default_factory=dict)
    pods: Sequence[Pod] = ()


async def seed(
    inventory: StaticInventory, pods: Sequence[Pod], store: Store, dialects: Sequence[Dialect]
) -> list[str]:
    """Write a ledger for each node, and adopt the allocations of bound pods.

    Allocations that the store already has stay.

    Args:
        inventory: the nodes and devices.
        pods: with their uids.
        store: that is written.
        dialects: all of them.

    Returns:
        what could not be read or is inconsistent, as sentences.

    Raises:
        LedgerRecordError: a record of the store cannot be read.
        OSError: the store did not answer.
    """
    found: list[str] = []
    for kube in inventory.nodes:
        name = kube.metadata.name
        node, problems = read_node(kube, inventory.devices.get(name), dialects)
        found += [f"node {name}: {problem}" for problem in problems]
        here = [pod for pod in pods if pod.spec.node_name == name and may_use_cards(pod)]
        await _write(store, node, here, dialects)
    known = {kube.metadata.name for kube in inventory.nodes}
    found += [
        f"pod {full_name(pod)}: is bound to {pod.spec.node_name}, which is not among the input"
        for pod in pods
        if may_use_cards(pod) and pod.spec.node_name not in known
    ]
    return found


async def _write(
    store: Store, node: Node, pods: Sequence[Pod], dialects: Sequence[Dialect]
) -> None:
    for _ in range(ATTEMPTS):
        stored = await store.read(node.name)
        ledger = NodeLedger.of(node) if stored is None else stored.ledger
        if ledger.node != node:
            ledger = ledger.with_node(node)
        for pod in pods:
            allocation = adopt(pod, node, dialects)
            if allocation is not None and pod.metadata.uid not in ledger.allocations:
                ledger = ledger.adopt(allocation)
        if stored is not None and ledger is stored.ledger:
            return
        before = None if stored is None else stored.ledger
        ledger = metered(ledger, before, time_ns() // MILLISECOND)
        try:
            await store.write(ledger, stored.version if stored else None)
        except Conflict:
            continue
        return
    raise LedgerRecordError(f"the ledger of node {node.name} changes all the time")
