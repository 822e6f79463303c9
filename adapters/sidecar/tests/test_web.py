"""The service over HTTP, without a socket: every route, and every kind of error."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.sidecar.observe.decision_log import StructuredDecisionLog, logger
from adapters.sidecar.observe.metrics import Metrics
from adapters.sidecar.standalone.cluster import routes as local_routes
from adapters.sidecar.tests.builders import (
    Bench,
    Json,
    a_binding,
    a_pod,
    a_service,
    body,
    capture,
    review,
    run,
)
from adapters.sidecar.web.app import App
from adapters.sidecar.web.routes import people, schedulers

JOURNAL = StructuredDecisionLog(logger("error", "json"), Metrics())


@dataclass(frozen=True)
class Got:
    status: int
    headers: Mapping[bytes, bytes]
    content: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.content)


async def app_of(bench: Bench) -> App:
    async def metrics() -> bytes:
        return b"metrics\n"

    found = {
        **schedulers(bench.service),
        **people(bench.service, metrics, JOURNAL.latest),
        **local_routes(bench.cluster, bench.service),
    }
    return App(found, JOURNAL)


async def call(
    app: App, method: str, path: str, content: bytes = b"", *, pieces: int = 1, cut: bool = False
) -> Got | None:
    path, _, query = path.partition("?")
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
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


@pytest.mark.parametrize("path", POSTS)
def test_every_response_has_its_length(path: str) -> None:
    got = once("POST", path, GOOD[path])

    assert got.status == 200
    assert got.headers[b"content-length"] == str(len(got.content)).encode()
    assert got.json is not None


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda _: b"\xff\xfe\x00",
        lambda good: good[: len(good) // 2],
        lambda _: b"[]",
        lambda _: b"null",
        lambda _: b'"' + b"x" * 100 + b'"',
        lambda _: b"[" * 100_000,
        lambda good: good + b"}",
    ],
)
def test_an_invalid_body_is_a_400_with_a_sentence(path: str, spoil: Any) -> None:
    got = once("POST", path, spoil(GOOD[path]))

    assert got.status == 400
    assert len(got.json["error"]) > 10


@pytest.mark.parametrize("path", ["/extender/bind", "/volcano/allocate", "/admission/pods"])
def test_an_oversized_body_is_rejected_before_it_is_read_to_its_end(path: str) -> None:
    got = once("POST", path, b" " * (9 << 20), pieces=16)

    assert got.status == 400
    assert "longer than" in got.json["error"]


def test_a_body_in_pieces_is_one_body_and_one_that_ends_early_is_not_answered() -> None:
    async def work() -> tuple[Got | None, Got | None]:
        app = await app_of(await a_service())
        good = GOOD["/extender/filter"]
        return (
            await call(app, "POST", "/extender/filter", good, pieces=7),
            await call(app, "POST", "/extender/filter", good, cut=True),
        )

    whole, cut = run(work())

    assert whole is not None
    assert whole.status == 200
    assert cut is None


def test_decisions_are_unavailable_before_the_ledgers_are_synced_and_livez_is_ok() -> None:
    async def work() -> dict[str, int]:
        bench = await a_service()
        bench.service.readiness.mark_unsynced("ledgers")
        app = await app_of(bench)
        asked = {path: await call(app, "POST", path, GOOD[path]) for path in POSTS}
        probes = {path: await call(app, "GET", path) for path in ("/livez", "/readyz")}
        return {path: got.status for path, got in {**asked, **probes}.items() if got}

    found = run(work())

    # A pod's admission needs no ledger: what it may ask for does not depend on who holds what.
    assert found.pop("/admission/pods") == 200
    assert found.pop("/livez") == 200
    assert set(found.values()) == {503}


def test_wrong_paths_and_methods_are_named() -> None:
    assert once("GET", "/nothing").status == 404
    assert once("GET", "/extender/filter").status == 405
    assert "only POST" in once("PUT", "/extender/filter").json["error"]


def test_an_unexpected_error_is_a_500_with_a_number_and_never_an_approval() -> None:
    async def work() -> Got | None:
        bench = await a_service()

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        bench.service.evaluate = broken  # type: ignore[assignment, method-assign]
        return await call(await app_of(bench), "POST", "/extender/filter", GOOD["/extender/filter"])

    got = run(work())

    assert got is not None
    assert got.status == 500
    assert "nothing was decided" in got.json["error"]


def test_the_api_shows_nodes_cards_pods_and_decisions() -> None:
    async def work() -> list[Json]:
        bench = await a_service(pods=[a_pod()])
        app = await app_of(bench)
        bind = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"}
        await call(app, "POST", "/extender/bind", body(bind))
        paths = (
            "/api/nodes",
            "/api/cards?node=n1",
            "/api/cards?first=1",
            "/api/pods",
        )
        got = [await call(app, "GET", path) for path in paths]
        return [one.json for one in got if one]

    nodes, cards, first, pods = run(work())

    assert [node["usedMemoryMiB"] for node in nodes] == [4000, 0]
    assert cards == first
    assert cards[1]["sharers"][0]["pod"] == "default/p"
    assert pods[0]["containers"]["main"] == [
        {"uuid": "GPU-n1-1", "index": 1, "memoryMiB": 4000, "compute": 0}
    ]


@pytest.mark.parametrize("first", ["9" * 19, "9" * 5000])
def test_a_first_beyond_any_cluster_means_all_nodes(first: str) -> None:
    async def work() -> list[Json]:
        app = await app_of(await a_service())
        got = [await call(app, "GET", f"/api/cards{query}") for query in ("", f"?first={first}")]
        return [one.json for one in got if one]

    every, bounded = run(work())

    assert every == bounded


def test_a_pod_is_explained_in_a_body_and_by_name() -> None:
    async def work() -> list[Json]:
        bench = await a_service(pods=[a_pod("known", memory=90_000)])
        app = await app_of(bench)
        got = [
            await call(app, "GET", "/api/explain?pod=default/known"),
            await call(app, "POST", "/api/explain", body(a_pod())),
            await call(app, "GET", "/api/explain?pod=default/missing"),
            await call(app, "POST", "/api/explain", body(a_pod(cores=150))),
            await call(app, "POST", "/api/explain", body(a_pod(limits={"cpu": 1}))),
        ]
        return [(one.status, one.json) for one in got if one]

    known, fits, missing, invalid, plain = run(work())

    assert known[1]["fits"] == []
    assert "memory" in known[1]["nodes"]["n1"]
    assert (fits[1]["best"], fits[1]["fits"]) == ("n1", ["n1", "n2"])
    assert missing[0] == 404
    assert invalid[0] == 422
    assert plain[1]["dialect"] is None


def test_the_dashboard_is_one_page_without_external_assets() -> None:
    got = once("GET", "/")

    assert got.headers[b"content-type"].startswith(b"text/html")
    assert b"http://" not in got.content
    assert b"https://" not in got.content


def test_a_head_has_the_length_and_no_body() -> None:
    got = once("HEAD", "/livez")

    assert (got.status, got.content) == (200, b"")


def test_pods_are_created_bound_and_deleted_without_a_cluster() -> None:
    async def work() -> list[Got | None]:
        app = await app_of(await a_service())
        made = await call(app, "POST", "/local/pods", body(a_pod("x")))
        bind = {"PodName": "x", "PodNamespace": "default", "PodUID": "uid-x", "Node": "n1"}
        return [
            made,
            await call(app, "POST", "/extender/bind", body(bind)),
            await call(app, "GET", "/local/pods/default/x"),
            await call(app, "GET", "/local/pods"),
            await call(app, "DELETE", "/local/pods/default/x"),
            await call(app, "GET", "/local/pods/default/x"),
            await call(app, "DELETE", "/local/pods/default/x"),
            await call(app, "POST", "/local/bindings", body(a_binding("x", "n1"))),
            await call(app, "POST", "/local/pods", b"{}"),
        ]

    got = run(work())

    assert [one.status for one in got if one] == [201, 200, 200, 200, 200, 404, 404, 404, 400]
    assert got[4] is not None
    assert got[4].json == {"deleted": "default/x", "freed": ["n1"]}


def test_concurrent_clients_over_allocate_nothing() -> None:
    async def work() -> Bench:
        pods = [a_pod(f"p{number}", memory=3000) for number in range(20)]
        bench = await a_service(pods=pods)
        app = await app_of(bench)

        async def kube(pod: Json) -> None:
            meta = pod["metadata"]
            bind = {
                "PodName": meta["name"],
                "PodNamespace": "default",
                "PodUID": meta["uid"],
                "Node": "n1",
            }
            await call(app, "POST", "/extender/bind", body(bind))

        async def volcano(pod: Json) -> None:
            request = review(a_binding(pod["metadata"]["name"], "n1"), sub="binding")
            await call(app, "POST", "/admission/bindings", request)

        work = [kube(pod) if at % 2 else volcano(pod) for at, pod in enumerate(pods)]
        await asyncio.gather(*work)
        return bench

    ledger = run(work()).service.ledgers.inventory.ledger("n1")

    assert len(ledger.allocations) == 4
    assert not ledger.problems()


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


PASSES: dict[str, Callable[[Json], bool]] = {
    "/extender/filter": lambda said: bool(said.get("NodeNames")),
    "/extender/bind": lambda said: said == {"Error": ""},
    "/admission/bindings": lambda said: bool(said["response"]["allowed"]),
}


@pytest.mark.parametrize("path", POSTS)
def test_noise_is_answered_with_a_reason(path: str) -> None:
    bench = run(a_service())

    @settings(max_examples=60)
    @given(st.one_of(mutated(GOOD[path]), st.binary(max_size=60)))
    def noise(content: bytes) -> None:
        async def work() -> Got | None:
            return await call(await app_of(bench), "POST", path, content)

        got = run(work())

        assert got is not None
        assert got.status in (200, 400)
        if got.status == 400:
            assert got.json["error"]
        elif path in PASSES and PASSES[path](got.json):
            # Only a pod that asks for no share may pass: the nodes of the captures are unknown.
            assert not _asks(content)

    noise()
    assert bench.store.writes == 0


def _asks(content: bytes) -> bool:
    return b"volcano.sh/vgpu" in content
