"""The ASGI application: reads a body, calls a handler, responds. Every failure is a response."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import orjson

from adapters.sidecar.decide.readiness import NotReady
from adapters.sidecar.observe.request_timer import RequestMetrics, RequestTimer
from adapters.wire.body import BodyError
from core.requests.pod_ref import PodRef

Scope = Mapping[str, object]
Receive = Callable[[], Awaitable[Mapping[str, object]]]
Send = Callable[[Mapping[str, object]], Awaitable[None]]

MIB = 1 << 20
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Attributes:
        body: of the request.
        query: its parameters; the last value of a repeated one.
        rest: the part of the path that follows the route.
    """

    body: bytes = b""
    query: Mapping[str, str] = field(default_factory=dict)
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    body: bytes
    status: int = 200
    kind: str = JSON


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """What handles a path.

    Attributes:
        handler: that is called.
        verb: the name in metrics; empty for a route that is not measured.
        max_body: bytes of the longest body that is read.
    """

    handler: Handler
    verb: str = ""
    max_body: int = MIB


class App:
    """All routes by path and method; one that ends in a slash matches every path below it."""

    def __init__(self, routes: Mapping[tuple[str, str], Route], metrics: RequestMetrics) -> None:
        self._routes = dict(routes)
        self._prefixes = tuple(path for _, path in routes if path.endswith("/") and path != "/")
        self._metrics = metrics

    def restricted_to(self, paths: Collection[str]) -> "App":
        """An application with those routes only whose path is one of ``paths``."""
        kept = {at: route for at, route in self._routes.items() if at[1] in paths}
        return App(kept, self._metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, as ASGI defines it."""
        if scope["type"] != "http":
            return
        answer = await self._respond(str(scope["method"]), str(scope["path"]), scope, receive)
        if answer is None:
            return
        headers = [
            (b"content-type", answer.kind.encode()),
            (b"content-length", str(len(answer.body)).encode()),
        ]
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

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
            return problem(404, f"not found: {path}")
        with self._metrics(route.verb) as timing:
            answer = await self._handle(route, scope, receive, path[len(base) :], timing)
            timing.status = 0 if answer is None else answer.status
        return answer

    async def _handle(
        self, route: Route, scope: Scope, receive: Receive, rest: str, timing: RequestTimer
    ) -> Answer | None:
        try:
            body = await _read(receive, route.max_body)
            if body is None:
                return None
            timing.size = len(body)
            query = dict(parse_qsl(_text(scope.get("query_string"))))
            return await route.handler(Call(body, query, rest))
        except BodyError as error:
            return problem(400, str(error))
        except NotReady as error:
            return problem(503, str(error))
        except Exception as error:
            number = self._metrics.failed(str(scope["path"]), error)
            return problem(500, f"internal error {number}; nothing was decided")


def problem(status: int, text: str) -> Answer:
    """An error response with a sentence."""
    return Answer(orjson.dumps({"error": text}), status)


def pod_named(text: str, uid: str = "") -> PodRef:
    """The pod that ``NAMESPACE/NAME`` names, or ``NAME`` in the namespace ``default``."""
    namespace, _, name = text.rpartition("/")
    return PodRef(namespace or "default", name, uid)


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else ""


async def _read(receive: Receive, max_body: int) -> bytes | None:
    """The whole body; None where the client disconnected before its end.

    Raises:
        BodyError: the body is too long.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        if isinstance(part, bytes):
            parts.append(part)
            size += len(part)
        if size > max_body:
            raise BodyError(f"the body is longer than {max_body} bytes")
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)
