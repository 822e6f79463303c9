"""The ASGI application: reads a body, asks a handler, answers. Every failure is an error answer."""

from collections.abc import Awaitable, Callable, Mapping
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
        query: its parameters; of one that stands twice, the last.
        rest: what of the path follows the route.
    """

    body: bytes = b""
    query: Mapping[str, str] = field(default_factory=dict)
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    body: bytes
    status: int = 200
    kind: str = JSON


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers.

    Attributes:
        handler: who.
        verb: under which name the time that it takes is counted; empty for not at all.
        most: bytes of the longest body that is read.
    """

    handler: Handler
    verb: str = ""
    max_body: int = MIB


class App:
    """All routes by path and method; a path that ends in a slash takes what follows."""

    def __init__(self, routes: Mapping[tuple[str, str], Route], timed: RequestMetrics) -> None:
        self._routes = dict(routes)
        self._open = tuple(path for _, path in routes if path.endswith("/") and path != "/")
        self._timed = timed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI says."""
        if scope["type"] != "http":
            return
        answer = await self._answer(str(scope["method"]), str(scope["path"]), scope, receive)
        if answer is None:
            return
        headers = [
            (b"content-type", answer.kind.encode()),
            (b"content-length", str(len(answer.body)).encode()),
        ]
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, method: str, path: str, scope: Scope, receive: Receive
    ) -> Answer | None:
        base = path
        if ("GET", path) not in self._routes and ("POST", path) not in self._routes:
            base = next((known for known in self._open if path.startswith(known)), path)
        route = self._routes.get(("GET" if method == "HEAD" else method, base))
        if route is None:
            allowed = sorted(known for known, at in self._routes if at == base)
            if allowed:
                return problem(405, f"{method} is not answered here, {' and '.join(allowed)} is")
            return problem(404, f"there is nothing at {path}")
        with self._timed(route.verb) as timing:
            answer = await self._ask(route, scope, receive, path[len(base) :], timing)
            timing.status = 0 if answer is None else answer.status
        return answer

    async def _ask(
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
            number = self._timed.failed(str(scope["path"]), error)
            return problem(500, f"internal error {number}; nothing was decided")


def problem(status: int, text: str) -> Answer:
    """A no in a sentence."""
    return Answer(orjson.dumps({"error": text}), status)


def pod_named(text: str, uid: str = "") -> PodRef:
    """The pod that ``NAMESPACE/NAME`` names, or ``NAME`` in the namespace ``default``."""
    namespace, _, name = text.rpartition("/")
    return PodRef(namespace or "default", name, uid)


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else ""


async def _read(receive: Receive, most: int) -> bytes | None:
    """The whole body; None where the asker has gone before its end.

    Raises:
        BodyError: it is longer than it may be.
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
        if size > most:
            raise BodyError(f"the body is longer than {most} bytes")
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)
