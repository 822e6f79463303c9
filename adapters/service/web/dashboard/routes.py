"""The routes of the dashboard: its files, and its questions below ``/api/dashboard``."""

import asyncio
import gzip
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.resources import files
from pathlib import PurePosixPath

import orjson

from adapters.dialects import registry
from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRA
from adapters.service.decide.service import Service, UnknownPod
from adapters.service.observe.decision_log import StructuredDecisionLog
from adapters.service.web.app import JSON, Answer, Call, Route, pod_named, problem
from adapters.service.web.dashboard import moves as move_views
from adapters.service.web.dashboard import views
from adapters.service.web.dashboard.moves import PlanReader, PlanSource
from adapters.service.web.dashboard.overview import overview as first_screen
from adapters.service.web.dashboard.rows import FleetIndex, QueryError, decisions
from adapters.wire.kube import Pod
from adapters.wire.records.quota import limited_amounts
from core.requests.grant import KUBELET

KEPT = 32
"""Answers of one question that are kept, by its parameters; the least recently used goes first."""

SMALL = 1000
"""Bytes of a body that is not worth compressing."""

REVALIDATE = (b"cache-control", b"private, no-cache")
"""A browser may keep the answer, and asks each time whether it is still the same."""

VARY = (b"vary", b"accept-encoding")

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

FOREVER = (b"cache-control", b"public, max-age=31536000, immutable")
"""The caching of a path with the digest of all files: it never has another content."""

POLICY = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    b" base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
)
"""The page loads and calls only its own origin, and no other page may frame it."""

PAGE_HEADERS = (
    POLICY,
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)

_DIALECTS = b"[/* the service inserts the dialects and their colors */]"
_STATIC = b"static/"


@dataclass(frozen=True, slots=True)
class Content:
    """A body as it is sent.

    Attributes:
        packed: with gzip; None where that saves nothing.
        tag: of the content; weak, because both forms have it.
    """

    plain: bytes
    packed: bytes | None
    tag: bytes
    kind: str = JSON

    @classmethod
    def of(cls, plain: bytes, kind: str = JSON, level: int = 1) -> "Content":
        """Compress a body, and compute its tag."""
        packed = gzip.compress(plain, level, mtime=0) if len(plain) > SMALL else None
        digest = blake2b(plain, digest_size=12).hexdigest()
        return cls(plain, packed, f'W/"{digest}"'.encode(), kind)

    def answer(self, call: Call, cache: tuple[bytes, bytes] = REVALIDATE) -> Answer:
        """Return the response: 304 where the client has this content."""
        headers = ((b"etag", self.tag), cache, VARY)
        known = call.header(b"if-none-match").split(b",")
        strong = self.tag.removeprefix(b"W/")
        if strong in (each.strip().removeprefix(b"W/") for each in known):
            return Answer(b"", 304, self.kind, headers=headers)
        if self.packed is not None and call.gzip:
            packed = (*headers, (b"content-encoding", b"gzip"))
            return Answer(self.packed, kind=self.kind, headers=packed)
        return Answer(self.plain, kind=self.kind, headers=headers)


@dataclass(eq=False, slots=True)
class ConditionalView:
    """One question; its answers are computed again only when what they show may differ.

    A version differs when an answer may, and None is unknown.
    """

    _version: Callable[[], Awaitable[Hashable]]
    _view: Callable[[Call], Awaitable[object]]
    _kept: OrderedDict[Hashable, tuple[Hashable, Content]] = field(default_factory=OrderedDict)

    async def answer(self, call: Call) -> Answer:
        """Answer a request."""
        version, key = await self._version(), tuple(sorted(call.query.items()))
        known, content = self._kept.get(key, (None, None))
        if content is None or version is None or known != version:
            content = Content.of(orjson.dumps(await self._view(call)))
            self._kept[key] = (version, content)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return content.answer(call)


class StaticFiles:
    """Answers for the page and for its files.

    The page names its files by relative paths, so that it works below any path of a proxy.
    """

    def __init__(self) -> None:
        """Read all files of the package."""
        folder = files("adapters.service.web.dashboard").joinpath("static")
        found = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
        page = found.pop("index.html")
        self._files = {
            name: Content.of(body, KINDS[PurePosixPath(name).suffix], 9)
            for name, body in sorted(found.items())
        }
        digest = blake2b(digest_size=8)
        for content in self._files.values():
            digest.update(content.tag)
        self.digest = digest.hexdigest()
        dialects = [
            {"name": info.name, "color": info.style.web_color, "letter": info.style.letter}
            for info in registry.DIALECTS
        ]
        dialects.append({"name": DRA, "color": "#c2427d", "letter": "C"})
        dialects.append({"name": KUBELET, "color": "#66707a", "letter": "P"})
        page = page.replace(_DIALECTS, orjson.dumps(dialects)).replace(
            b'"' + _STATIC, b'"' + _STATIC + self.digest.encode() + b"/"
        )
        self._page = Content.of(page, KINDS[".html"], 9)

    async def page(self, call: Call) -> Answer:
        """Return the page itself."""
        answer = self._page.answer(call)
        return Answer(
            answer.body, answer.status, answer.kind, headers=(*answer.headers, *PAGE_HEADERS)
        )

    async def file(self, call: Call) -> Answer:
        """Return a file, as ``DIGEST/NAME``.

        Another replica's page may name another digest: it gets what is here, and does not keep it.
        """
        digest, _, name = call.rest.partition("/")
        content = self._files.get(name)
        if content is None:
            return problem(404, f"the dashboard has no file {name[:80]!r}")
        return content.answer(call, FOREVER if digest == self.digest else REVALIDATE)


INERT = (b"content-security-policy", b"default-src 'none'; sandbox")
"""A picture that is opened as a page loads nothing and runs nothing."""


class NotFoundError(LookupError):
    """There is no such node or pod."""


def dashboard(
    service: Service,
    history: StructuredDecisionLog,
    unbound: Callable[[], Sequence[Pod]],
    agents: views.AskAgents | None,
    plans: PlanSource | None,
) -> dict[tuple[str, str], Route]:
    """Return the routes.

    Args:
        service: whose ledgers are shown.
        history: the decision log.
        unbound: the pods that no scheduler has bound.
        agents: asks the node agents what is used; None where they are not asked.
        plans: of moves; None where none is carried out, and then there is no question about them.
    """
    index, static = FleetIndex(service.ledgers, service.facts), StaticFiles()
    reader = None if plans is None else PlanReader(plans)
    replica, since = socket.gethostname(), datetime.now(UTC).isoformat(timespec="seconds")

    async def summary(_: Call) -> object:
        return {
            **await views.summary(index),
            "pending": sum(views.requests(service, pod) for pod in unbound()),
            "awaited": service.readiness.text(),
            "moves": plans is not None,
        }

    async def node(call: Call) -> object:
        name = call.query.get("name", "")
        found = await views.node(index, history, name)
        if found is None:
            raise NotFoundError(f"node {name[:80]!r} is not known to this service")
        return {**found, "replica": replica, "since": since}

    def quota(call: Call) -> dict[str, object]:
        """Return the quota of the chosen namespace, or None."""
        stored = service.quotas.get(call.query.get("namespace", ""))
        return {"quota": None if stored is None else limited_amounts(stored.quota)}

    async def pods(call: Call) -> object:
        return {**await views.pods(index, call.query), **quota(call)}

    async def pod(call: Call) -> object:
        name = str(pod_named(call.query.get("name", "")))
        found = await views.pod(index, service, history, unbound(), name)
        if found is None:
            raise NotFoundError(f"pod {name[:200]!r} is not known to this service")
        if reader is not None and found["pending"]:
            query = {"pod": name}
            found |= await move_views.moves(service.ledgers.inventory, await reader.read(), query)
        return {**found, "replica": replica, "since": since}

    async def pending(call: Call) -> object:
        return {**await views.pending(service, history, unbound, call.query), **quota(call)}

    async def overview(call: Call) -> object:
        waiting = await views.waiting(service, history, unbound)
        return await first_screen(index, waiting, call.query)

    async def decided(call: Call) -> object:
        return {**decisions(history, call.query), "replica": replica, "since": since}

    async def explain(call: Call) -> object:
        """Return a pod against all nodes as they are now; nothing is allocated."""
        service.check_ready()
        pod = await service.find(pod_named(call.query.get("name", "")))
        service.pod_requests.read(pod)
        return views.explained(await service.explain(pod))

    async def unknown() -> Hashable:
        """Return the version of what other components change too."""
        return None

    async def recorded() -> Hashable:
        return history.recorded

    def with_nodes(*also: Callable[[], Hashable]) -> Callable[[], Awaitable[Hashable]]:
        """Return the version of the nodes, and of what else an answer shows."""

        async def version() -> Hashable:
            return await index.version(), *(each() for each in also)

        return version

    questions: dict[
        str, tuple[Callable[[], Awaitable[Hashable]], Callable[[Call], Awaitable[object]]]
    ] = {
        "summary": (with_nodes(lambda: service.readiness.awaited, lambda: len(unbound())), summary),
        "overview": (unknown, overview),
        "nodes": (with_nodes(), lambda call: views.nodes(index, call.query)),
        "node": (with_nodes(lambda: history.recorded), node),
        "pods": (with_nodes(lambda: service.quotas.revision), pods),
        "pod": (unknown, pod),
        "pending": (unknown, pending),
        "used": (unknown, lambda call: views.used(index, agents, call.query)),
        "decisions": (recorded, decided),
        "explain": (unknown, explain),
    }
    handlers: dict[str, Callable[[Call], Awaitable[Answer]]] = {}
    if reader is not None:
        drawing, inventory = asyncio.Lock(), service.ledgers.inventory

        async def moves(call: Call) -> object:
            return await move_views.moves(inventory, await reader.read(), call.query)

        async def picture(call: Call) -> Answer:
            name, recent = call.query.get("plan", ""), await reader.read()
            async with drawing:  # in a thread: a plan of many nodes takes long, and schedulers wait
                drawn = await asyncio.to_thread(move_views.plan_picture, inventory, recent, name)
            if drawn is None:
                raise NotFoundError(f"there is no picture of a plan {name[:80]!r}")
            answer = Content.of(drawn.encode(), KINDS[".svg"]).answer(call)
            return replace(answer, headers=(*answer.headers, INERT))

        questions["moves"], handlers["picture"] = (unknown, moves), picture
    handlers |= {name: ConditionalView(*each).answer for name, each in questions.items()}
    return {
        ("GET", "/"): Route(static.page),
        ("GET", "/static/"): Route(static.file),
        **{
            ("GET", f"/api/dashboard/{name}"): Route(_answered(each))
            for name, each in handlers.items()
        },
    }


def _answered(handler: Callable[[Call], Awaitable[Answer]]) -> Callable[[Call], Awaitable[Answer]]:
    async def answer(call: Call) -> Answer:
        try:
            return await handler(call)
        except QueryError as error:
            return problem(400, str(error))
        except (NotFoundError, UnknownPod) as error:
            return problem(404, str(error))
        except DialectError as error:
            return problem(422, str(error))

    return answer
