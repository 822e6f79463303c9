"""The ASGI application: reads a body, calls a handler, responds. Every failure is a response.

Pages of other sites may send requests from a person's browser; no other client is affected by what
is done against them. A browser states the page that sends a request in ``Origin`` or
``Sec-Fetch-Site``, for every method but GET and HEAD and whatever the content type is, and no page
can change that (Fetch Standard, "Append a request Origin header"; Fetch Metadata Request Headers).
Our own page only reads. Schedulers, the API server, Prometheus and curl send neither field.

Reading is not stopped by that where a name of the page's own site is made to point to this
machine (DNS rebinding): the browser then takes the service for that site, and only ``Host``
differs. Such a page reaches what the person reaches, above all a service or a forwarded port on
the person's machine.
"""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from io import BytesIO
from time import monotonic
from urllib.parse import parse_qsl

import orjson

from adapters.service.decide.ports import NotReady
from adapters.service.observe.decision_log import StructuredDecisionLog
from adapters.service.settings.sections import LimitSettings
from adapters.service.web.limits import DROP, MIB, BodyBudget, BudgetError, HeldBody
from adapters.wire.body import BodyError
from core.requests.request import PodRef

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

BUSY = "request bodies in memory have {} bytes, the limit; try again"
FOREIGN = "{!r} is no known name of this service: name it in hosts if people use it"

READING = frozenset({"GET", "HEAD"})

OF_BROWSERS = frozenset({b"origin", b"sec-fetch-site"})
"""Header fields that only browsers send, where the method is not one of ``READING``."""

PRIVATE = (".localhost", ".svc", ".local", ".internal", ".test")
"""Ends of names that no public name server resolves. Sources: RFC 6761, RFC 6762, ICANN resolution
2024.07.29.06; ``svc`` is Kubernetes' and no top-level domain."""

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
        """Return a header field, several joined by a comma; empty where the request has none."""
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
        metrics: StructuredDecisionLog,
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
        self._budget = budget or BodyBudget(LimitSettings().body_bytes, monotonic)
        self._hosts = frozenset(hosts)

    def restricted_to(self, paths: Collection[str]) -> "App":
        """Return an application with those routes only whose path is one of ``paths``."""
        kept = {at: route for at, route in self._routes.items() if at[1] in paths}
        return App(kept, self._metrics, self._budget, self._hosts)

    def refused(self, reason: str) -> None:
        """Count a request or connection that a limit refused."""
        self._metrics.refused(reason)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, as ASGI defines it."""
        if scope["type"] != "http":
            return
        method, fields, server = str(scope["method"]), _headers(scope), scope.get("server")
        host = next((value for name, value in fields if name == b"host"), b"").decode("latin-1")
        answer: Answer | None
        if is_from_a_page(method, [name for name, _ in fields]):
            self.refused("cross_site")
            answer = replace(problem(403, "pages in browsers may only read"), closes=True)
        elif isinstance(server, tuple) and is_loopback(server[0]) and is_foreign(host, self._hosts):
            self.refused("host")
            answer = replace(problem(421, FOREIGN.format(host[:253])), closes=True)
        else:
            answer = await self._respond(method, str(scope["path"]), scope, receive)
        if answer is None:
            return
        headers = [(b"content-type", answer.kind.encode()), *ALWAYS, *answer.headers]
        if all(name != b"cache-control" for name, _ in answer.headers):
            headers.append((b"cache-control", b"no-store"))
        if answer.status != HTTPStatus.NOT_MODIFIED:
            headers.append((b"content-length", str(len(answer.body)).encode()))
        if answer.closes:
            headers.append((b"connection", b"close"))
        body = b"" if method == "HEAD" else answer.body
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _respond(
        self, method: str, path: str, scope: Scope, receive: Receive
    ) -> Answer | None:
        """Return the answer to a request; None where the client disconnected."""
        base = path
        if ("GET", path) not in self._routes and ("POST", path) not in self._routes:
            base = next((known for known in self._prefixes if path.startswith(known)), path)
        route = self._routes.get(("GET" if method == "HEAD" else method, base))
        if route is None:
            allowed = sorted(known for known, at in self._routes if at == base)
            if allowed:
                return problem(405, f"method {method} is not allowed, only {' and '.join(allowed)}")
            return problem(404, f"not found: {path[:LONGEST_SHOWN]}")

        def displaced() -> None:
            """Close the connection of the request, because its body gave way to others."""
            self.refused("body_budget")
            extensions = scope.get("extensions")
            if isinstance(extensions, Mapping) and callable(drop := extensions.get(DROP)):
                drop()

        answer: Answer | None = None
        with self._metrics.timed(route.verb) as timing, self._budget.hold(displaced) as held:
            try:
                body = await _read(receive, min(route.max_body, self._budget.limit), held)
                if body is not None:
                    timing.size = len(body)
                    text = scope.get("query_string")
                    query = parse_qsl(text.decode("latin-1")) if isinstance(text, bytes) else ()
                    call = Call(body, dict(query), path[len(base) :], _headers(scope))
                    answer = await route.handler(call)
            except TooLongError as error:
                self.refused("body_bytes")
                answer = replace(problem(413, str(error)), closes=True)
            except BudgetError:
                self.refused("body_budget")
                answer = replace(problem(503, BUSY.format(self._budget.limit)), closes=True)
            except BodyError as error:
                answer = problem(400, str(error))
            except NotReady as error:
                answer = problem(503, str(error))
            except Exception as error:
                number = self._metrics.failed(path, error)
                answer = problem(500, f"internal error {number}; nothing was decided")
            timing.status = 0 if answer is None else answer.status
        return answer


def problem(status: int, text: str) -> Answer:
    """Return an error response with a sentence."""
    return Answer(orjson.dumps({"error": text}), status)


def pod_named(text: str, uid: str = "") -> PodRef:
    """Return the pod that ``NAMESPACE/NAME`` names, or ``NAME`` in the namespace ``default``."""
    namespace, _, name = text.rpartition("/")
    return PodRef(namespace or "default", name, uid)


def _headers(scope: Scope) -> Headers:
    headers = scope.get("headers")
    return headers if isinstance(headers, list | tuple) else ()


async def _read(receive: Receive, max_body: int, held: HeldBody) -> bytes | None:
    """Return the whole body; None where the client disconnected before its end.

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


def is_from_a_page(method: str, names: Collection[bytes]) -> bool:
    """Return whether a page in a browser sends something, instead of reading.

    The names are those of the header fields, in lower case.
    """
    return method not in READING and not OF_BROWSERS.isdisjoint(names)


def is_loopback(address: object) -> bool:
    """Return whether a request came to an address that only this machine reaches."""
    return address == "::1" or str(address).removeprefix("::ffff:").startswith("127.")


def is_foreign(host: str, known: Collection[str]) -> bool:
    """Return whether a page of any site could have this host, so that it may be a rebound name.

    Args:
        host: the value of Host; empty for a client that sends none, which is no browser.
        known: names by which people reach the service, in lower case.
    """
    ends = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    name = ends.lower().rstrip(".")
    if not name or "." not in name or name in known or name.endswith(PRIVATE):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False
