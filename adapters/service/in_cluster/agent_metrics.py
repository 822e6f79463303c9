"""Asks node agents for what is used, for people who look at the dashboard, and never otherwise."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic

from adapters.wire.agent_report import NodeReport, parse

FRESH = 4.0
"""Seconds for which a report is shown again; the page asks every five."""

SILENT = 20.0
"""Seconds for which an agent that did not answer is not asked again."""

WAIT = 2.5
"""Seconds for which a question waits; what comes later is shown by the next one."""

AT_ONCE = 8
"""Agents that are asked at a time."""

WAITING = 400
"""Agents that wait to be asked; further ones are not known until the next question."""

KEPT = 1000
"""Reports that are kept, the newest ones."""

Read = Callable[[str], Awaitable[bytes]]
"""The text of the metrics at an IP address; raises OSError."""


class AgentMetrics:
    """The port of ``adapters.service.web.dashboard.agents`` on the agents' pods."""

    asks = True

    def __init__(
        self,
        address: Callable[[str], str | None],
        read: Read,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """Ask nothing yet.

        Args:
            address: of a node's agent; None where it has none.
            read: the metrics.
            now: seconds.
        """
        self._address = address
        self._read = read
        self._now = now
        self._kept: OrderedDict[str, tuple[float, NodeReport | None]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def reports(self, nodes: Sequence[str]) -> Mapping[str, NodeReport]:
        """Implements ``AgentReader.reports``."""
        tasks = [task for node in nodes if (task := self._ask(node)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT)
        found = {node: self._kept[node][1] for node in nodes if node in self._kept}
        return {node: report for node, report in found.items() if report is not None}

    async def close(self) -> None:
        """Ask nothing any more."""
        tasks = [*self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ask(self, node: str) -> "asyncio.Task[None] | None":
        """The question to a node's agent, one at a time; None where none is needed."""
        if node in self._asking:
            return self._asking[node]
        if node in self._kept:
            if self._now() < self._kept[node][0]:
                return None
            del self._kept[node]
        address = self._address(node)
        if address is None or len(self._asking) >= WAITING:
            return None
        task = asyncio.create_task(self._answer(node, address))
        self._asking[node] = task
        task.add_done_callback(lambda _: self._asking.pop(node, None))
        return task

    async def _answer(self, node: str, address: str) -> None:
        async with self._turns:
            try:
                text = (await self._read(address)).decode()
                # The parser is slow: schedulers must not wait for it.
                report = await asyncio.to_thread(parse, text, node)
                until = self._now() + FRESH
            except (OSError, ValueError):
                report, until = None, self._now() + SILENT
        self._kept[node] = (until, report)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
