"""Makes schedulers retry a pod: it changes an annotation of the pod."""

from adapters.cluster.api.error import CONFLICT, NOT_FOUND, ClusterError
from adapters.cluster.objects.pods import PodClient
from adapters.service.observe.decision_log import Logger
from adapters.wire.kube import Pod, full_name, pod_ref

RETRIED_AT = "dragoman.dev/retry"
"""Annotation of a rejected pod that may fit now; its value must be new each time."""


class PodWaker:
    """Writes the annotation."""

    def __init__(self, pods: PodClient, log: Logger) -> None:
        self._pods = pods
        self._log = log

    async def wake(self, pod: Pod, value: str) -> None:
        """Change the annotation.

        Raises:
            OSError: the API server rejected the change, or did not answer.
        """
        await self._pods.annotate(pod_ref(pod), {RETRIED_AT: value})

    def failed(self, pod: Pod, error: OSError) -> bool:
        """Log an error; return whether to try again, which is false for a pod that is gone."""
        self._log.info("retry.failed", pod=full_name(pod), text=str(error))
        return not isinstance(error, ClusterError) or error.status not in (NOT_FOUND, CONFLICT)
