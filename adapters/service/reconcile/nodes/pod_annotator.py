"""Writes on a bound pod which cards it has, where its annotations do not say so."""

from adapters.accounting.repair_plan import rewrite
from adapters.service.decide.service import Service
from adapters.service.reconcile.nodes.node_reader import has_finished
from adapters.service.reconcile.ports import LivePods
from adapters.stores.store import Store
from adapters.wire.kube import Pod, pod_ref


class PodAnnotator:
    """Reads ledger and pod again before it writes: the cluster cache may be late."""

    def __init__(self, service: Service, store: Store, live: LivePods) -> None:
        self._service = service
        self._store = store
        self._live = live

    async def annotate(self, cached: Pod, node: str) -> Pod | None:
        """Write the annotations that the ledger asks for.

        Args:
            cached: the pod, as the cluster cache has it.
            node: where it runs.

        Returns:
            the pod before the write; None where there is nothing to write.

        Raises:
            LedgerRecordError: the ledger cannot be read.
            OSError: the store or the API server did not answer.
        """
        uid = cached.metadata.uid
        pod = await self._live.get(pod_ref(cached))
        stored = await self._store.read(node)
        if pod is None or stored is None or pod.metadata.uid != uid or has_finished(pod):
            return None
        allocation = stored.ledger.allocations.get(uid)
        if allocation is None or pod.spec.node_name != node:
            return None
        dialects, wall = self._service.pod_requests.dialects, self._service.ports.clock.wall()
        repair = rewrite(pod, allocation, stored.ledger.node, dialects, wall)
        if repair is None:
            return None
        await self._live.annotate(pod_ref(cached), repair.result.annotations, repair.result.labels)
        return pod
