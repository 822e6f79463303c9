"""Changes all pods that are not bound, so that no Binding of a deleted ledger's commit binds one.

Which pods were committed to that ledger is not known. A service that was stopped after such a
commit may send its Binding at any time; it names the version of the pod that it read.
"""

from collections.abc import Awaitable, Callable, Sequence

from adapters.dialects.dialect import Dialect
from adapters.repairs.repairs import NodeView
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.ports import Clock
from adapters.wire.kube import Pod, pod_ref
from core.requests.request import PodRef


class InvalidatedPods:
    """The pods that were changed last: one change serves all ledgers that were deleted before."""

    def __init__(
        self,
        cache: ClusterCache,
        change: Callable[[PodRef], Awaitable[Pod]],
        clock: Clock,
        grace: int,
    ) -> None:
        """Change nothing yet.

        Args:
            cache: the watched pods.
            change: changes a pod, and returns it as it is then.
            clock: of the service.
            grace: nanoseconds; every ledger for which pods are changed was deleted earlier.
        """
        self._cache = cache
        self._change = change
        self._clock = clock
        self._grace = grace
        self._changed: dict[str, int] = {}

    async def invalidate(self, view: NodeView, dialects: Sequence[Dialect]) -> bool:
        """Change every pod that requests a share and is not bound.

        Args:
            view: of the node whose ledger was deleted.
            dialects: all dialects.

        Returns:
            whether ``view`` has all pods of the node; else one was bound meanwhile, or the watch
            has not reported it yet.

        Raises:
            OSError: a pod is gone, or the API server did not answer.
        """
        name, now = view.ledger.node.name, self._clock.now()
        recent = {uid for uid, at in self._changed.items() if now - at < self._grace}
        for uid in self._changed.keys() - recent:
            self._changed.pop(uid, None)
        for pod in self._cache.unbound():
            uid = pod.metadata.uid
            if uid in recent or not any(dialect.matches(pod) for dialect in dialects):
                continue
            changed = await self._change(pod_ref(pod))
            if changed.spec.node_name == name:
                return False
            if not changed.spec.node_name:
                self._changed[uid] = now
        return all(pod.metadata.uid in view.bound for pod in self._cache.holding(name))
