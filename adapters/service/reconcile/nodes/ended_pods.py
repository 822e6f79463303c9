"""Pods of a ledger that have ended: the watches say which, and the API server confirms it."""

from collections.abc import Sequence

from adapters.dialects.dra import DRA
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.cluster_state.deleted_pods import release_by
from adapters.service.reconcile.nodes.node_reader import has_finished, live_pods
from adapters.service.reconcile.ports import LivePods
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation


class ClusterEndedPods:
    """Implements ``ports.EndedPods``, in each replica."""

    def __init__(self, cache: ClusterCache, live: LivePods, *, confirm_always: bool) -> None:
        """Know what a cache knows.

        Args:
            cache: the watched objects.
            live: pods as the API server has them.
            confirm_always: as for ``NodeReader``.
        """
        self._cache = cache
        self._live = live
        self._confirm_always = confirm_always

    async def among(self, ledger: NodeLedger) -> Sequence[Allocation]:
        """Return the allocations whose pods are gone for good; see ``ports.EndedPods``."""
        asked = [held for held in ledger.allocations.values() if self._has_ended(held, ledger)]
        found = await live_pods(self._live, asked)
        return [
            held
            for held, pod in zip(asked, found, strict=True)
            if pod is None or pod.metadata.uid != held.uid or has_finished(pod)
        ]

    def _has_ended(self, held: Allocation, ledger: NodeLedger) -> bool:
        """Return whether the watch has reported that no container of a pod can run any more."""
        if held.dialect == DRA or held.release_by is not None:
            return False
        departure = self._cache.departures.noted(held.uid)
        if departure is None:
            pod = self._cache.pod(held.pod_ref.namespace, held.pod_ref.name)
            return pod is not None and pod.metadata.uid == held.uid and has_finished(pod)
        has_agent = ledger.node.name in self._cache.hardware
        return (
            release_by(departure, has_agent=has_agent, always=self._confirm_always, now=0) is None
        )
