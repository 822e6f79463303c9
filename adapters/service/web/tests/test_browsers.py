"""Pages of other sites in a person's browser: they change nothing, and read nothing."""

import http.client
from contextlib import closing
from pathlib import Path

import pytest

from adapters.service.tests.builders import a_service, body, run
from adapters.service.tests.process import serving
from adapters.service.web.app import is_foreign, is_loopback
from adapters.service.web.tests.calls import GOOD, POSTS, Got, app_of, call, once

EVIL = (b"origin", b"http://evil.example")


@pytest.mark.parametrize("path", [*POSTS, "/local/pods", "/local/bindings", "/api/explain"])
@pytest.mark.parametrize(
    "field",
    [
        EVIL,
        (b"origin", b"null"),
        (b"origin", b"http://127.0.0.1:9595"),
        (b"sec-fetch-site", b"cross-site"),
        (b"sec-fetch-site", b"same-site"),
    ],
)
def test_a_page_in_a_browser_changes_nothing(path: str, field: tuple[bytes, bytes]) -> None:
    plain = (b"content-type", b"text/plain")

    got = once("POST", path, GOOD.get(path, b"{}"), headers=[field, plain])

    assert got.status == 403
    assert got.headers[b"connection"] == b"close"


def test_a_page_creates_and_deletes_no_pod() -> None:
    pod = body({"metadata": {"name": "p"}, "spec": {"containers": [{}]}})

    async def work() -> list[Got | None]:
        app = await app_of(await a_service())
        return [
            await call(app, "POST", "/local/pods", pod, headers=[EVIL]),
            await call(app, "GET", "/local/pods/default/p"),
            await call(app, "POST", "/local/pods", pod),
            await call(app, "DELETE", "/local/pods/default/p", headers=[EVIL]),
            await call(app, "GET", "/local/pods/default/p"),
        ]

    assert [each.status for each in run(work()) if each] == [403, 404, 201, 403, 200]


@pytest.mark.parametrize("path", ["/", "/api/nodes", "/api/dashboard/nodes", "/livez", "/no"])
def test_no_other_site_may_read_frame_embed_or_cache_an_answer(path: str) -> None:
    got = once("GET", path, headers=[EVIL])

    names = {name for name in got.headers if name.startswith(b"access-control-")}
    assert not names
    assert got.headers[b"cross-origin-resource-policy"] == b"same-origin"
    assert got.headers[b"x-content-type-options"] == b"nosniff"
    assert got.headers[b"cache-control"] in (b"no-store", b"private, no-cache")


def test_a_preflight_allows_nothing() -> None:
    asks = [EVIL, (b"access-control-request-method", b"DELETE")]

    got = once("OPTIONS", "/local/pods/default/p", headers=asks)

    assert got.status == 403
    assert not any(name.startswith(b"access-control-") for name in got.headers)


@pytest.mark.parametrize(
    ("host", "foreign"),
    [
        ("evil.example", True),
        ("EVIL.example:9595", True),
        ("127.0.0.1.evil.example", True),
        ("localhost.evil.example.", True),
        ("gpu.example.com", False),
        ("127.0.0.1:9595", False),
        ("[::1]:9595", False),
        ("10.0.0.7", False),
        ("localhost:8080", False),
        ("dragoman", False),
        ("dragoman.dragoman-system.svc:9595", False),
        ("dragoman.dragoman-system.svc.cluster.local", False),
        ("", False),
    ],
)
def test_only_names_that_a_public_name_server_may_know_are_foreign(
    host: str, *, foreign: bool
) -> None:
    assert is_foreign(host, {"gpu.example.com"}) is foreign


def test_only_an_address_of_this_machine_is_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.0.0.53", "::1", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "", None)))


def test_a_rebound_name_reads_nothing_of_a_service_on_this_machine(tmp_path: Path) -> None:
    config = tmp_path / "s.yaml"
    config.write_text("hosts: [GPU.example.com]\n")

    with serving(tmp_path, "--store", "memory", "--config", str(config)) as running:

        def asked(host: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
            with closing(connection):
                connection.request("GET", "/api/pods", headers={"Host": host})
                with closing(connection.getresponse()) as response:
                    return response.status

        hosts = ("evil.example", f"127.0.0.1:{running.port}", "localhost", "gpu.example.com")
        assert [*map(asked, hosts)] == [421, 200, 200, 200]
