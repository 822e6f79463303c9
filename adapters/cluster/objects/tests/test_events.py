"""Events that are too many, or that the server rejects."""

import asyncio
from collections.abc import Callable

from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.cluster.tests.server import Server, Step, client, ok, refusal, serving
from adapters.tests.waiting import until

POD = EventSubject("Pod", "p", "n", "u")


def write(
    emit: Callable[[EventRecorder], None], *steps: Step, requests: int = 1, maximum: int = 100
) -> tuple[EventRecorder, Server]:
    """Emit Events, and let the recorder write that many times, and for a moment more."""

    async def main() -> tuple[EventRecorder, Server]:
        async with serving(*steps) as server, client(server) as api:
            events = EventRecorder(api, "me", every=0.05, forget=0.1, maximum=maximum, rate=1000)
            task = asyncio.create_task(events.run())
            emit(events)
            await until(lambda: len(server.requests) >= requests)
            await asyncio.sleep(0.1)
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return events, server

    return asyncio.run(main())


def test_repeats_are_one_event_with_a_count() -> None:
    def emit(events: EventRecorder) -> None:
        for _ in range(100):
            events.emit(POD, "NoCards", "none")

    events, server = write(emit, ok({}))

    assert events.dropped == 0
    assert len(server.requests) == 1
    body = server.requests[0].json()
    assert body["note"] == "none"
    assert isinstance(body["series"], dict)
    assert body["series"]["count"] == 100


def test_different_reasons_are_different_events() -> None:
    def emit(events: EventRecorder) -> None:
        events.emit(POD, "NoCards", "none")
        events.emit(POD, "Granted", "some")
        events.emit(EventSubject("Node", "x"), "NoCards", "none", kind="Warning")

    _, server = write(emit, ok({}), requests=3)

    assert [request.path.split("/")[5] for request in server.requests] == ["n", "n", "default"]
    assert "series" not in server.requests[0].json()


def test_events_beyond_the_maximum_are_dropped_and_counted() -> None:
    def emit(events: EventRecorder) -> None:
        for number in range(10):
            events.emit(EventSubject("Pod", f"p{number}", "n"), "NoCards", "none")

    events, server = write(emit, ok({}), requests=4, maximum=4)

    assert len(server.requests) == 4
    assert events.dropped == 6


def test_a_rejected_event_does_not_stop_the_recorder() -> None:
    def emit(events: EventRecorder) -> None:
        events.emit(POD, "A", "1")
        events.emit(POD, "B", "2")

    events, server = write(emit, refusal(403), ok({}), requests=2)

    assert len(server.requests) == 2
    assert events.dropped == 1


def test_long_words_and_notes_are_cut_to_the_limits_of_the_server() -> None:
    _, server = write(lambda events: events.emit(POD, "R" * 500, "é" * 2000), ok({}))

    body = server.requests[0].json()
    assert len(str(body["reason"])) == 128
    assert len(str(body["note"]).encode()) == 1024
