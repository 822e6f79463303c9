"""Noise in the bodies of schedulers: an answer with a reason, never an approval."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.service.tests.builders import (
    Json,
    a_service,
    run,
)
from adapters.service.web.tests.calls import GOOD, POSTS, Got, app_of, call, mutated

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
