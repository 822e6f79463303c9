"""The reflector against a server that does everything that a server can do wrong."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import DEVICES, PODS, Selection
from adapters.cluster.tests.recording_handler import RecordingHandler
from adapters.cluster.tests.server import (
    Reply,
    Request,
    Server,
    Step,
    client,
    cut,
    hang,
    ok,
    refusal,
    serving,
)
from adapters.cluster.watch.reflector import Reflector, WatchSettings
from adapters.tests import waiting
from adapters.wire.kube import Pod

SETTINGS = WatchSettings(page=2, idle=0.3, initial=0.01, maximum=0.05, absent=0.05, streaming=False)
STREAMING = replace(SETTINGS, streaming=True)
GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}

Object = dict[str, object]


def pod_at(name: str, version: int, uid: str = "u", **rest: object) -> Object:
    metadata = {"namespace": "n", "name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, **rest}


def page(version: int, *items: object, more: str = "") -> Step:
    return ok({"metadata": {"resourceVersion": str(version), "continue": more}, "items": items})


def event(kind: str, thing: object) -> Object:
    return {"type": kind, "object": thing}


def bookmark(version: int, *, end: bool = False) -> Object:
    metadata: Object = {"resourceVersion": str(version)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"metadata": metadata})


def watch(*events: object, then: Callable[[Reply], Awaitable[None]] | None = None) -> Step:
    """Answer a watch with events, then end the answer, or do what ``then`` does."""

    async def step(_request: Request, reply: Reply) -> None:
        await reply.begin()
        await reply.lines(*events)
        await asyncio.sleep(0.02)
        await (reply.end() if then is None else then(reply))

    return step


def watch_on(*events: object) -> Step:
    return watch(*events, then=silence)


async def silence(_reply: Reply) -> None:
    await asyncio.sleep(3600)


async def abort(reply: Reply) -> None:
    reply.cut()


def raw(data: bytes) -> Step:
    async def step(_request: Request, reply: Reply) -> None:
        await reply.begin()
        await reply.chunk(data)
        await asyncio.sleep(0.02)
        reply.cut()

    return step


def follow(
    until: Callable[[RecordingHandler], bool],
    *steps: Step,
    settings: WatchSettings = SETTINGS,
    selection: Selection = Selection(PODS),  # noqa: B008 (a value)
) -> tuple[RecordingHandler, Server, list[ClusterError]]:
    """Run a reflector until the handler has enough."""
    handler, errors = RecordingHandler(), list[ClusterError]()

    async def main() -> Server:
        async with serving(*steps) as server, client(server) as api:
            reflector = Reflector(
                api, selection, Pod, handler, settings=settings, report=errors.append
            )
            task = asyncio.create_task(reflector.run())
            await waiting.until(lambda: until(handler))
            assert set(handler.pods) | set(handler.bad) == {
                name for _, name in reflector._tracker._versions
            }
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return server

    return handler, asyncio.run(main()), errors


def names(*expected: str) -> Callable[[RecordingHandler], bool]:
    return lambda handler: handler.syncs > 0 and set(handler.pods) == set(expected)


def queries(server: Server, key: str) -> list[str | None]:
    return [request.query.get(key) for request in server.requests]


def test_a_list_comes_in_pages() -> None:
    handler, server, _ = follow(
        names("a", "b", "c"),
        page(7, pod_at("a", 1), pod_at("b", 2), more="next"),
        page(7, pod_at("c", 3)),
        watch_on(),
    )

    assert handler.log == ["a@1", "b@2", "c@3", "synced"]
    assert queries(server, "continue")[:2] == [None, "next"]
    assert queries(server, "limit")[:2] == ["2", "2"]


def test_a_watch_begins_at_the_version_of_the_list() -> None:
    handler, server, _ = follow(
        names("b"),
        page(7, pod_at("a", 1)),
        watch_on(event("ADDED", pod_at("b", 8)), event("DELETED", pod_at("a", 9))),
    )

    assert handler.log == ["a@1", "synced", "b@8", "-a/u"]
    assert queries(server, "resourceVersion") == [None, "7"]


def test_a_watch_that_ends_continues_at_the_last_version() -> None:
    _, server, errors = follow(
        names("a", "b"),
        page(7),
        watch(event("ADDED", pod_at("a", 8))),
        watch_on(event("ADDED", pod_at("b", 9))),
    )

    assert queries(server, "resourceVersion") == [None, "7", "8"]
    assert not errors


def test_the_next_watch_begins_at_the_version_of_the_last_bookmark() -> None:
    _, server, _ = follow(
        names("a"), page(7), watch(bookmark(90)), watch_on(event("ADDED", pod_at("a", 91)))
    )

    assert queries(server, "resourceVersion") == [None, "7", "90"]
    assert queries(server, "allowWatchBookmarks")[1] == "true"


@pytest.mark.parametrize(
    "expired", [refusal(410, GONE), watch(event("ERROR", GONE))], ids=["answer", "event"]
)
def test_after_410_all_objects_are_listed_again_and_deletions_are_reported(expired: Step) -> None:
    handler, server, _ = follow(
        names("b", "c"),
        page(7, pod_at("a", 1), pod_at("b", 2)),
        expired,
        page(20, pod_at("b", 2), pod_at("c", 15)),
        watch_on(),
    )

    assert handler.log == ["a@1", "b@2", "synced", "c@15", "-a/u", "synced"]
    assert queries(server, "resourceVersion") == [None, "7", None, "20"]


def test_a_new_pod_of_an_old_name_is_a_deletion_and_an_addition() -> None:
    handler, _, _ = follow(
        lambda handler: handler.syncs == 2,
        page(7, pod_at("a", 1, "old")),
        refusal(410, GONE),
        page(9, pod_at("a", 8, "new")),
        watch_on(),
    )

    assert handler.log == ["a@1", "synced", "-a/old", "a@8", "synced"]


def test_an_expired_continue_token_makes_pages_larger() -> None:
    _, server, _ = follow(
        names("a"),
        page(7, pod_at("a", 1), more="next"),
        refusal(410, GONE),
        page(9, pod_at("a", 1)),
        hang,
    )

    assert queries(server, "limit")[:3] == ["2", "2", "8"]


def test_a_429_is_retried_after_the_time_in_retry_after() -> None:
    handler, server, _ = follow(
        names("a"),
        page(7),
        refusal(429, b"", Retry_After="1"),
        watch_on(event("ADDED", pod_at("a", 8))),
    )

    assert handler.syncs == 1
    assert len(server.requests) == 3


def test_a_failing_server_is_retried_until_it_answers() -> None:
    handler, server, errors = follow(
        names("a"),
        page(7),
        refusal(503),
        refusal(500),
        cut,
        watch_on(event("ADDED", pod_at("a", 8))),
    )

    assert handler.syncs == 1
    assert queries(server, "resourceVersion") == [None, "7", "7", "7", "7"]
    assert [error.status for error in errors[:2]] == [503, 500]


def test_a_broken_connection_continues_at_the_last_version() -> None:
    _, server, _ = follow(
        names("a", "b"),
        page(7),
        watch(event("ADDED", pod_at("a", 8)), then=abort),
        watch_on(event("ADDED", pod_at("b", 9))),
    )

    assert queries(server, "resourceVersion") == [None, "7", "8"]


def test_a_half_open_connection_is_detected_by_its_silence() -> None:
    _, server, errors = follow(
        names("a", "b"),
        page(7),
        watch_on(event("ADDED", pod_at("a", 8))),
        watch_on(event("ADDED", pod_at("b", 9))),
    )

    assert queries(server, "resourceVersion") == [None, "7", "8"]
    assert errors[0].reason == "Silent"


def test_half_a_line_is_not_handled() -> None:
    line = json.dumps(event("ADDED", pod_at("a", 8))).encode()
    handler, server, errors = follow(
        names("a"), page(7), raw(line[:-10]), watch_on(event("ADDED", pod_at("a", 8)))
    )

    assert handler.syncs == 1
    assert queries(server, "resourceVersion") == [None, "7", "7"]
    assert errors[0].reason == "Broken"


@pytest.mark.parametrize("size", [1, 3, 7])
def test_chunks_need_not_be_lines(size: int) -> None:
    data = b"".join(
        json.dumps(event("ADDED", pod_at(name, 8))).encode() + b"\n" for name in ("a", "b")
    )

    async def crumbs(_request: Request, reply: Reply) -> None:
        await reply.begin()
        for start in range(0, len(data), size):
            await reply.chunk(data[start : start + size])
        await silence(reply)

    handler, _, _ = follow(names("a", "b"), page(7), crumbs)

    assert handler.log == ["synced", "a@8", "b@8"]


@pytest.mark.parametrize(
    "noise",
    [
        b"garbage\n",
        b"\xff\xfe\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b'{"type": "ADDED", "object": {}}\n',
        b'{"type": "ADDED", "object": 3}\n',
        b'{"type": "ADDED", "object": {"metadata": {"name": "\xff\xfe"}}}\n',
        b'{"type": "ODD", "object": {}}\n',
        b'{"type": 3}\n',
    ],
)
def test_after_an_invalid_line_all_objects_are_listed_again(noise: bytes) -> None:
    handler, server, errors = follow(
        names("b"), page(7, pod_at("a", 1)), raw(noise), page(9, pod_at("b", 9)), watch_on()
    )

    assert handler.syncs == 2
    assert errors[0].reason == "Garbage"
    assert queries(server, "resourceVersion") == [None, "7", None, "9"]


@pytest.mark.parametrize("body", [b"", b"garbage", b"\xff", b"[]", b'{"items": [{}]}', b'{"items"'])
def test_an_invalid_list_is_requested_again(body: bytes) -> None:
    handler, _, errors = follow(names("a"), ok(body), page(9, pod_at("a", 1)), watch_on())

    assert errors[0].reason == "Garbage"
    assert handler.log[-1] == "synced"


def test_an_object_that_cannot_be_decoded_is_reported_as_such_and_the_rest_is_handled() -> None:
    handler, _, errors = follow(
        lambda handler: "c" in handler.pods,
        page(7, pod_at("a", 1), pod_at("b", 2, spec=3)),
        watch_on(
            event("MODIFIED", pod_at("a", 8, status="odd")),
            event("MODIFIED", pod_at("b", 9)),
            event("ADDED", pod_at("c", 10)),
        ),
    )

    assert handler.log == ["a@1", "?b", "synced", "?a", "b@9", "c@10"]
    assert list(handler.bad) == ["a"]
    assert not errors


def test_an_optional_kind_is_looked_for_until_it_is_installed() -> None:
    handler, server, errors = follow(
        names("a"),
        refusal(404),
        refusal(404),
        page(7, pod_at("a", 1)),
        watch_on(),
        selection=Selection(DEVICES, optional=True),
    )

    assert handler.log[:2] == ["synced", "synced"]
    assert not errors
    assert server.requests[0].path == "/apis/scheduling.koordinator.sh/v1alpha1/devices"


def test_the_objects_of_an_optional_kind_that_is_removed_are_deleted() -> None:
    handler, _, _ = follow(
        lambda handler: handler.syncs == 2,
        page(7, pod_at("a", 1)),
        refusal(404),
        refusal(404),
        selection=Selection(DEVICES, optional=True),
    )

    assert handler.log[:4] == ["a@1", "synced", "-a/u", "synced"]


def test_a_required_kind_that_is_not_installed_is_an_error() -> None:
    _, _, errors = follow(names("a"), refusal(404), page(7, pod_at("a", 1)), watch_on())

    assert errors[0].status == 404


def test_selectors_go_with_every_request() -> None:
    selection = Selection(PODS, namespace="n", fields="metadata.name=a", labels="x=y")
    _, server, _ = follow(names("a"), page(7, pod_at("a", 1)), watch_on(), selection=selection)

    assert {request.path for request in server.requests} == {"/api/v1/namespaces/n/pods"}
    assert set(queries(server, "fieldSelector")) == {"metadata.name=a"}
    assert set(queries(server, "labelSelector")) == {"x=y"}


def test_a_list_can_be_streamed_by_the_watch() -> None:
    handler, server, _ = follow(
        names("a", "b", "c"),
        watch(
            event("ADDED", pod_at("a", 3)), event("ADDED", pod_at("b", 1)), bookmark(7, end=True)
        ),
        watch_on(event("ADDED", pod_at("c", 9))),
        settings=STREAMING,
    )

    assert handler.log == ["a@3", "b@1", "synced", "c@9"]
    assert queries(server, "sendInitialEvents") == ["true", None]
    assert queries(server, "resourceVersion") == [None, "7"]


def test_a_streamed_list_that_breaks_is_replaced_by_pages() -> None:
    handler, server, _ = follow(
        names("b"),
        watch(event("ADDED", pod_at("a", 3)), event("ADDED", pod_at("b", 2)), then=abort),
        page(9, pod_at("b", 2)),
        watch_on(),
        settings=STREAMING,
    )

    assert handler.log == ["a@3", "b@2", "-a/u", "synced"]
    assert queries(server, "resourceVersion") == [None, None, "9"]


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_without_watch_list_sends_pages(status: int) -> None:
    handler, server, _ = follow(
        names("a"),
        refusal(status),
        page(7, pod_at("a", 1)),
        watch(event("ERROR", GONE)),
        page(9, pod_at("a", 1)),
        watch_on(),
        settings=STREAMING,
    )

    assert handler.log[:2] == ["a@1", "synced"]
    assert queries(server, "sendInitialEvents")[1:] == [None] * (len(server.requests) - 1)


def test_a_version_that_the_server_does_not_have_yet_is_dropped() -> None:
    status = {
        "code": 504,
        "reason": "Timeout",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]},
    }
    handler, _, _ = follow(
        names("a"), page(99), refusal(504, status), page(7, pod_at("a", 1)), watch_on()
    )

    assert handler.syncs == 2


def test_the_event_loop_runs_while_thousands_of_objects_are_read() -> None:
    most = 0
    handler = RecordingHandler()

    async def tick() -> None:
        nonlocal most
        while True:
            before = len(handler.pods)
            await asyncio.sleep(0)
            most = max(most, len(handler.pods) - before)

    async def main() -> None:
        events = b"".join(
            json.dumps(event("ADDED", pod_at(f"p{i}", i + 8))).encode() + b"\n" for i in range(5000)
        )

        async def flood(_request: Request, reply: Reply) -> None:
            await reply.begin()
            await reply.chunk(events)
            await silence(reply)

        async with serving(page(7), flood) as server, client(server) as api:
            reflector = Reflector(api, Selection(PODS), Pod, handler, settings=SETTINGS)
            tasks = [asyncio.create_task(reflector.run()), asyncio.create_task(tick())]
            await waiting.until(lambda: len(handler.pods) == 5000)
            assert len(reflector) == 5000
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())

    assert most <= 100, "objects were read without a turn of the other tasks"


def test_staleness_is_the_time_since_the_last_response() -> None:
    async def main() -> tuple[float, float, float, float]:
        handler = RecordingHandler()
        async with serving(page(7), watch_on(bookmark(8))) as server, client(server) as api:
            reflector = Reflector(
                api,
                Selection(PODS),
                Pod,
                handler,
                settings=replace(SETTINGS, idle=5.0, streaming=False),
            )
            before = reflector.staleness()
            began = time.monotonic()
            task = asyncio.create_task(reflector.run())
            await asyncio.wait_for(reflector.ready.wait(), 30)
            soon = reflector.staleness()
            since_start = time.monotonic() - began
            await asyncio.sleep(0.3)
            later = reflector.staleness()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return before, soon, since_start, later

    before, soon, since_start, later = asyncio.run(main())

    assert before == float("inf")
    assert 0 <= soon <= since_start
    assert later - soon > 0.2


LINES = st.one_of(
    st.binary(max_size=60),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "object", "metadata", "name", "uid", "spec", "code"])
                | st.text(max_size=3),
                inner | st.sampled_from(["ADDED", "DELETED", "ERROR", "BOOKMARK"]),
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
)


@given(st.lists(LINES, max_size=5))
def test_any_line_is_handled_or_a_cluster_error(lines: list[bytes]) -> None:
    api = KubeClient(KubeCredentials("http://127.0.0.1:1"))
    reflector = Reflector(api, Selection(PODS), Pod, RecordingHandler())

    for line in lines:
        with contextlib.suppress(ClusterError):
            reflector._handle_event(line)
