"""The connection to the runtime: made, kept, made again."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from adapters.node.hook.create_container import DEADLINE, CreateContainerHandler
from adapters.node.hook.deadline import Watchdog
from adapters.node.hook.policy import Policy
from adapters.node.hook.reporter import ContainerReporter
from adapters.node.log import log_event
from adapters.node.nri.connection import Connection
from adapters.node.nri.model import RuntimeInfo
from adapters.node.nri.mux import MuxError
from adapters.node.nri.session import (
    Configured,
    Creating,
    Happening,
    RegistrationRejected,
    Removed,
    Session,
    Stage,
    Synchronized,
)
from adapters.node.nri.ttrpc import TtrpcError

ZOMBIE = 0.8
"""The part of its deadline after which an answered Synchronize may have come too late: containerd
1.7 then keeps the socket open and never calls again."""

SHORTEST, LONGEST = 0.05, 2.0
"""Seconds between two attempts to connect."""

ARRIVAL = 30.0
"""Seconds from the connection to the Synchronize that makes the plugin active, at most."""

Observer = Callable[[Synchronized | Creating | Removed], None]


def _ignore(_: object) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class NriPlugin:
    """The plugin's end of one runtime's socket.

    Attributes:
        path: of the socket.
        name: of the plugin.
        index: two digits; plugins are asked in ascending order.
        agent: that answers.
        watchdog: that answers if the agent does not.
        news: where refused and unserved containers are told.
        configure: called with each runtime that is reached.
        observe: called with what is said about pods and containers.
    """

    path: Path
    name: str
    index: str
    agent: Policy
    watchdog: Watchdog
    news: ContainerReporter = field(default_factory=ContainerReporter)
    configure: Callable[[RuntimeInfo], None] = _ignore
    observe: Observer = _ignore
    _waited: dict[str, None] = field(default_factory=dict[str, None])

    async def run(self) -> None:
        """Stay connected until cancelled."""
        wait = SHORTEST
        while True:
            session = Session(self.name, self.index)
            try:
                await self._keep(Connection.connect(self.path, session))
            except (OSError, MuxError, TtrpcError, EOFError) as error:
                log_event("link.lost", reason=str(error) or type(error).__name__, socket=self.path)
            finally:
                self.news.counts.active = False
            wait = SHORTEST if session.stage is Stage.ACTIVE else min(wait * 2, LONGEST)
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311

    async def _keep(self, line: Connection) -> None:
        """Serve one connection until it ends."""
        loop = asyncio.get_running_loop()
        creations = CreateContainerHandler(
            line, self.agent, self.watchdog, self.news, loop, self.observe, self._waited
        )
        audits: set[asyncio.Future[None]] = set()

        def audit(happening: Synchronized) -> None:
            audits.add(asyncio.ensure_future(self._audit(happening)))

        def take(happening: Happening, began: float) -> None:
            match happening:
                case Creating():
                    creations.handle(happening, began)
                case Synchronized():
                    self._synchronized(happening, began)
                    loop.call_soon_threadsafe(audit, happening)
                case Configured(runtime):
                    self.configure(runtime)
                case Removed(_, container):
                    self.observe(happening)
                    self.news.gone(container)
                case RegistrationRejected(problem):
                    raise ConnectionRefusedError(f"the runtime refuses the plugin: {problem}")

        arrival = loop.call_later(ARRIVAL, partial(_arrive, line))
        try:
            await asyncio.to_thread(line.serve, take)
        finally:
            arrival.cancel()
            line.close()
            creations.end()
            for each in audits:
                each.cancel()

    def _synchronized(self, happening: Synchronized, began: float) -> None:
        took = time.monotonic() - began
        if took > ZOMBIE * (happening.timeout / 1e9 or DEADLINE):
            raise TimeoutError(f"the answer to Synchronize took {took:.1f} s: starting over")
        self.news.counts.active = True
        self.news.counts.connections += 1
        self.news.begin()
        self.observe(happening)

    async def _audit(self, happening: Synchronized) -> None:
        """See who runs without what he was sold, as soon as there is a record of that."""
        containers = len(happening.containers)
        event = "link.active"
        if not self.agent.grants.known:
            log_event(event, containers=containers)
            event = "link.audited"
            await self.agent.grants.arrival()
        unserved = self.agent.audit(happening.pods, happening.containers)
        exposed = self.agent.exposed(happening.pods, happening.containers)
        self.news.audited(unserved, exposed)
        log_event(event, containers=containers, unserved=len(unserved), exposed=len(exposed))


def _arrive(line: Connection) -> None:
    if line.session.stage is not Stage.ACTIVE:
        line.close(TimeoutError(f"not active after {ARRIVAL:.0f} s"))
