"""What a pod asks for, read once, and the pods whose wishes are known."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.registry import dialect_of
from adapters.wire.kube import Pod
from core.requests.request import Request

REMEMBERED = 20_000
"""Pods whose wishes are remembered; those that were not asked about for longest are forgotten."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod that asks for a share.

    Attributes:
        pod: as it was when it was read.
        dialect: in whose words it asks.
        request: what it asks for.
    """

    pod: Pod
    dialect: Dialect
    request: Request


def read(pod: Pod, dialects: Sequence[Dialect]) -> PodRequest | None:
    """What a pod asks for; None where it asks for no share.

    Raises:
        DialectError: it cannot be meant.
    """
    dialect = dialect_of(pod, dialects)
    return None if dialect is None else PodRequest(pod, dialect, dialect.read_request(pod))


class PodRequestCache:
    """Reads pods, and remembers those that it has read."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = tuple(dialects)
        self._known: OrderedDict[str, PodRequest] = OrderedDict()

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """All vocabularies, as the operator's policy has them now."""
        return self._dialects

    def configure(self, dialects: Sequence[Dialect]) -> None:
        """Read all pods by a new policy from now on."""
        self._dialects = tuple(dialects)
        pods = [asking.pod for asking in self._known.values()]
        self._known.clear()
        for pod in pods:
            try:
                self.read(pod)
            except DialectError:
                continue

    def read(self, pod: Pod) -> PodRequest | None:
        """What a pod asks for; None where it asks for no share.

        Raises:
            DialectError: it cannot be meant.
        """
        uid = pod.metadata.uid
        known = self._known.get(uid) if uid else None
        if known is not None and known.pod == pod:
            self._known.move_to_end(uid)
            return known
        found = read(pod, self._dialects)
        if found is not None and uid:
            self._known[uid] = found
            self._known.move_to_end(uid)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    def get(self, uid: str) -> PodRequest | None:
        """What a pod asked for when it was last read."""
        return self._known.get(uid)

    def forget(self, uid: str) -> None:
        """The pod has gone."""
        self._known.pop(uid, None)
