"""Makes the store's records agree with the cluster: whoever has the Lease does it, alone.

Cards come and go with their nodes; what others bound is adopted; what never was bound, and what is
gone, is taken back.
"""

from asyncio import Event, wait_for
from collections.abc import Sequence
from contextlib import suppress

from adapters.dialects.adopt import FINISHED, adopt
from adapters.dialects.dialect import Dialect
from adapters.dialects.merge import read_node
from adapters.sidecar.abandoned import Vigil
from adapters.sidecar.mirror import Mirror
from adapters.sidecar.ports import Journal, Pods
from adapters.sidecar.service import SECOND, Service
from adapters.stores.store import Conflict, Store, Stored
from adapters.wire.kube import Pod
from adapters.wire.ledger import LedgerRecordError
from core.ledger import NodeLedger

GRACE = 120
"""Seconds after which an allocation without a bound pod is taken back. A Binding takes less."""

AGAIN = 5.0
"""Seconds until a node is looked at again whose allocations wait for their pods, or that failed."""

POLL = 1.0
"""Seconds between two looks at the list of nodes that wait for their time."""

EVERY = 300.0
"""Seconds between two looks at all nodes, whether or not anything was told of them."""


class Reconciler:
    """Looks at one node after the other, as they are named."""

    def __init__(
        self,
        service: Service,
        mirror: Mirror,
        store: Store,
        live: Pods,
        journal: Journal,
        grace: int = GRACE,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            service: whose vocabularies and clock count.
            mirror: what the cluster has.
            store: where the records are.
            live: pods past every cache.
            journal: who is told of lost races.
            grace: seconds that a Binding may take.
        """
        self._service = service
        self._mirror = mirror
        self._store = store
        self._live = live
        self._journal = journal
        self._vigil = Vigil(grace * SECOND)
        self._dirty: dict[str, float] = {}
        self._woken = Event()
        self.problems: dict[str, tuple[str, ...]] = {}

    def look_at(self, node: str) -> None:
        """A node's record may not be what it should be."""
        self._dirty[node] = 0.0
        self._woken.set()

    async def run(self) -> None:
        """Work until cancelled."""
        last = -EVERY
        while True:
            now = self._seconds()
            if now - last >= EVERY:
                last = now
                for node in {*self._mirror.nodes, *self._service.book.inventory.names()}:
                    self._dirty.setdefault(node, 0.0)
            due = [node for node, when in self._dirty.items() if when <= now]
            for node in due:
                self._dirty.pop(node, None)
                await self._one(node)
            if not due:
                self._woken.clear()
                with suppress(TimeoutError):
                    await wait_for(self._woken.wait(), POLL)

    async def _one(self, node: str) -> None:
        try:
            settled = await self.reconcile(node)
        except Conflict:
            self._journal.conflict(node)
            self._dirty.setdefault(node, 0.0)
            return
        except LedgerRecordError as error:
            self.problems[node] = (f"the record cannot be read: {error}",)
            settled = False
        except OSError as error:
            self.problems[node] = (str(error),)
            settled = False
        if not settled:
            self._dirty.setdefault(node, self._seconds() + AGAIN)

    async def reconcile(self, name: str) -> bool:
        """Make one node's record what it should be.

        Returns:
            whether nothing waits for another look.

        Raises:
            Conflict: somebody else wrote; look again.
            LedgerRecordError: the record cannot be read.
            OSError: the store or the cluster did not answer.
        """
        stored = await self._store.read(name)
        kube = self._mirror.nodes.get(name)
        dialects = self._service.readings.dialects
        if kube is None:
            ledger = None if stored is None else stored.ledger
        else:
            node, problems = read_node(kube, self._mirror.devices.get(name), dialects)
            self.problems[name] = problems
            ledger = NodeLedger.of(node) if stored is None else stored.ledger
            if stored is None and not node.cards:
                return True
            if ledger.node != node:
                ledger = ledger.describe(node)
        if ledger is None:
            self.problems.pop(name, None)
            return True
        here = self._mirror.holding(name)
        ledger = self._adopted(ledger, here, dialects)
        ledger, settled = await self._without_abandoned(ledger, here)
        if kube is None and stored is not None and not ledger.allocations:
            await self._store.delete(name, stored.version)
            return True
        await self._write(ledger, stored)
        return settled

    def _adopted(
        self, ledger: NodeLedger, here: Sequence[Pod], dialects: Sequence[Dialect]
    ) -> NodeLedger:
        """With what bound pods hold that the record does not know, or could not read before."""
        for pod in here:
            known = ledger.allocations.get(pod.metadata.uid)
            if known is not None and known.unread is None:
                continue
            found = adopt(pod, ledger.node, dialects)
            if found is not None and (known is None or found.unread is None):
                ledger = ledger.adopt(found)
        return ledger

    async def _without_abandoned(
        self, ledger: NodeLedger, here: Sequence[Pod]
    ) -> tuple[NodeLedger, bool]:
        """Without what no pod will ever use; the pods in question are asked for, past the cache."""
        name = ledger.node.name
        bound = {pod.metadata.uid: name for pod in here}
        for uid, allocation in ledger.allocations.items():
            if uid not in bound:
                namespace, _, pod_name = allocation.pod.partition("/")
                pod = await self._live.get(namespace, pod_name)
                if pod is not None and pod.metadata.uid == uid and not _over(pod):
                    bound[uid] = pod.spec.node_name or ""
        gone = self._vigil.abandoned(ledger, bound, self._service.ports.clock.now())
        for uid in gone:
            ledger = ledger.release(uid)
        return ledger, all(bound.get(uid) == name for uid in ledger.allocations)

    async def _write(self, ledger: NodeLedger, stored: Stored | None) -> None:
        if stored is None or ledger is not stored.ledger:
            await self._store.write(ledger, stored.version if stored else None)

    def _seconds(self) -> float:
        return self._service.ports.clock.now() / SECOND


def _over(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def unadopted(service: Service, mirror: Mirror) -> list[str]:
    """Nodes with a record on which a bound pod is not in the record yet."""
    dialects = service.readings.dialects
    return [
        ledger.node.name
        for ledger in service.book.inventory
        for pod in mirror.holding(ledger.node.name)
        if pod.metadata.uid not in ledger.allocations
        if any(dialect.asks(pod) for dialect in dialects)
    ]
