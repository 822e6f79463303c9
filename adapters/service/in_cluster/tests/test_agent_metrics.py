"""What node agents report, asked over real connections."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from adapters.cluster.api.client import PlainReader
from adapters.service.in_cluster.agent_metrics import (
    AT_ONCE,
    FRESH,
    KEPT,
    SILENT,
    WAITING,
    AgentMetrics,
)

CARD = 'hami_host_gpu_memory_used_bytes{{node="{}",device_uuid="GPU-1"}} {}\n'


class Agents:
    """Nodes whose agents answer, count how often they are asked, and wait where they are held."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.asked: list[str] = []
        self.held = asyncio.Event()
        self.held.set()
        self.at_once = self.most = 0
        self.time = 0.0
        self.metrics = AgentMetrics(self.address, self.read, lambda: self.time)

    def address(self, node: str) -> str | None:
        return node if node in self.texts else None

    async def read(self, address: str) -> bytes:
        self.asked.append(address)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.held.wait()
        finally:
            self.at_once -= 1
        if not self.texts[address]:
            raise OSError(f"{address}: no answer")
        return self.texts[address].encode()

    async def used(self, *nodes: str) -> dict[str, int | None]:
        found = await self.metrics.reports(nodes)
        return {node: report.cards["GPU-1"].memory for node, report in found.items()}


def run(work: Callable[[Agents], Coroutine[Any, Any, None]], texts: dict[str, str]) -> None:
    async def go() -> None:
        agents = Agents(texts)
        try:
            await work(agents)
        finally:
            await agents.metrics.close()

    asyncio.run(go())


def test_only_the_nodes_of_the_question_are_asked_and_one_without_an_answer_is_unknown() -> None:
    async def work(agents: Agents) -> None:
        assert await agents.used("a", "silent", "none") == {"a": 5}
        assert agents.asked == ["a", "silent"]

    run(work, {"a": CARD.format("a", 5), "b": CARD.format("b", 6), "silent": ""})


def test_garbage_is_unknown() -> None:
    async def work(agents: Agents) -> None:
        assert await agents.used("a") == {}

    run(work, {"a": "hami_host_gpu_memory_used_bytes{ 1\n"})


def test_a_report_is_shown_again_for_some_seconds_and_a_silent_agent_left_in_peace_for_longer() -> (
    None
):
    async def work(agents: Agents) -> None:
        for _ in range(3):
            assert await agents.used("a", "silent") == {"a": 5}
        assert agents.asked == ["a", "silent"]

        agents.time += FRESH
        agents.texts["a"] = CARD.format("a", 7)
        assert await agents.used("a", "silent") == {"a": 7}
        assert agents.asked == ["a", "silent", "a"]

        agents.time += SILENT
        agents.texts["silent"] = CARD.format("silent", 8)
        assert await agents.used("silent") == {"silent": 8}

    run(work, {"a": CARD.format("a", 5), "silent": ""})


def test_questions_at_the_same_time_ask_an_agent_once_and_few_agents_at_a_time() -> None:
    async def work(agents: Agents) -> None:
        agents.held.clear()
        questions = [asyncio.create_task(agents.used(*agents.texts)) for _ in range(3)]
        while agents.at_once < AT_ONCE:
            await asyncio.sleep(0)
        agents.held.set()

        assert [len(await each) for each in questions] == [30, 30, 30]
        assert len(agents.asked) == 30
        assert agents.most == AT_ONCE

    run(work, {f"n{number}": CARD.format(f"n{number}", number) for number in range(30)})


def test_a_bounded_number_of_agents_waits_to_be_asked() -> None:
    async def work(agents: Agents) -> None:
        agents.held.clear()
        question = asyncio.create_task(agents.used(*agents.texts))
        while agents.at_once < AT_ONCE:
            await asyncio.sleep(0)
        agents.held.set()

        assert len(await question) == WAITING

    nodes = [f"n{number}" for number in range(WAITING + 50)]
    run(work, {node: CARD.format(node, 1) for node in nodes})


def test_a_bounded_number_of_reports_is_kept() -> None:
    async def work(agents: Agents) -> None:
        nodes = [*agents.texts]
        for start in range(0, len(nodes), 200):
            await agents.used(*nodes[start : start + 200])
        asked = len(agents.asked)
        await agents.used(nodes[0], nodes[-1])
        assert agents.asked[asked:] == nodes[:1]

    nodes = [f"n{number}" for number in range(KEPT + 100)]
    run(work, {node: CARD.format(node, 1) for node in nodes})


def test_a_real_agent_is_asked_over_http_and_a_port_without_one_is_unknown() -> None:
    async def work() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            body = CARD.format("a", 5).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        http = PlainReader(patience=20.0)

        def read(host: str) -> Awaitable[bytes]:
            return http.get(host, port if host == "127.0.0.1" else 1, "/metrics")

        metrics = AgentMetrics({"a": "127.0.0.1", "b": "127.0.0.2"}.get, read)
        found = await metrics.reports(["a", "b"])
        await metrics.close()
        await http.close()
        server.close()

        assert {node: report.cards["GPU-1"].memory for node, report in found.items()} == {"a": 5}

    asyncio.run(work())
