"""Requests that are answered without being parsed: which are, and that their answers are the same.

Each test sends bytes over a socket to a server, of which one route answers at once where the body
begins with ``at once``.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from adapters.service.observe.decision_log import StructuredDecisionLog, logger
from adapters.service.observe.metrics import Metrics
from adapters.service.tests.builders import Json, a_node, a_pod, a_service, run
from adapters.service.web import fast_path, server
from adapters.service.web.app import Answer, App, Call, Route
from adapters.service.web.body_budget import SMALL
from adapters.service.web.limits import PortLimits
from adapters.service.web.tests.calls import app_of
from adapters.service.web.tests.listening import serving
from core.hardware.quantity import MIB

BODY = b"at once"


def request(
    body: bytes = BODY, *, path: str = "/asked", host: str = "127.0.0.1", more: str = ""
) -> bytes:
    """A request as Go's client writes it, with further header fields."""
    fields = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n"
        f"{more}Accept-Encoding: gzip\r\n\r\n"
    )
    return fields.encode() + body


class Asked:
    """What a server was asked, and what counted it.

    Attributes:
        usual: bodies that took the usual path.
        fast: bodies that were answered at once.
    """

    def __init__(self) -> None:
        self.usual: list[bytes] = []
        self.fast: list[bytes] = []
        self.event = asyncio.Event()
        self.metrics = Metrics()

    def app(self) -> App:
        async def usual(call: Call) -> Answer:
            self.usual.append(call.body)
            if call.body == b"slow":
                await self.event.wait()
            return Answer(b"{}" + call.body[:9])

        def immediate(body: bytes) -> bytes | None:
            if body == b"fails":
                raise ValueError(body)
            if not body.startswith(BODY):
                return None
            self.fast.append(body)
            return b"{}" + body[:9]

        routes = {
            ("POST", "/asked"): Route(usual, "asked", 1 << 20, immediate),
            ("POST", "/other"): Route(usual, "other"),
        }
        return App(routes, StructuredDecisionLog(logger("error", "json"), self.metrics))

    def counted(self) -> int:
        found = re.findall(r'calls_total\{status="200",verb="asked"\} (\S+)', self.text())
        return int(float(found[0])) if found else 0

    def text(self) -> str:
        return self.metrics.text().decode()


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self._writer.write(part)
            await asyncio.sleep(0.01)

    async def answer(self) -> tuple[bytes, bytes]:
        """The head of the next response, without its date, and its body."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head)
        assert found is not None
        return re.sub(rb"date: .*\r\n", b"", head), await self._reader.readexactly(int(found[1]))

    async def ask(self, *parts: bytes) -> tuple[bytes, bytes]:
        await self.send(*parts)
        return await self.answer()

    async def end(self) -> None:
        """Send no more."""
        self._writer.write_eof()

    async def line(self) -> bytes:
        """The first line of the next response."""
        return await self._reader.readline()

    async def rest(self) -> bytes:
        return await self._reader.read()


@asynccontextmanager
async def wire(port: int) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


Answers = list[tuple[bytes, bytes]]


def asked_with(*requests: bytes) -> tuple[Asked, Answers]:
    """Send requests on one connection, each after the answer to the one before."""

    async def work() -> tuple[Asked, Answers]:
        asked = Asked()
        async with serving(asked.app()) as port, wire(port) as one:
            return asked, [await one.ask(each) for each in requests]

    return run(work())


def test_a_request_with_a_head_that_was_seen_is_answered_at_once_with_the_same_bytes() -> None:
    asked, (first, second, third) = asked_with(request(), request(), request(BODY + b", longer"))

    assert asked.usual == [BODY]
    assert asked.fast == [BODY, BODY + b", longer"]
    assert first == second
    assert first[0].replace(b"length: 9", b"length: 11") == third[0]
    assert third[1] == b"{}at once, "


def test_both_paths_count_calls_and_bytes() -> None:
    asked, _ = asked_with(request(), request(BODY * 2))

    assert asked.counted() == 2
    assert f'dragoman_call_bytes_total{{verb="asked"}} {3.0 * len(BODY)}' in asked.text()


def test_a_head_is_known_on_every_connection_of_a_port() -> None:
    async def work() -> Asked:
        asked = Asked()
        async with serving(asked.app()) as port:
            for _ in range(3):
                async with wire(port) as one:
                    await one.ask(request())
        return asked

    asked = run(work())
    assert (len(asked.usual), len(asked.fast)) == (1, 2)


@pytest.mark.parametrize(
    "parts",
    [
        (request(b"not at once"),),
        (request(b"fails"),),
        (request(path="/other"),),
        (request(path="/nothing"),),
        (request(path="/asked?a=b"),),
        (request(more="X-Other: 1\r\n"),),
        (request(more="Content-Type: text/plain\r\n"),),
        (request(more="Connection: close\r\n"),),
        (request(more="Origin: http://127.0.0.1\r\n"),),
        (request(host="rebound.example.com"),),
        (request().replace(b"HTTP/1.1", b"HTTP/1.0", 1),),
        (request().replace(b"Content-Length", b"content-length"),),
        (request().replace(b"Content-Length: 7", b"Transfer-Encoding: chunked"), b"\r\n0\r\n\r\n"),
        (request(BODY.ljust(SMALL + 1)),),
        (request(BODY.ljust(100_000)),),
        (request(path="/asked?" + "a" * fast_path.LONGEST_HEAD),),
        (request()[:40], request()[40:]),
        (request(b"not at once")[:-3], request(b"not at once")[-3:]),
        (request()[:-3], request()[-3:] + request()),
        (request()[:-3], request()[-3:-1], request()[-1:]),
        (request()[:-3] + b"  ", request()[-1:] + b"!"),
        (b"\r\n", request(b"not at once")),
    ],
)
def test_what_differs_takes_the_usual_path_each_time(parts: tuple[bytes, ...]) -> None:
    async def work() -> Asked:
        asked = Asked()
        async with serving(asked.app()) as port:
            async with wire(port) as one:
                await one.ask(request())
            for _ in range(2):
                async with wire(port) as one:
                    await one.send(*parts)
                    await one.line()
        return asked

    assert run(work()).fast == []


def test_a_body_in_two_parts_is_answered_at_once_when_it_is_complete() -> None:
    async def work() -> tuple[Asked, Answers]:
        asked = Asked()
        async with serving(asked.app()) as port:
            answers: Answers = []
            async with wire(port) as one:
                await one.ask(request())
                answers.append(await one.ask(request()[:-3], request()[-3:]))
            async with wire(port) as one:
                answers.append(await one.ask(request()[: -len(BODY)], BODY))
                answers.append(await one.ask(request(b"other")[:-1], b"r"))
        return asked, answers

    asked, answers = run(work())

    assert [body for _, body in answers] == [b"{}at once", b"{}at once", b"{}other"]
    assert asked.fast == [BODY, BODY]
    assert asked.usual == [BODY, b"other"]


@pytest.mark.parametrize("ends", [True, False])
def test_a_body_that_does_not_arrive_has_the_deadline_of_every_body(ends: bool) -> None:
    async def work() -> tuple[Asked, bytes]:
        asked = Asked()
        limits = PortLimits(body_seconds=0.2)
        async with serving(asked.app(), limits) as port, wire(port) as one:
            await one.ask(request())
            await one.send(request()[:-3])
            if ends:
                await one.end()
            return asked, await one.rest()

    asked, rest = run(work())

    assert asked.fast == []
    assert rest.startswith(b"" if ends else b"HTTP/1.1 408")


def test_requests_in_a_row_are_answered_in_their_order() -> None:
    async def work() -> tuple[Asked, Answers]:
        asked = Asked()
        async with serving(asked.app()) as port, wire(port) as one:
            await one.ask(request())
            await one.send(request(BODY + b"1") + request(BODY + b"2"), request(b"slow"), request())
            answers = [await one.answer() for _ in range(2)]
            assert asked.fast == []
            asked.event.set()
            return asked, [*answers, await one.answer(), await one.answer()]

    asked, answers = run(work())

    assert [body for _, body in answers] == [b"{}at once1", b"{}at once2", b"{}slow", b"{}at once"]
    assert len(asked.usual) == 5


def test_the_rest_of_a_body_that_was_not_read_is_no_request() -> None:
    async def work() -> tuple[Asked, Answers]:
        asked = Asked()
        unread = request(request(), path="/nothing")[: -len(request())]
        async with serving(asked.app()) as port, wire(port) as one:
            await one.ask(request())
            answers = [await one.ask(unread)]
            await one.send(request())
            return asked, [*answers, await one.ask(request(BODY + b"!"))]

    asked, (early, last) = run(work())

    assert b"404" in early[0]
    assert last[1] == b"{}at once!"
    assert asked.fast == [BODY + b"!"]


def test_a_connection_that_was_answered_at_once_is_not_the_one_that_is_idle_longest() -> None:
    async def work() -> bytes:
        asked = Asked()
        limits = PortLimits(connections=2)
        async with serving(asked.app(), limits) as port, wire(port) as one, wire(port) as two:
            for each in (one, two, one):
                await each.ask(request())
            async with wire(port) as three:
                await three.ask(request())
                assert await two.rest() == b""
                return (await one.ask(request()))[1]

    assert run(work()) == b"{}at once"


def test_a_full_port_answers_no_known_head() -> None:
    async def work() -> tuple[Asked, bytes]:
        asked = Asked()
        async with serving(asked.app(), PortLimits(connections=1)) as port, wire(port) as one:
            await one.ask(request())
            await one.send(request(b"slow"))
            async with wire(port) as two:
                head, _ = await two.ask(request())
            asked.event.set()
            await one.answer()
            return asked, head

    asked, head = run(work())

    assert head.startswith(b"HTTP/1.1 503")
    assert asked.fast == []


def test_the_head_that_was_seen_longest_ago_is_forgotten() -> None:
    hosts = [f"127.0.0.{number}" for number in range(fast_path.HEADS + 1)]
    asked, _ = asked_with(*(request(host=host) for host in [*hosts, hosts[0], hosts[-1]]))

    assert len(asked.usual) == len(hosts) + 1
    assert len(asked.fast) == 1


def test_a_connection_that_is_answered_at_once_again_and_again_is_kept_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE", 0.2)

    async def work() -> list[bytes]:
        asked = Asked()
        async with serving(asked.app()) as port, wire(port) as one:
            bodies = []
            for _ in range(5):
                bodies.append((await one.ask(request()))[1])
                await asyncio.sleep(0.1)
            assert await one.rest() == b""
            return bodies

    assert run(work()) == [b"{}at once"] * 5


def test_a_predicate_is_answered_at_once_from_the_ledger_of_now() -> None:
    """Another pod takes the card and returns it in between; then the ledgers are not known."""
    pod = a_pod("p", memory=800)

    def task(of: Json, node: str = "", status: int = 1) -> Json:
        uid = of["metadata"]["uid"]
        return {"UID": uid, "NodeName": node, "Status": status, "Pod": of}

    def asks(path: str, content: Json) -> bytes:
        text = json.dumps(content, separators=(",", ":"))  # as Go writes it
        return request(text.encode(), path=f"/volcano/{path}")

    async def work() -> tuple[list[Json], list[bool], bytes]:
        bench = await a_service(a_node("n1", cards=1, memory=1000 * MIB))
        app = await app_of(bench)
        plain, at_once = app.fast_path.answer, list[bool]()

        def spied(data: bytes) -> bytes | None:
            found = plain(data)
            at_once.append(found is not None)
            return found

        app.fast_path.answer = spied  # type: ignore[method-assign]
        predicate = asks("predicate", {"task": task(pod), "node": {"Name": "n1"}})
        other = a_pod("other", memory=800)
        taken = asks("allocate", {"task": task(other, "n1", status=2)})
        returned = asks("deallocate", {"task": task(other, "n1")})
        async with serving(app) as port, wire(port) as one:
            order = (predicate, predicate, taken, predicate, returned, predicate)
            answers = [json.loads((await one.ask(each))[1]) for each in order]
            bench.service.readiness.mark_unsynced("ledgers")
            return answers, at_once, (await one.ask(predicate))[0]

    answers, at_once, unready = run(work())

    assert [answer.get("code") for answer in answers] == [0, 0, None, 2, None, 0]
    assert at_once == [False, True, False, True, False, True, False]
    assert unready.startswith(b"HTTP/1.1 503")
