"""The service over HTTP, without a socket: every route, and every kind of error."""

from gzip import decompress
from typing import Any

import pytest

from adapters.service.tests.builders import (
    Json,
    a_pod,
    a_service,
    body,
    run,
)
from adapters.service.web.tests.calls import GOOD, POSTS, Got, app_of, call, once


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

    assert got.status == 413
    assert got.headers[b"connection"] == b"close"
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

        bench.service.feasibility.evaluate = broken  # type: ignore[assignment, method-assign]
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


def test_an_explanation_names_misspelled_and_uncounted_names() -> None:
    typo = a_pod("typo", annotations={"volcano.sh/vgpu-mod": "mig"})

    async def work() -> list[Json]:
        app = await app_of(await a_service())
        got = [
            await call(app, "POST", "/api/explain", body(typo)),
            await call(app, "POST", "/api/explain", body(a_pod(limits={"habana.ai/gaudi": 1}))),
        ]
        return [one.json["notes"] for one in got if one]

    typo_notes, strange_notes = run(work())

    assert "did you mean volcano.sh/vgpu-mode?" in typo_notes[-1]
    assert "does not count this resource" in strange_notes[-1]


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        (b"gzip", True),
        (b"deflate, GZIP;q=1.0, *;q=0.5", True),
        (b"identity", False),
        (b"gzip;q=0", False),
        (b"gzip; q=0.000", False),
        (b"gzipped", False),
        (b"", False),
    ],
)
def test_metrics_are_compressed_for_a_client_that_reads_gzip(
    accepted: bytes, compressed: bool
) -> None:
    got = once("GET", "/metrics", headers=[(b"accept-encoding", accepted)])

    assert (got.headers.get(b"content-encoding") == b"gzip") is compressed
    assert (decompress(got.content) if compressed else got.content) == b"metrics\n"
    assert got.headers[b"content-length"] == str(len(got.content)).encode()
