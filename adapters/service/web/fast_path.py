"""The fast path: a small request whose head was seen before is answered as it arrives.

vc-scheduler sends hundreds of predicates for one pod, and the parser, the ASGI scope, a task and
two writes to the socket were nine tenths of the processor time of each. Go's client writes the
same header fields every time, and of the head only the value of Content-Length differs. So the
head of a request that took the usual path is kept, and a request with the same bytes is not parsed
again. Whatever differs takes the usual path: another field, a body in parts, requests in a row.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from adapters.service.observe.request_timer import RequestMetrics
from adapters.service.web.body_budget import SMALL
from adapters.service.web.browsers import is_foreign

Immediate = Callable[[bytes], bytes | None]
"""Answers a body without waiting for anything; None where that takes the usual path."""

HEADS = 16
"""Heads that are kept; a client has one for each route."""

LONGEST_HEAD = 1 << 10
"""Bytes of a head that is kept at most; that of Go's client has 180."""

FIELDS = frozenset({b"host", b"user-agent", b"content-length", b"content-type", b"accept-encoding"})
"""The header fields of a head that is kept: those of Go's client. A browser sends others."""

_LENGTH = b"\r\nContent-Length: "
_END = b"\r\n\r\n"
_DIGITS = len(str(SMALL))


@dataclass(frozen=True, slots=True)
class ImmediateRoute:
    """What answers the requests of a path.

    Attributes:
        answer: to a body.
        verb: the name in metrics.
    """

    answer: Immediate
    verb: str


class _Head(NamedTuple):
    """A head without the value of Content-Length, the value, and how many bytes the head has."""

    before: bytes
    after: bytes
    length: int
    end: int


class FastPath:
    """The heads that were seen, each split at the value of Content-Length."""

    def __init__(
        self,
        routes: Mapping[str, ImmediateRoute],
        metrics: RequestMetrics,
        hosts: Collection[str] = (),
    ) -> None:
        """Begin without a head.

        Args:
            routes: by path; their method is POST.
            metrics: counts requests and their seconds.
            hosts: names by which people reach the service, as ``App`` has them.
        """
        self._routes = dict(routes)
        self._metrics = metrics
        self._hosts = frozenset(hosts)
        self._heads: dict[tuple[bytes, bytes], ImmediateRoute] = {}

    def note(self, data: bytes, scope: Mapping[str, object]) -> None:
        """Keep the head of a request that is handled on the usual path, if it may be repeated.

        Args:
            data: what arrived; it begins with the head.
            scope: what ASGI says of the request. Its client keeps the connection open.
        """
        route = self._routes.get(str(scope["path"]))
        if route is None or scope["method"] != "POST" or scope["query_string"]:
            return
        headers = scope["headers"]
        if scope["http_version"] != "1.1" or not isinstance(headers, list):
            return
        names = [name for name, _ in headers]
        if not FIELDS.issuperset(names) or len({*names}) < len(names):
            return
        host = dict(headers).get(b"host", b"").decode("latin-1")
        head = _split(data)
        if head is None or is_foreign(host, self._hosts):
            return
        key = head.before, head.after
        self._heads.pop(key, None)
        self._heads[key] = route
        if len(self._heads) > HEADS:
            del self._heads[next(iter(self._heads))]

    def answer(self, data: bytes) -> bytes | None:
        """The answer to a request; None where it takes the usual path.

        Args:
            data: what arrived on a connection on which no request is in progress.
        """
        head = _split(data) if self._heads else None
        if head is None or len(data) != head.end + head.length:
            return None
        route = self._heads.get((head.before, head.after))
        if route is None:
            return None
        timing = self._metrics(route.verb)
        try:
            found = route.answer(data[head.end :])
        except Exception:  # the usual path meets it again, and reports it
            return None
        if found is not None:
            with timing:
                timing.status, timing.size = 200, head.length
        return found

    def awaits_more(self, data: bytes) -> bool:
        """Whether a known head arrived with the begin of its body.

        Go's client writes the first 4 KiB of a request, then the rest, and these may arrive apart.
        """
        head = _split(data) if self._heads else None
        if head is None or len(data) >= head.end + head.length:
            return False
        return (head.before, head.after) in self._heads


def _split(data: bytes) -> _Head | None:
    """The head of a request; None where it is too long, or announces no small body."""
    end = data.find(_END, 0, LONGEST_HEAD) + len(_END)
    at = data.find(_LENGTH, 0, end) + len(_LENGTH)
    if end < len(_END) or at < len(_LENGTH):
        return None
    stop = data.find(b"\r\n", at)
    digits = data[at:stop]
    if not digits.isdigit() or len(digits) > _DIGITS or int(digits) > SMALL:
        return None
    return _Head(data[:at], data[stop:end], int(digits), end)
