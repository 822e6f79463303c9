"""Tasks of vc-scheduler that were seen: a later body with one is not decoded again.

vc-scheduler asks about each node with a body of its own, which has the whole task first and then
the whole node: thousands of bodies, kilobytes each, that begin alike. Such a beginning ends inside
the name of the node, so that only the name is left to read. Nothing that an author writes can pose
as a beginning: it is compared byte by byte, and inside of JSON's strings quotes are escaped.
"""

from collections import deque
from dataclasses import dataclass

from adapters.accounting.pod_requests import PodRequest, PodRequestCache
from adapters.wire import volcano

TASKS = 4
"""Tasks that are kept: vc-scheduler asks about one task after the other."""

MAX_BEGINNING = 256 << 10
"""Bytes of a task that is kept at most; a usual one has 3 KiB."""


@dataclass(frozen=True, slots=True)
class _SeenTask:
    beginning: bytes
    pod_request: PodRequest


class SeenTasks:
    """What the latest tasks request, by the beginnings of their bodies."""

    def __init__(self, pod_requests: PodRequestCache) -> None:
        self._pod_requests = pod_requests
        self._latest: deque[_SeenTask] = deque(maxlen=TASKS)

    def find(self, content: bytes) -> tuple[PodRequest, str] | None:
        """What the task of a body requests, and the body's node; None where it must be decoded."""
        for seen in self._latest:
            if content.startswith(seen.beginning):
                pod_request = seen.pod_request
                if self._pod_requests.get(pod_request.request.uid) is not pod_request:
                    return None  # the pod was deleted, or its policy has changed
                name = volcano.node_name_after(content, len(seen.beginning))
                return None if name is None else (pod_request, name)
        return None

    def note(self, content: bytes, pod_request: PodRequest) -> None:
        """Keep the task of a body, if the body is as vc-scheduler writes it."""
        beginning = volcano.beginning_of(content)
        if beginning is not None and len(beginning) <= MAX_BEGINNING:
            self._latest.appendleft(_SeenTask(beginning, pod_request))
