"""Writes the ledgers of an inventory that comes from files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import time_ns

from adapters.stores.store import Conflict, Store
from adapters.wire.kube import KubeNode, Pod
from adapters.wire.pod_group import PodGroupObject
from adapters.wire.records.ledger import LedgerRecordError
from core.durations import MILLISECOND
from core.ledger.node_ledger import NodeLedger, metered
from core.quota.quota import Quota
from core.requests.gang import GangRef

ATTEMPTS = 20
"""Writes of one ledger that may lose to another writer."""


@dataclass(frozen=True, slots=True)
class StaticInventory:
    """The content of the files.

    Attributes:
        ledgers: of all nodes, with everything that is allocated.
        nodes: the objects, by name.
        pods: bound ones have their cards, the others wait to be scheduled.
        claims: by uid of a pod, uids of the claims that are reserved for it.
        quotas: of namespaces; what their pods have is counted by the ledgers.
        problems: what could not be read or is inconsistent, as sentences.
        groups: the objects of gangs.
    """

    ledgers: Sequence[NodeLedger] = ()
    nodes: Mapping[str, KubeNode] = field(default_factory=dict)
    pods: Sequence[Pod] = ()
    claims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    quotas: Sequence[Quota] = ()
    problems: Sequence[str] = ()
    groups: Mapping[GangRef, PodGroupObject] = field(default_factory=dict)


async def seed(ledgers: Sequence[NodeLedger], store: Store) -> None:
    """Write ledgers; allocations that the store already has stay.

    Raises:
        LedgerRecordError: a record of the store cannot be read.
        OSError: the store did not answer.
    """
    for ledger in ledgers:
        await _write(ledger, store)


async def _write(given: NodeLedger, store: Store) -> None:
    for _ in range(ATTEMPTS):
        stored = await store.read(given.node.name)
        before = None if stored is None else stored.ledger
        ledger = given if before is None else _joined(before, given)
        if ledger is before:
            return
        ledger = metered(ledger, before, time_ns() // MILLISECOND)
        try:
            await store.write(ledger, stored.version if stored else None)
        except Conflict:
            continue
        return
    raise LedgerRecordError(f"the ledger of node {given.node.name} changes all the time")


def _joined(ledger: NodeLedger, given: NodeLedger) -> NodeLedger:
    """A ledger with the node and the allocations of another one that it lacks."""
    if ledger.node != given.node:
        ledger = ledger.with_node(given.node)
    for uid, allocation in given.allocations.items():
        if uid not in ledger.allocations:
            ledger = ledger.adopt(allocation)
    return ledger
