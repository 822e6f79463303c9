"""The NRI plugin: connects to the runtime, serves the connection, and reconnects."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from adapters.agent.hook.create_container import (
    DEFAULT_TIMEOUT,
    CreateContainerHandler,
    WaitBudget,
    Watchdog,
)
from adapters.agent.hook.policy import Policy
from adapters.agent.hook.reporter import ContainerReporter, audit
from adapters.agent.log import log_event
from adapters.agent.nri.connection import Connection
from adapters.agent.nri.model import RuntimeInfo
from adapters.agent.nri.session import (
    Configured,
    ContainerEvent,
    Creating,
    RegistrationRejected,
    Removed,
    Session,
    SessionEvent,
    Stage,
    Stopped,
    Synchronized,
)
from adapters.agent.nri.ttrpc import MuxError, TtrpcError

LATE_SYNCHRONIZE = 0.8
"""The part of its deadline after which the answer to Synchronize may have come too late: containerd
1.7 then keeps the socket open and never calls again."""

MIN_RETRY_DELAY, MAX_RETRY_DELAY = 0.05, 2.0
"""Seconds between two attempts to connect."""

ACTIVATION_TIMEOUT = 30.0
"""Seconds from the connection to the Synchronize that makes the plugin active, at most."""

Observer = Callable[[ContainerEvent], None]


def ignore(_: object) -> None:
    """Do nothing: the default, without an observer."""


@dataclass(slots=True)
class NriPlugin:
    """The plugin's end of one runtime's socket.

    Attributes:
        configure: called with the runtime of each connection.
        observe: called with the runtime's containers, and with each one that comes or goes.
    """

    path: Path
    name: str
    index: str
    policy: Policy
    watchdog: Watchdog
    reporter: ContainerReporter = field(default_factory=ContainerReporter)
    configure: Callable[[RuntimeInfo], None] = ignore
    observe: Observer = ignore
    budget: WaitBudget = field(default_factory=WaitBudget)
    _waited: dict[str, None] = field(default_factory=dict[str, None])

    async def run(self) -> None:
        """Stay connected until cancelled."""
        wait = MIN_RETRY_DELAY
        while True:
            session = Session(self.name, self.index)
            try:
                await self._serve(Connection.connect(self.path, session))
            except (OSError, MuxError, TtrpcError, EOFError) as error:
                log_event(
                    "nri.disconnected", reason=str(error) or type(error).__name__, socket=self.path
                )
            finally:
                self.reporter.counters.active = False
            wait = (
                MIN_RETRY_DELAY if session.stage is Stage.ACTIVE else min(wait * 2, MAX_RETRY_DELAY)
            )
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311

    async def _serve(self, connection: Connection) -> None:
        """Serve one connection until it ends."""
        loop = asyncio.get_running_loop()
        handler = CreateContainerHandler(
            connection,
            self.policy,
            self.watchdog,
            self.reporter,
            loop,
            self.observe,
            self._waited,
            self.budget,
        )
        audits: set[asyncio.Future[None]] = set()

        async def audit_when_known(event: Synchronized) -> None:
            containers, name, grants = len(event.containers), "nri.active", self.policy.grants
            if not grants.known:
                log_event(name, containers=containers)
                name = "nri.audited"
                await grants.wait_until_known()
            missing, bypasses = audit(self.policy, event.pods, event.containers)
            self.reporter.report_audit(missing, bypasses)
            log_event(name, containers=containers, missing=len(missing), bypasses=len(bypasses))

        def begin_audit(event: Synchronized) -> None:
            audits.add(asyncio.ensure_future(audit_when_known(event)))

        def handle(event: SessionEvent, began: float) -> None:
            match event:
                case Creating():
                    handler.handle(event, began)
                case Synchronized():
                    took = time.monotonic() - began
                    if took > LATE_SYNCHRONIZE * (event.timeout / 1e9 or DEFAULT_TIMEOUT):
                        problem = f"the answer to Synchronize took {took:.1f} s: reconnecting"
                        raise TimeoutError(problem)
                    self.reporter.counters.active = True
                    self.reporter.counters.connections += 1
                    self.reporter.reset()
                    self.observe(event)
                    loop.call_soon_threadsafe(begin_audit, event)
                case Configured(runtime):
                    self.configure(runtime)
                case Stopped():
                    self.observe(event)
                case Removed(_, container):
                    self.observe(event)
                    self.reporter.forget(container)
                case RegistrationRejected(reason):
                    raise ConnectionRefusedError(f"the runtime rejects the plugin: {reason}")

        def require_active() -> None:
            if connection.session.stage is not Stage.ACTIVE:
                connection.close(TimeoutError(f"not active after {ACTIVATION_TIMEOUT:.0f} s"))

        activation = loop.call_later(ACTIVATION_TIMEOUT, require_active)
        try:
            await asyncio.to_thread(connection.serve, handle)
        finally:
            activation.cancel()
            connection.close()
            handler.end()
            for task in audits:
                task.cancel()
