"""The ASGI application: reads a body, calls a handler, responds. Every failure is a response."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from io import BytesIO
from time import monotonic
from urllib.parse import parse_qsl

import orjson

from adapters.service.decide.state.readiness import NotReady
from adapters.service.observe.request_timer import RequestMetrics, RequestTimer
from adapters.service.web.body_budget import BodyBudget, BudgetError, HeldBody
from adapters.service.web.browsers import is_foreign, is_from_a_page, is_loopback
from adapters.service.web.limits import DROP, MIB, PortLimits
from adapters.wire.body import BodyError
from core.requests.pod_ref import PodRef

Scope = Mapping[str, object]
Receive = Callable[[], Awaitable[Mapping[str, object]]]
Send = Callable[[Mapping[str, object]], Awaitable[None]]

Headers = Sequence[tuple[bytes, bytes]]

JSON = "application/json"

LONGEST_SHOWN = 200
"""Characters of a path that an answer repeats."""

ALWAYS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Header fields of every response: no page of another site may embed one."""

FOREIGN = "{!r} is no known name of this service: name it in hosts if people use it"

_ZERO = re.compile(rb"q=0(\.0{0,3})?")


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Attributes:
        body: of the request.
        query: its parameters; the last value of a repeated one.
        rest: the part of the path that follows the route.
        headers: names in lower case, and values.
    """

    body: bytes = b""
    query: Mapping[str, str] = field(default_factory=dict)
    rest: str = ""
    headers: Headers = ()

    def header(self, name: bytes) -> bytes:
        """A header field, several joined by a comma; empty where the request has none."""
        return b",".join(value for known, value in self.headers if known == name)

    @property
    def gzip(self) -> bool:
        """Whether Accept-Encoding names gzip, and not with weight 0 (RFC 9110, section 12.5.3)."""
        for each in self.header(b"accept-encoding").lower().split(b","):
            coding, _, weight = each.partition(b";")
            if coding.strip() == b"gzip":
                return not _ZERO.fullmatch(weight.strip())
        return False


@dataclass(frozen=True, slots=True)
class Answer:
    """A response.

    Attributes:
        closes: the connection, of which the rest of the body is not read.
        headers: beside those of every response.
    """

    body: bytes
    status: int = 200
    kind: str = JSON
    closes: bool = False
    headers: Headers = ()


class TooLongError(Exception):
    """A body is longer than its route reads; the text says how long it may be."""


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """What handles a path.

    Attributes:
        handler: answers a request.
        verb: the name in metrics; empty for a route that is not measured.
        max_body: bytes of the longest body that is read.
    """

    handler: Handler
    verb: str = ""
    max_body: int = MIB


class App:
    """All routes by path and method; one that ends in a slash matches every path below it."""

    def __init__(
        self,
        routes: Mapping[tuple[str, str], Route],
        metrics: RequestMetrics,
        budget: BodyBudget | None = None,
        hosts: Collection[str] = (),
    ) -> None:
        """Compose the application.

        Args:
            routes: by method and path.
            metrics: counts requests and their seconds.
            budget: bytes of all bodies in memory; None for the default limit.
            hosts: names by which people reach it over a loopback address, in lower case.
        """
        self._routes = dict(routes)
        self._prefixes = tuple(path for _, path in routes if path.endswith("/") and path != "/")
        self._metrics = metrics
        self._budget = budget or BodyBudget(PortLimits().body_bytes, monotonic)
        self._hosts = frozenset(hosts)

    def restricted_to(self, paths: Collection[str]) -> "App":
        """An application with those routes only whose path is one of ``paths``."""
        kept = {at: route for at, route in self._routes.items() if at[1] in paths}
        return App(kept, self._metrics, self._budget, self._hosts)

    def refused(self, reason: str) -> None:
        """Count a request or connection that a limit refused."""
        self._metrics.refused(reason)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, as ASGI defines it."""
        if scope["type"] != "http":
            return
        answer = self._refusal(scope)
        if answer is None:
            answer = await self._respond(str(scope["method"]), str(scope["path"]), scope, receive)
        if answer is None:
            return
        headers = [(b"content-type", answer.kind.encode()), *ALWAYS, *answer.headers]
        if all(name != b"cache-control" for name, _ in answer.headers):
            headers.append((b"cache-control", b"no-store"))
        if answer.status != HTTPStatus.NOT_MODIFIED:
            headers.append((b"content-length", str(len(answer.body)).encode()))
        if answer.closes:
            headers.append((b"connection", b"close"))
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> Answer | None:
        """The answer to a request that a page of another site makes a browser send."""
        fields = _headers(scope)
        if is_from_a_page(str(scope["method"]), [name for name, _ in fields]):
            self.refused("cross_site")
            return replace(problem(403, "pages in browsers may only read"), closes=True)
        server = scope.get("server")
        if isinstance(server, tuple) and is_loopback(server[0]):
            host = next((value for name, value in fields if name == b"host"), b"").decode("latin-1")
            if is_foreign(host, self._hosts):
                self.refused("host")
                return replace(problem(421, FOREIGN.format(host[:253])), closes=True)
        return None

    async def _respond(
        self, method: str, path: str, scope: Scope, receive: Receive
    ) -> Answer | None:
        base = path
        if ("GET", path) not in self._routes and ("POST", path) not in self._routes:
            base = next((known for known in self._prefixes if path.startswith(known)), path)
        route = self._routes.get(("GET" if method == "HEAD" else method, base))
        if route is None:
            allowed = sorted(known for known, at in self._routes if at == base)
            if allowed:
                return problem(405, f"method {method} is not allowed, only {' and '.join(allowed)}")
            return problem(404, f"not found: {path[:LONGEST_SHOWN]}")
        with self._metrics(route.verb) as timing:
            answer = await self._handle(route, scope, receive, path[len(base) :], timing)
            timing.status = 0 if answer is None else answer.status
        return answer

    async def _handle(
        self, route: Route, scope: Scope, receive: Receive, rest: str, timing: RequestTimer
    ) -> Answer | None:
        with self._budget.hold(partial(self._displaced, scope)) as held:
            try:
                body = await _read(receive, min(route.max_body, self._budget.limit), held)
                if body is None:
                    return None
                timing.size = len(body)
                query = dict(parse_qsl(_text(scope.get("query_string"))))
                return await route.handler(Call(body, query, rest, _headers(scope)))
            except TooLongError as error:
                self.refused("body_bytes")
                return replace(problem(413, str(error)), closes=True)
            except BudgetError:
                self.refused("body_budget")
                return replace(problem(503, self._busy), closes=True)
            except BodyError as error:
                return problem(400, str(error))
            except NotReady as error:
                return problem(503, str(error))
            except Exception as error:
                number = self._metrics.failed(str(scope["path"]), error)
                return problem(500, f"internal error {number}; nothing was decided")

    def _displaced(self, scope: Scope) -> None:
        """Close the connection of a request whose body gave way to others."""
        self.refused("body_budget")
        extensions = scope.get("extensions")
        if isinstance(extensions, Mapping) and callable(drop := extensions.get(DROP)):
            drop()

    @property
    def _busy(self) -> str:
        return f"request bodies in memory have {self._budget.limit} bytes, the limit; try again"


def problem(status: int, text: str) -> Answer:
    """An error response with a sentence."""
    return Answer(orjson.dumps({"error": text}), status)


def pod_named(text: str, uid: str = "") -> PodRef:
    """The pod that ``NAMESPACE/NAME`` names, or ``NAME`` in the namespace ``default``."""
    namespace, _, name = text.rpartition("/")
    return PodRef(namespace or "default", name, uid)


def _headers(scope: Scope) -> Headers:
    headers = scope.get("headers")
    return headers if isinstance(headers, list | tuple) else ()


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else ""


async def _read(receive: Receive, max_body: int, held: HeldBody) -> bytes | None:
    """The whole body; None where the client disconnected before its end.

    Raises:
        TooLongError: the body is too long.
        BudgetError: there is no memory for it now.
    """
    read = BytesIO()  # getvalue returns its buffer, where a join would need the memory twice
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        if isinstance(part, bytes):
            size += len(part)
            if size > max_body:
                raise TooLongError(f"the body is longer than {max_body} bytes")
            held.grow(len(part))
            read.write(part)
        if not message.get("more_body"):
            held.arrived()
            return read.getvalue()
