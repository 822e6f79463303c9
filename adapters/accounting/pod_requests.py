"""What pods request: read once, then from a cache."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import Pod, full_name
from core.requests.request import Request

CACHED_PODS = 20_000
"""Pods that are cached; the least recently used one is evicted first."""

CACHED_BYTES = 64 << 20
"""Bytes that are cached of all pods together; a common pod with a share has less than 1 KiB."""

LARGEST_POD = 3 << 20
"""Bytes of a pod; a scheduler has none that the API server did not store.
Source: k8s.io/apiserver/pkg/server/config.go, MaxRequestBodyBytes."""

_SHOWN = 253
"""Characters of a pod's name that an error has; no valid name is longer."""

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod that requests a share.

    Attributes:
        pod: as it was when it was read.
        dialect: of the request.
        request: what the pod requests.
        size: bytes of the pod; 0 where it was not measured.
    """

    pod: Pod
    dialect: Dialect
    request: Request
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ClaimsPod:
    """A pod that waits for devices of ResourceClaims, of its own or made of what it requests.

    Of its ``request`` only the priority counts.
    """

    pod: Pod
    request: Request
    found: PodRequest | None

    @classmethod
    def of(cls, pod: Pod, found: PodRequest | None) -> "ClaimsPod":
        """Return it with what it requests beside its claims; None for nothing."""
        ref, priority = (pod.metadata.uid, full_name(pod)), pod.spec.priority or 0
        return cls(pod, Request(*ref, DRA, (), priority=priority), found)


Wanted = PodRequest | ClaimsPod


def read(pod: Pod, dialects: Sequence[Dialect]) -> PodRequest | None:
    """Return what a pod requests; None where it requests no share.

    Raises:
        DialectError: the request is invalid.
    """
    dialect = dialect_of(pod, dialects)
    return None if dialect is None else PodRequest(pod, dialect, dialect.read_request(pod))


def dialect_name(pod: Pod, dialects: Sequence[Dialect]) -> str | None:
    """Return the dialect of a pod, valid or not; None where it requests none, or several."""
    try:
        dialect = dialect_of(pod, dialects)
    except DialectError:
        return None
    return None if dialect is None else dialect.name


class PodRequestCache:
    """Reads pods, and caches what they request by uid."""

    def __init__(
        self, dialects: Sequence[Dialect], counted: Callable[[Pod], Pod] = lambda pod: pod
    ) -> None:
        """Know no pod yet.

        Args:
            dialects: all dialects.
            counted: returns a pod without what others than the ledger count of its requests.
        """
        self._dialects = tuple(dialects)
        self._counted = counted
        self._by_uid: OrderedDict[str, PodRequest] = OrderedDict()
        self._bytes = 0

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """All dialects, as the operator's policy configures them now."""
        return self._dialects

    def configure(self, dialects: Sequence[Dialect]) -> None:
        """Read all pods by a new policy from now on, those in the cache too."""
        self._dialects = tuple(dialects)
        pods = [each.pod for each in self._by_uid.values()]
        self._by_uid.clear()
        self._bytes = 0
        for pod in pods:
            try:
                self.read(pod)
            except DialectError:
                continue

    def read(self, pod: Pod) -> PodRequest | None:
        """Return what a pod requests; None where it requests no share.

        Raises:
            DialectError: the request is invalid, or the pod larger than the API server stores.
        """
        pod, uid = self._counted(pod), pod.metadata.uid
        cached = self._by_uid.get(uid) if uid else None
        if cached is not None and cached.pod == pod:
            self._by_uid.move_to_end(uid)
            return cached
        size = size_of(pod)
        if size > LARGEST_POD:
            at_most = f"of {size} bytes, more than the {LARGEST_POD} that the API server stores"
            raise DialectError("metadata.name", pod.metadata.name[:_SHOWN], f"is a pod {at_most}")
        pod_request = read(pod, self._dialects)
        if pod_request is None:
            return None
        pod_request = replace(pod_request, size=size)
        if uid:
            self.forget(uid)
            self._by_uid[uid] = pod_request
            self._bytes += size
            while len(self._by_uid) > CACHED_PODS or self._bytes > CACHED_BYTES:
                self.forget(next(iter(self._by_uid)))
        return pod_request

    def get(self, uid: str) -> PodRequest | None:
        """Return what a pod requested when it was last read."""
        return self._by_uid.get(uid)

    def forget(self, uid: str) -> None:
        """Drop a pod that was deleted."""
        forgotten = self._by_uid.pop(uid, None)
        if forgotten is not None:
            self._bytes -= forgotten.size


def template_of(pod: Pod) -> bytes:
    """Equal for pods that differ at most in name, uid, status, and what no dialect reads."""
    about = pod.metadata
    return _encoder.encode((about.namespace, about.labels, about.annotations, pod.spec))


def size_of(pod: Pod) -> int:
    """Bytes of all fields that are decoded of a pod."""
    return len(_encoder.encode(pod))
