"""One running service: its ports' values, its metrics, and the tasks that keep it up to date."""

import asyncio
import ctypes
import gc
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from time import monotonic
from typing import NoReturn

from adapters.dialects.dialect import Dialect, Documents
from adapters.dialects.registry import dialects
from adapters.service.decide.ports import LEDGERS, ClusterPorts, Ports
from adapters.service.decide.service import Service
from adapters.service.observe.card_metrics import CardMetrics
from adapters.service.observe.decision_log import Logger, StructuredDecisionLog
from adapters.service.observe.exported_metrics import ExportedMetrics
from adapters.service.observe.metrics import Metrics
from adapters.service.settings.settings import Settings
from adapters.service.web.app import App, Route
from adapters.service.web.authorize import Authorizer, Review
from adapters.service.web.dashboard.moves import PlanSource
from adapters.service.web.dashboard.routes import dashboard
from adapters.service.web.dashboard.views import AskAgents
from adapters.service.web.limits import BodyBudget
from adapters.service.web.routes import exposition, people, schedulers
from adapters.service.web.tenants import tenants
from adapters.stores.store import Store, kept
from adapters.wire.kube import Pod

TICK = 1.0
"""Seconds between two checks for expired reservations."""

RETRY = 2.0
"""Seconds between two attempts to watch the store after an error."""

BATCH = 64
"""Changes of ledgers that are applied before the event loop gets its turn."""

EVERY = 10.0
"""Seconds between two looks at the size of the process, for ``FreedMemory``."""

GROWTH = 64 << 20
"""Bytes by which it must have grown."""

FIRST = 0.002
"""Seconds: upper bound of the first pause of a writer."""

LONGEST = 0.25
"""Seconds: upper bound of every pause."""

_STATM = Path("/proc/self/statm")
"""Source: proc_pid_statm(5); its second number is the resident pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster(ClusterPorts):
    """The service's ports to a cluster, also those that its decisions do not need.

    Attributes:
        unbound: the pods that no scheduler has bound, for people.
        agents: asks the node agents what is used, for people; None where they are not asked.
        plans: of moves, for people; None where none is carried out.
        review: of the tokens of people; None where they need none.
    """

    unbound: Callable[[], Sequence[Pod]] = tuple
    agents: AskAgents | None = None
    plans: PlanSource | None = None
    review: Review | None = None


def resident() -> int:
    """Return bytes that this process occupies; 0 where the system does not say."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class FreedMemory:
    """Memory that nothing uses any more, and that the process still has.

    * Objects that refer to each other in a circle, such as errors with the frames in which they
      were raised, stay until a garbage collection. Python collects by the number of objects and
      not by their bytes, and rarely here (``runtime.settle``): gRPC calls that failed kept 500 MiB
      of messages.
    * glibc takes longer and longer buffers from the heap, between small ones that stay. After
      1,600 requests, some of 60 MB, it kept 205 MiB that were free.
      Source: glibc malloc/malloc.c, "Update in 2006", and malloc_trim(3).
    """

    def __init__(
        self, size: Callable[[], int] = resident, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size = size
        self._clock = clock
        self._next = clock() + EVERY
        self._least = size()
        self._trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)

    async def give_back(self) -> None:
        """Return it, if the process has grown since the last time.

        The collection stops the event loop for as long as it takes: 20 ms for 80,000 objects.
        """
        if self._clock() < self._next:
            return
        self._next = self._clock() + EVERY
        size = self._size()
        if size - self._least < GROWTH:
            self._least = min(self._least, size)
            return
        gc.collect()
        if self._trim is not None:
            await asyncio.to_thread(self._trim, 0)
        self._least = self._size()


class SystemClock:
    """The clock of the system; implements ``ports.Clock``."""

    def now(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()

    def wall(self) -> int:
        """Return nanoseconds since 1970."""
        return time.time_ns()

    async def pause(self, attempt: int) -> None:
        """Wait a random time, up to a bound that doubles with each attempt."""
        longest = min(FIRST * 2**attempt, LONGEST)
        await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - only spreads the writers

    async def sleep(self, nanoseconds: int) -> None:
        """Wait for some nanoseconds."""
        await asyncio.sleep(nanoseconds / 1e9)


class NodeEvents:
    """Something that happens to nodes, and what has to look at each of them."""

    def __init__(self) -> None:
        self._handlers: list[Callable[[str], None]] = []

    def subscribe(self, handler: Callable[[str], None]) -> None:
        """Call a function with the name of each node to which it happens from now on."""
        self._handlers.append(handler)

    def notify(self, node: str) -> None:
        """Call all subscribers with the node to which it has happened."""
        for handler in self._handlers:
            handler(node)


class ServiceRuntime:
    """A service with its metrics, its HTTP application and its tasks.

    Attributes:
        service: decides.
        metrics: of this process.
        decision_log: of the service.
        ledger_deleted: the nodes whose ledger was deleted.
        ledger_written: the nodes whose ledger was written.
        leads: whether this replica does what only one of them must do.
        led_for: seconds for which it has led; 0 where it does not.
        staleness: seconds since the cache of ledgers was last up to date.
    """

    def __init__(
        self, settings: Settings, documents: Documents, store: Store, cluster: Cluster, log: Logger
    ) -> None:
        """Compose it.

        Raises:
            DialectError: a scheduler's settings file is invalid.
        """
        self._documents = documents
        self._settings = settings
        self._store = store
        self._log = log
        self._budget = BodyBudget(settings.limits.body_bytes, monotonic)
        self._freed = FreedMemory()
        self.metrics = Metrics()
        self.decision_log = StructuredDecisionLog(log, self.metrics)
        clock = SystemClock()
        started = clock.wall() / 1e9
        self.metrics.gauge(
            "dragoman_start_timestamp_seconds",
            "When this process started, in seconds since 1970.",
            lambda: started,
        )
        ports = Ports(
            store=store,
            clock=clock,
            decision_log=self.decision_log,
            **{port.name: getattr(cluster, port.name) for port in fields(ClusterPorts)},
        )
        self.service = Service(
            self._dialects(settings),
            ports,
            settings.hold_seconds,
            settings.mirrors,
            evicts=settings.preemption.enabled,
        )
        self.ledger_deleted = NodeEvents()
        self.ledger_written = NodeEvents()
        self.leads: Callable[[], bool] = lambda: True
        self.led_for: Callable[[], float] = lambda: inf
        self.staleness: Callable[[], float] = lambda: 0.0
        self._exported = ExportedMetrics(
            self.metrics,
            self.service,
            clock,
            CardMetrics(
                self.service.ledgers,
                peers=settings.peer_metrics,
                exported=lambda: self._settings.card_metrics == "always" or self.leads(),
            ),
            lambda: self.led_for(),
            lambda: self.staleness(),
        )
        self._unbound, self._agents, self._plans = cluster.unbound, cluster.agents, cluster.plans
        self._review = cluster.review
        self._required_plugin = settings.required_plugin
        self._updated = monotonic()
        self.metrics.watch("ledgers", lambda: monotonic() - self._updated)

    def app(self, more: Mapping[tuple[str, str], Route] | None = None) -> App:
        """Return the HTTP application, with routes that only this composition has."""
        routes = {
            **schedulers(self.service, self._required_plugin),
            **people(self.service, self._exported.all, self.decision_log.latest),
            **tenants(self.service, self._unbound),
            **dashboard(self.service, self.decision_log, self._unbound, self._agents, self._plans),
            ("GET", "/metrics/usage"): exposition(self._exported.usage),
            **(more or {}),
        }
        if self._review is not None:
            guard = Authorizer(self._review)
            routes |= {
                at: guard.guarded(at[1], route)
                for at, route in routes.items()
                if at[1].startswith("/api/")
            }
        hosts = [name.lower() for name in self._settings.hosts]
        return App(routes, self.decision_log, self._budget, hosts)

    def configure(self, settings: Settings) -> None:
        """Apply the settings that need no restart.

        Raises:
            DialectError: the settings are invalid and were not applied.
        """
        configured = self._dialects(settings)
        self._settings = settings
        self.service.pod_requests.configure(configured)
        self.service.hold_seconds = settings.hold_seconds

    def learn(self, documents: Documents) -> None:
        """Apply the schedulers' own settings files.

        Raises:
            DialectError: the settings are invalid and were not applied.
        """
        configured = dialects(documents, self._settings.policy.defaults())
        self._documents = documents
        self.service.pod_requests.configure(configured)

    async def load(self) -> None:
        """Load all ledgers from the store.

        Raises:
            OSError: the store did not answer.
        """
        stored = await self._store.load()
        with kept():
            self.service.ledgers.load(stored)
        self._updated = monotonic()
        self.service.readiness.mark_synced(LEDGERS)
        settle()

    async def follow(self) -> NoReturn:
        """Load all ledgers if that was not done, and apply every change, until cancelled."""
        count = 0
        while True:
            try:
                if LEDGERS in self.service.readiness.awaited:
                    await self.load()
                async for change in self._store.changes():
                    self.service.ledgers.apply(change)
                    if change.problem is not None:
                        self._log.error("ledger.unreadable", node=change.node, text=change.problem)
                    elif change.stored is None:
                        self.ledger_deleted.notify(change.node)
                    else:
                        self.ledger_written.notify(change.node)
                    self._updated = monotonic()
                    count += 1
                    if count % BATCH == 0:
                        await asyncio.sleep(0)
            except OSError as error:
                self._log.warning("store.unavailable", text=str(error))
            await asyncio.sleep(RETRY)

    async def tick(self) -> NoReturn:
        """Release expired reservations, and freed memory, until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            over = self.service.ledgers.expire(self.service.ports.clock.now())
            if over:
                self._log.info("reservations.expired", count=over)
            await self._freed.give_back()

    async def answer_waiting(self) -> NoReturn:
        """Evaluate for people why pods wait, until cancelled."""
        await self.service.waiting_answers.run(self._unbound)

    def _dialects(self, settings: Settings) -> tuple[Dialect, ...]:
        return dialects(self._documents, settings.policy.defaults())


def settle() -> None:
    """Freeze long-lived objects out of the garbage collector and raise its thresholds.

    A full collection over 500,000 objects stops the process for 0.2 seconds; this way the longest
    stop is 5 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
