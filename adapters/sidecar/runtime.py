"""One running service with all around it but its port."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NoReturn

from adapters.dialects.dialect import Dialect, Documents
from adapters.dialects.registry import dialects
from adapters.sidecar.clock import SystemClock
from adapters.sidecar.decide.ports import (
    Binder,
    BudgetReader,
    EventEmitter,
    NoBudgets,
    NodeLocks,
    NoLocks,
    PodReader,
    Ports,
)
from adapters.sidecar.decide.service import Service
from adapters.sidecar.observe.card_metrics import CardMetrics
from adapters.sidecar.observe.decision_log import Logger, StructuredDecisionLog
from adapters.sidecar.observe.metrics import Metrics
from adapters.sidecar.settings import Settings
from adapters.sidecar.web.app import App, Route
from adapters.sidecar.web.routes import people, schedulers
from adapters.stores.store import Store

LEDGERS = "ledgers"
"""What is missing until the store's records are known."""

TICK = 1.0
"""Seconds between two looks at holds that may lapse."""

RETRY = 2.0
"""Seconds until the store is asked again after it failed."""

BATCH = 64
"""Changes of ledgers that are taken note of before others get a turn."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What stands for the cluster.

    Attributes:
        binder: binds pods.
        pods: knows them.
        events: tells people.
        locks: of nodes whose device plugins go by them.
        budgets: of pods that preemption may put off.
    """

    binder: Binder
    pods: PodReader
    events: EventEmitter
    locks: NodeLocks = field(default_factory=NoLocks)
    budgets: BudgetReader = field(default_factory=NoBudgets)


class ServiceRuntime:
    """A service, what it tells, and the tasks that keep it up to date.

    Attributes:
        service: which decides.
        metrics: of this process.
        journal: of its decisions.
        ledger_deleted: called with the name of a node whose ledger was deleted.
        ledger_changed: called with the name of a node whose ledger was written.
    """

    def __init__(
        self, settings: Settings, documents: Documents, store: Store, cluster: Cluster, log: Logger
    ) -> None:
        """Put it together.

        Raises:
            DialectError: a scheduler's settings file cannot be meant.
        """
        self._documents = documents
        self._settings = settings
        self._store = store
        self._log = log
        self.metrics = Metrics()
        self.decision_log = StructuredDecisionLog(log, self.metrics)
        clock = SystemClock()
        ports = Ports(
            store,
            cluster.binder,
            cluster.pods,
            cluster.events,
            clock,
            self.decision_log,
            cluster.locks,
            cluster.budgets,
        )
        self.service = Service(self._dialects(settings), ports, settings.hold_seconds)
        self.ledger_deleted: Callable[[str], None] = lambda _: None
        self.ledger_changed: Callable[[str], None] = lambda _: None
        self._cards = CardMetrics(self.service.ledgers, peers=settings.peer_metrics)
        self._required_plugin = settings.required_plugin
        self._seen = monotonic()
        self._show()

    def app(self, more: Mapping[tuple[str, str], Route] | None = None) -> App:
        """The application over HTTP.

        Args:
            more: routes that only this composition has.
        """
        routes = {
            **schedulers(self.service, self._required_plugin),
            **people(self.service, self._metrics, self.decision_log.latest),
            **(more or {}),
        }
        return App(routes, self.decision_log)

    def configure(self, settings: Settings) -> None:
        """Read pods by another policy from now on.

        Raises:
            DialectError: nothing was changed.
        """
        found = self._dialects(settings)
        self._settings = settings
        self.service.pod_requests.configure(found)
        self.service.hold_seconds = settings.hold_seconds

    def learn(self, documents: Documents) -> None:
        """Read pods and nodes by other settings of the schedulers from now on.

        Raises:
            DialectError: nothing was changed.
        """
        found = dialects(documents, self._settings.policy.defaults())
        self._documents = documents
        self.service.pod_requests.configure(found)

    async def load(self) -> None:
        """Learn all records of the store, and be ready.

        Raises:
            OSError: the store did not answer.
        """
        self.service.ledgers.load(await self._store.load())
        self._seen = monotonic()
        self.service.readiness.mark_synced(LEDGERS)
        settle()

    async def follow(self) -> NoReturn:
        """Learn all records if that has not been done, and every change from then on, for ever."""
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
                        self.ledger_deleted(change.node)
                    else:
                        self.ledger_changed(change.node)
                    self._seen = monotonic()
                    count += 1
                    if count % BATCH == 0:
                        await asyncio.sleep(0)
            except OSError as error:
                self._log.warning("store.silent", text=str(error))
            await asyncio.sleep(RETRY)

    async def tick(self) -> NoReturn:
        """Let go of holds whose time has come, for ever."""
        while True:
            await asyncio.sleep(TICK)
            over = self.service.ledgers.expire(self.service.ports.clock.now())
            if over:
                self._log.info("holds.expired", count=over)

    def _dialects(self, settings: Settings) -> tuple[Dialect, ...]:
        return dialects(self._documents, settings.policy.defaults())

    def _show(self) -> None:
        book = self.service.ledgers
        gauge = self.metrics.gauge
        gauge(
            "dragoman_holds",
            "Pods for which cards are held without a commit.",
            book.reservation_count,
        )
        gauge("dragoman_nodes", "Nodes with a ledger.", lambda: len(book.inventory))
        gauge(
            "dragoman_nodes_unreadable",
            "Nodes whose ledger cannot be read; they get no pods.",
            lambda: len(book.problems()),
        )
        gauge("dragoman_allocations", "Pods with cards.", lambda: _allocations(self.service))
        gauge(
            "dragoman_allocations_unknown",
            "Pods whose cards cannot be told, so they hold all that they may hold.",
            lambda: _unknown(self.service),
        )
        self.metrics.watch("ledgers", lambda: monotonic() - self._seen)

    async def _metrics(self) -> bytes:
        return b"".join((self.metrics.text(), *await self._cards.text()))


@dataclass(slots=True)
class Tasks:
    """Tasks that run until they are stopped; one that fails is told and ends the others' wait."""

    log: Logger
    running: list["asyncio.Task[Any]"] = field(default_factory=list)

    def start(self, work: Coroutine[Any, Any, Any], failed: Callable[[], None]) -> None:
        """Run a task beside the others.

        Args:
            work: what it does.
            failed: called when it ends by an error.
        """

        def ended(task: "asyncio.Task[Any]") -> None:
            if not task.cancelled() and task.exception() is not None:
                self.log.error("task.failed", exc_info=task.exception())
                failed()

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        self.running.append(task)

    async def stop(self) -> None:
        """End them all."""
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


def settle() -> None:
    """Take what is there now out of the garbage collector's sight, and let it look rarely.

    A full collection over 500,000 objects stops everything for 0.2 seconds; this way the longest
    stop is 5 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _allocations(service: Service) -> int:
    return sum(len(ledger.allocations) for ledger in service.ledgers.inventory)


def _unknown(service: Service) -> int:
    return sum(
        held.unread is not None
        for ledger in service.ledgers.inventory
        for held in ledger.allocations.values()
    )
