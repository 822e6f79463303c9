"""Events that are too many, or that the server does not want."""

import asyncio
from collections.abc import Callable

from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.cluster.tests.server import Server, Step, client, ok, refusal, serving

POD = EventSubject("Pod", "p", "n", "u")


def write(
    tell: Callable[[EventRecorder], None], *steps: Step, most: int = 100
) -> tuple[EventRecorder, Server]:
    """Tell, then let the events be written for a moment."""

    async def main() -> tuple[EventRecorder, Server]:
        async with serving(*steps) as server, client(server) as api:
            events = EventRecorder(api, "me", every=0.05, forget=0.1, most=most, rate=1000)
            task = asyncio.create_task(events.run())
            tell(events)
            await asyncio.sleep(0.3)
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return events, server

    return asyncio.run(main())


def test_what_is_told_at_once_is_one_event_with_a_count() -> None:
    def tell(events: EventRecorder) -> None:
        for _ in range(100):
            events.emit(POD, "NoCards", "none")

    events, server = write(tell, ok({}))

    assert events.dropped == 0
    assert len(server.requests) == 1
    body = server.requests[0].json()
    assert body["note"] == "none"
    assert isinstance(body["series"], dict)
    assert body["series"]["count"] == 100


def test_different_reasons_are_different_events() -> None:
    def tell(events: EventRecorder) -> None:
        events.emit(POD, "NoCards", "none")
        events.emit(POD, "Granted", "some")
        events.emit(EventSubject("Node", "x"), "NoCards", "none", kind="Warning")

    _, server = write(tell, ok({}))

    assert [request.path.split("/")[5] for request in server.requests] == ["n", "n", "default"]
    assert "series" not in server.requests[0].json()


def test_more_than_are_remembered_are_dropped_and_counted() -> None:
    def tell(events: EventRecorder) -> None:
        for number in range(10):
            events.emit(EventSubject("Pod", f"p{number}", "n"), "NoCards", "none")

    events, server = write(tell, ok({}), most=4)

    assert len(server.requests) == 4
    assert events.dropped == 6


def test_a_server_that_refuses_events_stops_nothing() -> None:
    def tell(events: EventRecorder) -> None:
        events.emit(POD, "A", "1")
        events.emit(POD, "B", "2")

    events, server = write(tell, refusal(403), ok({}))

    assert len(server.requests) == 2
    assert events.dropped == 1


def test_long_words_and_notes_are_cut_to_what_the_server_takes() -> None:
    _, server = write(lambda events: events.emit(POD, "R" * 500, "é" * 2000), ok({}))

    body = server.requests[0].json()
    assert len(str(body["reason"])) == 128
    assert len(str(body["note"]).encode()) == 1024
