"""One object that cannot be decoded must not keep the others from being listed and watched."""

import asyncio
import json
from typing import Any, cast

import pytest

from adapters.cluster.api.paths import RESOURCE_CLAIMS, Selection
from adapters.cluster.tests.recording_handler import RecordingHandler
from adapters.cluster.tests.server import Reply, Request, client, serving
from adapters.cluster.watch.reflector import Reflector, WatchSettings
from adapters.dialects.dra.claims import allocated
from adapters.tests.waiting import until
from adapters.wire.dra import ResourceClaim

DEEP = b'{"a":' * 1100 + b"1" + b"}" * 1100
BRACKETS = b"[" * 100_000 + b"]" * 100_000


def claim_text(name: str, parameters: bytes = b"{}", version: str = "1") -> bytes:
    metadata = {"name": name, "namespace": "team", "uid": f"{name}-uid", "resourceVersion": version}
    config = b'[{"opaque":{"driver":"d","parameters":' + parameters + b"}}]"
    results = b'[{"driver":"d","pool":"p","device":"' + name.encode() + b'"}]'
    devices = b'{"devices":{"results":' + results + b',"config":' + config + b"}}"
    return (
        b'{"metadata":'
        + json.dumps(metadata).encode()
        + b',"spec":{"devices":{"config":'
        + config
        + b'}},"status":{"allocation":'
        + devices
        + b"}}"
    )


def event(kind: str, item: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + item + b"}\n"


HOSTILE = {
    "half a character": claim_text("bad", b'{"a":"\\ud800\\u0041","b":"\\\\ud800 \\ud83d\\ude00"}'),
    "half a character in an annotation": claim_text("bad").replace(
        b'"name"', b'"annotations":{"k":"\\ud800"},"name"'
    ),
    "numbers": claim_text("bad", b'{"a":1e999999,"b":' + b"1" * 9000 + b',"c":-0,"d":1E+5}'),
    "no UTF-8 in parameters": claim_text("bad", b'{"a":"\xff"}'),
    "deep": claim_text("bad", DEEP),
    "very deep": claim_text("bad", BRACKETS),
    "deep name of a field": claim_text("bad").replace(b'"spec":', b'"x":' + BRACKETS + b',"spec":'),
    "deep metadata": claim_text("bad").replace(
        b'"name"', b'"managedFields":' + BRACKETS + b',"name"'
    ),
}
UNREADABLE = {
    "no UTF-8": claim_text("bad").replace(b'"name"', b'"annotations":{"k":"\xff"},"name"'),
    "no text": claim_text("bad").replace(b'"name"', b'"labels":{"k":7},"name"'),
    "too long": claim_text("bad").replace(b'"name"', b'"x":"' + b"x" * (1 << 24) + b'","name"'),
}


def watched(item: bytes, *, streamed: bool) -> RecordingHandler:
    handler = RecordingHandler()

    async def server(request: Request, reply: Reply) -> None:
        if "watch" not in request.query:
            items = b",".join([claim_text("first"), item, claim_text("last")])
            await reply.answer(
                200, b'{"metadata":{"resourceVersion":"5"},"items":[' + items + b"]}"
            )
            return
        await reply.begin()
        if streamed:
            for each in (claim_text("first"), item, claim_text("last")):
                await reply.chunk(event("ADDED", each))
            end = {"k8s.io/initial-events-end": "true"}
            mark = {"metadata": {"resourceVersion": "5", "annotations": end}}
            await reply.chunk(event("BOOKMARK", json.dumps(mark).encode()))
        await reply.chunk(
            event("MODIFIED", item.replace(b'"resourceVersion": "1"', b'"resourceVersion": "6"'))
        )
        await reply.chunk(event("MODIFIED", claim_text("last", version="7")))
        await asyncio.sleep(3600)

    async def main() -> None:
        async with serving(server) as api, client(api) as kube:
            reflector = Reflector(
                kube,
                Selection(RESOURCE_CLAIMS),
                ResourceClaim,
                cast("Any", handler),
                settings=WatchSettings(streaming=streamed, idle=60),
            )
            running = asyncio.ensure_future(reflector.run())
            try:
                await until(lambda: running.done() or "last@7" in handler.log)
                assert not running.done()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            assert reflector.stats.failures == 0

    asyncio.run(main())
    return handler


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_claim_with_hostile_parameters_is_read_as_far_as_it_matters(
    name: str, streamed: bool
) -> None:
    handler = watched(HOSTILE[name], streamed=streamed)
    assert handler.bad == {}
    assert handler.log == ["first@1", "bad@1", "last@1", "synced", "bad@6", "last@7"]
    found = allocated(handler.pods["bad"])  # type: ignore[arg-type]
    assert found is not None
    assert found.unread is None
    assert [each.device for each in found.results] == ["bad"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", UNREADABLE)
def test_an_object_that_cannot_be_decoded_is_named_and_the_others_are_read(
    name: str, streamed: bool
) -> None:
    handler = watched(UNREADABLE[name], streamed=streamed)
    assert handler.bad.keys() == {"bad"}
    assert handler.log == ["first@1", "?bad", "last@1", "synced", "?bad", "last@7"]
