"""What the reconciler writes: on pods their cards, on pods and claims that an attempt is over."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Protocol

from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import allocated
from adapters.repairs import repairs
from adapters.repairs.mirrored_records import mirror_of
from adapters.repairs.plan import rewrite
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.ports import LiveClaims
from adapters.service.decide.service import Service
from adapters.service.reconcile.nodes.node_reader import (
    Changeable,
    ChangedT,
    LivePods,
    has_finished,
)
from adapters.stores.store import Store
from adapters.wire.dra import ResourceClaim
from adapters.wire.kube import Pod, pod_ref
from core.durations import SECOND
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.request import PodRef


class ChangeableClaims(LiveClaims, Changeable[ResourceClaim], Protocol):
    """ResourceClaims that can be changed too."""


@dataclass(eq=False, slots=True)
class PodWriter:
    """Reads ledger and pod again before it writes what a pod has: the cluster cache may be late.

    ``grace`` is the time in nanoseconds that a Binding may take.
    """

    _service: Service
    _cache: ClusterCache
    _store: Store
    _live: LivePods
    _live_claims: ChangeableClaims | None
    _grace: int
    _changed: dict[str, int] = field(default_factory=dict)

    async def annotate(self, repair: repairs.Annotate, node: str) -> Pod | None:
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

    async def mirror(self, repair: repairs.Mirror, node: str) -> bool:
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

    async def invalidate(self, allocation: Allocation, view: repairs.NodeView) -> bool:
        """Change what may have an allocation, so that no write on its way binds or allocates it.

        Returns:
            whether no pod was bound meanwhile, and no claim allocated.

        Raises:
            OSError: an object is gone or cannot be changed, or the API server did not answer.
        """
        if allocation.dialect == DRA and self._live_claims is not None:
            claim = await self._change(self._live_claims, allocation.pod_ref)
            return allocated(claim) is None
        if allocation.uid != repairs.LOST_LEDGER:
            pod = await self._change(self._live, allocation.pod_ref)
            return not pod.spec.node_name
        # Any pod that is not bound may have been committed to the ledger that was deleted. A
        # service that was stopped after such a commit may send its Binding at any time; it names
        # the version of the pod that it read. One change serves all ledgers deleted before.
        name, now = view.ledger.node.name, self._service.ports.clock.now()
        dialects = self._service.pod_requests.dialects
        recent = {uid for uid, at in self._changed.items() if now - at < self._grace}
        for uid in self._changed.keys() - recent:
            self._changed.pop(uid, None)
        for pod in self._cache.unbound():
            uid = pod.metadata.uid
            if uid in recent or not any(dialect.matches(pod) for dialect in dialects):
                continue
            changed = await self._change(self._live, pod_ref(pod))
            if changed.spec.node_name == name:
                return False
            if not changed.spec.node_name:
                self._changed[uid] = now
        # Else one was bound that the watch has not reported yet.
        return all(pod.metadata.uid in view.bound for pod in self._cache.holding(name))

    async def _change(self, live: Changeable[ChangedT], ref: PodRef) -> ChangedT:
        """Change an object, so that a write that names an earlier version of it conflicts.

        An author can fill the 256 KiB that all annotations may have together, and labels have no
        such limit. Source: k8s.io/apimachinery 0.37 pkg/api/validation/objectmeta.go,
        ``TotalAnnotationSizeLimitB``.
        """
        now = datetime.fromtimestamp(self._service.ports.clock.wall() / SECOND, UTC)
        try:
            text = now.isoformat(timespec="microseconds")
            return await live.annotate(ref, {repairs.RELEASED: text})
        except OSError as error:
            if getattr(error, "status", 0) != HTTPStatus.UNPROCESSABLE_ENTITY:
                raise
            label = now.strftime(repairs.RELEASED_LABEL)
            return await live.annotate(ref, {}, {repairs.RELEASED: label})
