"""What the pods of one node say, read once: most looks at them are due to one that is new."""

from collections.abc import Sequence

from adapters.dialects.adopt import adopt
from adapters.dialects.dialect import Dialect
from adapters.wire.kube import Pod
from core.hardware.node import Node
from core.requests.grant import Allocation

_Asked = tuple[Pod, Node, Sequence[Dialect]]


class AdoptionCache:
    """Reads as ``adopt`` does; of what was read in the look before, only what is read again stays.

    A pod is the same where it is the same object.
    """

    def __init__(self, before: "AdoptionCache | None" = None) -> None:
        self._before = {} if before is None else before._now
        self._now: dict[str, tuple[_Asked, Allocation | None]] = {}

    def __call__(self, pod: Pod, node: Node, dialects: Sequence[Dialect]) -> Allocation | None:
        """What a bound pod says that it holds."""
        uid, asked = pod.metadata.uid, (pod, node, dialects)
        known = self._now.get(uid) or self._before.get(uid)
        if known is None or not _same(known[0], asked):
            known = asked, adopt(pod, node, dialects)
        self._now[uid] = known
        return known[1]


def _same(one: _Asked, other: _Asked) -> bool:
    return one[0] is other[0] and one[1] == other[1] and one[2] is other[2]
