"""Noise on every route: a reason each time, never an internal error."""

import json
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.service.standalone import routes as local_routes
from adapters.service.tests.builders import a_binding, a_pod, a_service, body, run
from adapters.service.web.routes import people, schedulers
from adapters.service.web.tests.calls import GOOD, Got, app_of, call, mutated


async def _nothing(_: bool) -> bytes:
    return b""


def every_route() -> list[tuple[str, str]]:
    bench = run(a_service())
    return sorted(
        {
            **schedulers(bench.service),
            **people(bench.service, _nothing, list),
            **local_routes(bench.cluster, bench.service),
        }
    )


GOOD_HERE = GOOD | {
    "/api/explain": body(a_pod()),
    "/local/pods": body(a_pod()),
    "/local/bindings": body(a_binding("p", "n1")),
}

QUERIES = st.one_of(
    st.just(""),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20),
    st.builds(
        "{}={}".format,
        st.sampled_from(["pod", "uid", "node", "first", "pod=a/b&pod"]),
        st.sampled_from(["", "a/b/c", "%ff%fe", "-1", "9" * 30, "²", "n1", "default/p", "/"]),
    ),
)


@pytest.mark.parametrize(("method", "path"), every_route())
def test_every_route_answers_noise_with_a_reason_and_no_internal_error(
    method: str, path: str
) -> None:
    good = GOOD_HERE.get(path, b"{}")
    bodies = st.one_of(
        mutated(good),
        st.binary(max_size=60),
        st.integers(0, len(good)).map(lambda at: good[:at]),
        st.sampled_from([b"", b"null", b"[]", b'"\xff"', b"\xef\xbb\xbf{}", b"[" * 5000]),
    )
    rests = st.one_of(st.just(""), st.text(max_size=8)) if path.endswith("/") else st.just("")

    @settings(max_examples=40)
    @given(bodies, QUERIES, rests)
    def noise(content: bytes, query: str, rest: str) -> None:
        async def work() -> Got | None:
            app = await app_of(await a_service())
            return await call(app, method, f"{path}{rest.replace('?', '')}?{query}", content)

        got = run(work())

        assert got is not None
        assert got.status < 500, got.content
        if got.status >= 400:
            assert json.loads(got.content)["error"]

    noise()


LONGEST: list[tuple[str, Callable[[int], bytes]]] = [
    ("/extender/bind", lambda size: b'{"PodName":"' + b"x" * size + b'"}'),
    ("/local/pods", lambda size: b'{"metadata":{"name":"' + b"x" * size + b'"}}'),
    ("/api/explain", lambda size: b'{"metadata":{"name":"' + b"x" * size + b'"}}'),
]


@pytest.mark.parametrize(("path", "made"), LONGEST)
def test_a_route_for_one_pod_reads_no_more_than_a_pod_can_have(
    path: str, made: Callable[[int], bytes]
) -> None:
    async def work(size: int) -> Got | None:
        return await call(await app_of(await a_service()), "POST", path, made(size), pieces=7)

    got = run(partial(work, 2 << 20)())

    assert got is not None
    assert got.status == 413
    assert "longer than" in got.json["error"]
