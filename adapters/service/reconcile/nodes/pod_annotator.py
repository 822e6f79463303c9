"""Writes on a bound pod which cards it has, where its annotations do not say so."""

from adapters.repairs.mirrored_records import mirror_of
from adapters.repairs.plan import rewrite
from adapters.repairs.repairs import Annotate, Mirror
from adapters.service.decide.service import Service
from adapters.service.reconcile.nodes.node_reader import has_finished
from adapters.service.reconcile.ports import LivePods
from adapters.stores.store import Store
from adapters.wire.kube import Pod, pod_ref
from core.ledger.node_ledger import NodeLedger


class PodAnnotator:
    """Reads ledger and pod again before it writes: the cluster cache may be late."""

    def __init__(self, service: Service, store: Store, live: LivePods) -> None:
        self._service = service
        self._store = store
        self._live = live

    async def annotate(self, repair: Annotate, node: str) -> Pod | None:
        """Write the annotations that the ledger asks for.

        Args:
            repair: of a pod, as the cluster cache has it.
            node: where it runs.

        Returns:
            the pod before the write; None where there is nothing to write.

        Raises:
            LedgerRecordError: the ledger cannot be read.
            OSError: the store or the API server did not answer.
        """
        found = await self._newest(repair.pod, node)
        if found is None:
            return None
        pod, ledger = found
        allocation = ledger.allocations.get(pod.metadata.uid)
        if allocation is None:
            return None
        dialects, wall = self._service.pod_requests.dialects, self._service.ports.clock.wall()
        needed = rewrite(pod, allocation, ledger.node, dialects, wall)
        if needed is None:
            return None
        await self._live.annotate(pod_ref(pod), needed.result.annotations, needed.result.labels)
        return pod

    async def mirror(self, repair: Mirror, node: str) -> bool:
        """Write the mirrored records that a pod lacks, and return whether any was written.

        Args:
            repair: of a pod, as the cluster cache has it.
            node: where it runs.

        Raises:
            LedgerRecordError, OSError: as ``annotate``.
        """
        found = await self._newest(repair.pod, node)
        if found is None:
            return False
        pod, ledger = found
        held = [each for each in map(ledger.allocations.get, repair.holders) if each is not None]
        if len(held) < len(repair.holders):
            return False
        dialects = self._service.pod_requests.dialects
        needed = mirror_of(pod, held, ledger, dialects, self._service.mirrored)
        if needed is None:
            return False
        await self._live.annotate(pod_ref(pod), needed.annotations)
        return True

    async def _newest(self, cached: Pod, node: str) -> tuple[Pod, NodeLedger] | None:
        """Return a pod and its ledger as they are now; None where the pod runs there no more."""
        pod = await self._live.get(pod_ref(cached))
        stored = await self._store.read(node)
        if pod is None or stored is None or pod.metadata.uid != cached.metadata.uid:
            return None
        runs = pod.spec.node_name == node and not has_finished(pod)
        return (pod, stored.ledger) if runs else None
