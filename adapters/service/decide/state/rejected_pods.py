"""Pods that fitted no node: those that wait for room, and where an eviction may make it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from adapters.accounting.pod_requests import CACHED_BYTES, PodRequest, size_of
from adapters.wire.kube import Pod
from core.durations import SECOND

KEPT = 256
"""Rejected pods that are kept: those of the highest priority."""

NODES = 64
"""Nodes that are kept of a rejection; the next one of the pod keeps others."""

ASKED = 10 * SECOND
"""Nanoseconds after which a scheduler that was given victims for a pod has begun to evict them."""

SERIES = 120 * SECOND
"""Nanoseconds in which a scheduler that is given victims again and again is waited for once: one
that evicts none of them must not keep the service from it for ever."""


@dataclass(slots=True)
class RejectedPod:
    """A pod that was rejected, since its scheduler asked for the first time.

    Attributes:
        pod: as its scheduler sent it last.
        since: when it was rejected for the first time, in nanoseconds of the clock.
        asked: when it was rejected for the last time.
        nodes: some of those that its scheduler named last and where evictions may help. On all of
            them the pod has everything but cards.
        named: when its scheduler was given victims, for the first time of a series; None where it
            was not.
    """

    pod: PodRequest
    since: int
    asked: int
    nodes: tuple[str, ...] = ()
    named: int | None = field(default=None)

    def is_preempting(self, now: int) -> bool:
        """Return whether its scheduler is about to evict pods for it itself."""
        return self.named is not None and now - self.named < ASKED


class RejectedPods:
    """What this process has rejected: another replica answers for what it was asked."""

    def __init__(self) -> None:
        self._by_uid: dict[str, RejectedPod] = {}
        self._offset = 0

    def rejected(self, pod: PodRequest, nodes: Sequence[str], now: int) -> None:
        """No node has cards for a pod.

        Args:
            pod: the pod.
            nodes: where evictions may help.
            now: in nanoseconds of the clock.
        """
        uid = pod.request.uid
        known = self._by_uid.get(uid) or RejectedPod(pod, now, now)
        self._by_uid[uid] = known
        known.pod, known.nodes, known.asked = pod, self._some(nodes), now
        if len(self._by_uid) > KEPT:
            last = max(reversed(self._by_uid.values()), key=_place)
            del self._by_uid[last.pod.request.uid]

    def named_victims(self, uid: str, now: int) -> None:
        """Note that the scheduler of a pod was given victims."""
        known = self._by_uid.get(uid)
        if known is not None and (known.named is None or now - known.named >= SERIES):
            known.named = now

    def woken(self, uid: str) -> None:
        """Forget the nodes of a pod that fits one now: its scheduler tries it again."""
        known = self._by_uid.get(uid)
        if known is not None:
            known.nodes = ()

    def discard(self, uid: str) -> None:
        """Forget a pod that fits, or was deleted."""
        self._by_uid.pop(uid, None)

    def all(self) -> list[RejectedPod]:
        """Return all: the highest priority first, and of equal ones the oldest rejection."""
        return sorted(self._by_uid.values(), key=_place)

    def _some(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Return some of many nodes, others at each call."""
        if len(nodes) <= NODES:
            return tuple(nodes)
        self._offset = (self._offset + NODES) % len(nodes)
        return tuple((*nodes[self._offset :], *nodes[: self._offset])[:NODES])


def _place(one: RejectedPod) -> tuple[int, int]:
    """Return the place of a pod among all."""
    return -one.pod.request.priority, one.since


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
        """Keep a pod of which a scheduler learned that it fits no node."""
        uid, size = pod_request.request.uid, size_of(pod_request.pod)
        self.discard(uid)
        if uid and len(self._by_uid) < LIMIT and self._bytes + size <= CACHED_BYTES:
            self._by_uid[uid] = pod_request
            self._bytes += size

    def discard(self, uid: str) -> None:
        """Forget a pod that fits, or was deleted."""
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
