"""Pods that fitted no node, until the requeuer makes their scheduler try again."""

from collections.abc import Callable
from itertools import islice

from adapters.accounting.pod_requests import CACHED_BYTES, PodRequest, size_of
from adapters.wire.kube import Pod

LIMIT = 10_000
"""Waiting pods that are kept, of ``CACHED_BYTES`` together; further ones wait for their scheduler's
own retry."""


class WaitingPods:
    """Refused pods in the order in which they are evaluated again."""

    def __init__(self) -> None:
        self._by_uid: dict[str, PodRequest] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._by_uid)

    def add(self, pod_request: PodRequest) -> None:
        """A scheduler learned that the pod fits no node."""
        uid, size = pod_request.request.uid, size_of(pod_request.pod)
        self.discard(uid)
        if uid and len(self._by_uid) < LIMIT and self._bytes + size <= CACHED_BYTES:
            self._by_uid[uid] = pod_request
            self._bytes += size

    def discard(self, uid: str) -> None:
        """The pod fits, or was deleted."""
        discarded = self._by_uid.pop(uid, None)
        if discarded is not None:
            self._bytes -= size_of(discarded.pod)

    def pop_fitting(self, most: int, fits: Callable[[PodRequest], bool]) -> list[Pod]:
        """Remove the pods that fit a node now; the others go to the end of the queue.

        Args:
            most: how many pods are evaluated; the next call goes on after them.
            fits: whether a pod fits any node.
        """
        fitting: list[Pod] = []
        for uid, pod_request in [*islice(self._by_uid.items(), most)]:
            self.discard(uid)
            if fits(pod_request):
                fitting.append(pod_request.pod)
            else:
                self.add(pod_request)
        return fitting
