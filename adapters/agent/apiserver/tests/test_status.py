"""The publisher against a server whose answers a test sets."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import yaml

from adapters.agent.apiserver import reports as publish
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.apiserver.reports import HardwarePublisher, SharingConfig, desired_status
from adapters.agent.hardware.model import FileInventory, Hardware
from adapters.agent.tests.builders import card
from adapters.tests.waiting import until
from adapters.wire.records.hardware import NodeHardware, decode, encode

FIRST = NodeHardware((card(0),))
SECOND = NodeHardware((card(0), card(1)), problems=(("GPU-1", "Xid 79"),))


class Server:
    """Answers each request with the next status, the last one again and again."""

    def __init__(self, *statuses: str) -> None:
        self.statuses = statuses or ("200 OK",)
        self.requests: list[tuple[str, bytes]] = []
        self.before_answer: Callable[[int], object] = int

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = next(line for line in head.split("\r\n") if line.startswith("Content-Length"))
        body = await reader.readexactly(int(size.split(":")[1]))
        self.requests.append((head.split(" HTTP")[0], body))
        self.before_answer(len(self.requests))
        status = self.statuses[min(len(self.requests), len(self.statuses)) - 1]
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        await writer.drain()
        writer.close()

    def has(self, count: int) -> bool:
        """Whether ``count`` requests have arrived."""
        return len(self.requests) >= count

    def written_statuses(self) -> list[NodeHardware | None]:
        bodies = [body for head, body in self.requests if head.startswith("PATCH")]
        return [decode(json.dumps(json.loads(body)["status"]).encode(), "node") for body in bodies]


def run(
    server: Server,
    wanted: Callable[[], NodeHardware | None],
    *steps: tuple[Callable[[HardwarePublisher], None], int],
) -> None:
    """Do each step, and wait until its number of requests has arrived."""

    async def scenario() -> None:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        publisher = HardwarePublisher(AgentCredentials("127.0.0.1", port, None), "node", wanted)
        task = asyncio.ensure_future(publisher.run())
        for step, count in steps:
            step(publisher)
            await until(partial(server.has, count))
        await asyncio.sleep(0.05)
        task.cancel()
        listening.close()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "MIN_WRITE_INTERVAL", 0.01)


def status(hardware: NodeHardware) -> msgspec.Raw:
    return msgspec.Raw(encode(hardware))


def test_the_publisher_writes_only_a_status_that_differs() -> None:
    server, wanted = Server(), [FIRST]

    def more(publisher: HardwarePublisher) -> None:
        wanted[0] = SECOND
        publisher.wake()

    run(
        server,
        lambda: wanted[0],
        (lambda p: p.on_status(status(FIRST)), 0),
        (more, 1),
        (lambda p: p.on_status(status(SECOND)), 1),
        (lambda p: p.on_status(msgspec.Raw(b"")), 2),
    )

    assert [head for head, _ in server.requests] == [
        "PATCH /apis/dragoman.dev/v1alpha1/nodeledgers/node/status"
    ] * 2
    assert server.written_statuses() == [SECOND, SECOND]


def test_a_missing_ledger_is_created_empty_even_if_another_client_was_faster() -> None:
    server = Server("409 Conflict", "200 OK")

    run(server, lambda: FIRST, (lambda p: p.on_status(None), 2))

    (made, body), (patched, _) = server.requests
    assert made == "POST /apis/dragoman.dev/v1alpha1/nodeledgers"
    assert json.loads(body)["spec"] == {"node": "node"}
    assert patched.startswith("PATCH")


def test_a_ledger_that_is_deleted_repeatedly_is_created_ever_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    asleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asleep(0)

    monkeypatch.setattr("adapters.agent.apiserver.reports.asyncio.sleep", sleep)
    server = Server()

    async def scenario() -> None:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        publisher = HardwarePublisher(
            AgentCredentials("127.0.0.1", port, None), "node", lambda: FIRST
        )
        publisher.on_status(None)
        task = asyncio.ensure_future(publisher.run())
        for times in range(1, 8):
            while len(pauses) < times:
                await asleep(0.01)
            publisher.on_status(None)
        task.cancel()
        listening.close()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())

    assert [pause > earlier for earlier, pause in pairwise(pauses[:7])] == [True] * 6


def test_a_ledger_that_is_deleted_before_the_write_is_answered_is_created_again() -> None:
    server = Server()

    def start(publisher: HardwarePublisher) -> None:
        server.before_answer = lambda number: publisher.on_status(None) if number == 1 else None
        publisher.on_status(status(SECOND))

    run(server, lambda: FIRST, (start, 3))

    assert [head.split(" ")[0] for head, _ in server.requests] == ["PATCH", "POST", "PATCH"]


def test_a_rejected_write_is_retried_also_where_the_ledger_was_deleted_meanwhile(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = Server("404 Not Found", "403 Forbidden", "201 Created", "200 OK")

    run(server, lambda: FIRST, (lambda p: p.on_status(status(SECOND)), 4))

    assert [head.split(" ")[0] for head, _ in server.requests] == ["PATCH", "POST", "POST", "PATCH"]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == [
        "node_status.update_failed",
        "node_status.update_failed",
        "node_status.updated",
    ]


def test_nothing_is_written_before_the_ledger_and_the_hardware_are_known() -> None:
    server = Server()

    run(server, lambda: FIRST, (HardwarePublisher.wake, 0))
    run(server, lambda: None, (lambda p: p.on_status(None), 0))

    assert server.requests == []


def test_a_card_is_advertised_in_the_dialects_that_know_its_vendor() -> None:
    found = Hardware((card(0), card(1, "metax")), problems={"GPU-1": "hot", "GPU-0": "old"})

    status = desired_status(
        found, SharingConfig(("volcano", "koordinator", "metax"), 7, "HAMi-core")
    )

    assert [(each.slots, sorted(each.dialects)) for each in status.cards] == [
        (7, ["koordinator", "volcano"]),
        (7, ["koordinator", "metax"]),
    ]
    assert status.problems == (("GPU-0", "old"), ("GPU-1", "hot"))
    assert status.isolation == "HAMi-core"


@pytest.mark.parametrize("cuts", [True, False])
def test_the_status_says_which_pods_stopped_and_whether_the_agent_cuts(*, cuts: bool) -> None:
    status = desired_status(Hardware(), SharingConfig(mig_cut=cuts), stopped=("uid-1",))

    assert (status.stopped, status.mig_cut) == (("uid-1",), cuts)


def test_a_file_has_health_and_links(tmp_path: Path) -> None:
    entry = {
        "uuid": "GPU-0",
        "index": 0,
        "healthy": False,
        "problem": "taken out",
        "links": [{"level": "link", "name": "bridge"}],
    }
    file = tmp_path / "cards.yaml"
    file.write_text(yaml.safe_dump({"cards": [entry]}))

    found = FileInventory(file, "node").read()

    assert not found.cards[0].healthy
    assert [(scope.level.name, scope.name) for scope in found.cards[0].links] == [
        ("LINK", "bridge")
    ]
    assert found.problems == {"GPU-0": "taken out"}
