"""Calls of the ASGI application without a socket, and valid bodies for every route."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from gzip import compress
from typing import Any

from hypothesis import strategies as st

from adapters.service.observe.decision_log import StructuredDecisionLog, logger
from adapters.service.observe.metrics import Metrics
from adapters.service.standalone import routes as local_routes
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_binding,
    a_pod,
    a_service,
    capture,
    review,
    run,
)
from adapters.service.web.app import App
from adapters.service.web.dashboard.moves import PlanSource
from adapters.service.web.dashboard.routes import dashboard
from adapters.service.web.dashboard.views import AskAgents
from adapters.service.web.routes import people, schedulers
from adapters.service.web.tenants import tenants

DECISION_LOG = StructuredDecisionLog(logger("error", "json"), Metrics())


@dataclass(frozen=True)
class Got:
    status: int
    headers: Mapping[bytes, bytes]
    content: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.content)


async def app_of(
    bench: Bench, agents: AskAgents | None = None, plans: PlanSource | None = None
) -> App:
    async def metrics(gzip: bool) -> bytes:
        return compress(b"metrics\n") if gzip else b"metrics\n"

    found = {
        **schedulers(bench.service),
        **people(bench.service, metrics, DECISION_LOG.latest),
        **dashboard(bench.service, DECISION_LOG, bench.cluster.unbound, agents, plans),
        **tenants(bench.service, bench.cluster.unbound),
        **local_routes(bench.cluster, bench.service),
    }
    return App(found, DECISION_LOG)


async def call(
    app: App,
    method: str,
    path: str,
    content: bytes = b"",
    *,
    pieces: int = 1,
    cut: bool = False,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> Got | None:
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [*headers],
    }
    size = max(len(content) // pieces, 1)
    parts = [content[at : at + size] for at in range(0, len(content), size)] or [b""]
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": part, "more_body": cut or at < len(parts) - 1}
        for at, part in enumerate(parts)
    ]
    messages.append({"type": "http.disconnect"})
    sent: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if not sent:
        return None
    start, end = sent
    return Got(start["status"], dict(start["headers"]), end["body"])


def once(method: str, path: str, content: bytes = b"", **how: Any) -> Got:
    async def work() -> Got | None:
        return await call(await app_of(await a_service()), method, path, content, **how)

    got = run(work())
    assert got is not None
    return got


POSTS = sorted(path for method, path in schedulers(run(a_service()).service) if method == "POST")


GOOD: dict[str, bytes] = {
    "/extender/filter": capture("kube-scheduler/v1.37.1/filter-names.json"),
    "/extender/filter/1.38": capture("kube-scheduler/v1.37.1/filter-names.json"),
    "/extender/prioritize": capture("kube-scheduler/v1.37.1/prioritize-names.json"),
    "/extender/preempt": capture("kube-scheduler/v1.37.1/preempt-uids.json"),
    "/extender/bind": capture("kube-scheduler/v1.37.1/bind.json"),
    "/volcano/predicate": capture("volcano/v1.14.1/predicate.json"),
    "/volcano/prioritize": capture("volcano/v1.14.1/prioritize.json"),
    "/volcano/allocate": capture("volcano/v1.14.1/allocate.json"),
    "/volcano/deallocate": capture("volcano/v1.14.1/deallocate.json"),
    "/volcano/preemptable": capture("volcano/v1.14.1/preemptable.json"),
    "/volcano/reclaimable": capture("volcano/v1.14.1/reclaimable.json"),
    "/admission/pods": review(a_pod()),
    "/admission/bindings": review(a_binding("p", "n1"), sub="binding"),
}


def mutated(good: bytes) -> st.SearchStrategy[bytes]:
    """A valid body with some values replaced, cut, or with noise inside."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
        st.just([]),
        st.just({}),
        st.sampled_from(["-1", "1e999", "9" * 40, "NaN", "0.5", "12Qi"]),
    )

    @st.composite
    def spoilt(draw: st.DrawFn) -> bytes:
        value = json.loads(good)
        for _ in range(draw(st.integers(1, 4))):
            _exchange(draw, value, draw(leaves))
        text = json.dumps(value).encode()
        if draw(st.integers(0, 9)) == 0:
            at = draw(st.integers(0, len(text)))
            text = text[:at] + draw(st.binary(max_size=4)) + text[at:]
        return text

    return spoilt()


def _exchange(draw: st.DrawFn, value: Json, leaf: Json) -> None:
    for _ in range(40):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        below = value[key]
        if not isinstance(below, dict | list) or not below or draw(st.integers(0, 4)) == 0:
            value[key] = leaf
            return
        value = below
