"""Reads the allocations in the annotations of one node's pods, each once.

Most reconciliations are due to one new pod, so that all others would be read again.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from adapters.dialects.adoption.adopt import adopt, disagreements
from adapters.dialects.dialect import Dialect
from adapters.wire.kube import Metadata, Pod
from core.hardware.node import Node
from core.requests.grant import Allocation

ResultT = TypeVar("ResultT")

_Arguments = tuple[Pod, Node, Sequence[Dialect]]


class _PodCache(Generic[ResultT]):
    """Returns what a function returns for a pod on its node; one for each reconciliation."""

    def __init__(
        self,
        function: Callable[[Pod, Node, Sequence[Dialect]], ResultT],
        before: "_PodCache[ResultT] | None",
    ) -> None:
        self._function = function
        self._before = {} if before is None else before._now
        self._now: dict[str, tuple[_Arguments, ResultT]] = {}

    def __call__(self, pod: Pod, node: Node, dialects: Sequence[Dialect]) -> ResultT:
        uid, arguments = pod.metadata.uid, (pod, node, dialects)
        entry = self._now.get(uid) or self._before.get(uid)
        if entry is None or not _same(entry[0], arguments):
            result = self._function(pod, node, dialects)
        else:
            result = entry[1]
        self._now[uid] = arguments, result
        return result


class AdoptionCache:
    """Returns what ``adopt`` and ``disagreements`` return.

    There is one for each reconciliation of a node; it keeps what it or the one before it has read.
    A pod counts as unchanged where only its status differs, which neither function reads: every
    pod that is bound is reported again when its containers run.
    """

    def __init__(self, before: "AdoptionCache | None" = None) -> None:
        self._adopt: _PodCache[Allocation | None] = _PodCache(
            adopt, None if before is None else before._adopt
        )
        self._compare: _PodCache[tuple[str, ...]] = _PodCache(
            disagreements, None if before is None else before._compare
        )

    def __call__(self, pod: Pod, node: Node, dialects: Sequence[Dialect]) -> Allocation | None:
        """Return the allocation in a bound pod's annotations; None where there is none."""
        return self._adopt(pod, node, dialects)

    def compare(self, pod: Pod, node: Node, dialects: Sequence[Dialect]) -> tuple[str, ...]:
        """Return where a bound pod's record differs from its request."""
        return self._compare(pod, node, dialects)


def _same(one: _Arguments, other: _Arguments) -> bool:
    """Return whether the pod differs in its status at most, and nothing else does."""
    (pod, node, dialects), (other_pod, other_node, other_dialects) = one, other
    if dialects is not other_dialects:
        return False
    if node is not other_node and node != other_node:  # a dataclass compares every card
        return False
    return pod is other_pod or (
        pod.spec == other_pod.spec
        and _unversioned(pod.metadata) == _unversioned(other_pod.metadata)
    )


def _unversioned(metadata: Metadata) -> Metadata:
    return msgspec.structs.replace(metadata, resource_version="")
