"""Batches concurrent changes to a node's ledger into one compare-and-swap write.

Each node that has pending changes has one writer task. It reads the newest record, applies all
pending changes to it, and writes the result; where another replica wrote first, it starts over.
"""

from asyncio import Future, Task, create_task, get_running_loop
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

from adapters.service.decide.ports import Clock, DecisionLog
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.stores.store import Change, Conflict, Store, Stored
from adapters.wire.records.ledger import LedgerRecordError
from core.durations import MILLISECOND
from core.ledger.node_ledger import NodeLedger, metered

ATTEMPTS = 12
"""Times that a change is applied to a newer record because another replica wrote first."""

BURST = 5
"""Writes of one node's ledger that wait for nothing."""

WRITE_INTERVAL_NS = 100_000_000
"""Nanoseconds between two writes of a node's ledger after such a burst.

A scheduler that fills one node after the other has all its pods in the ledger of one: a write for
every pod costs the API server more than all else that it does for the pod.
"""

T = TypeVar("T")

Revision = Callable[[NodeLedger], tuple[NodeLedger, T]]
"""Returns the ledger after a change, and what the caller of ``change`` gets; the same ledger object
where nothing changes. It may be called several times, each time with a newer ledger."""


class LedgerContended(RuntimeError):  # noqa: N818 (not a fault: try again)
    """Other replicas wrote the node's ledger first each time, or it cannot be read."""


class LedgerWriter:
    """Changes ledgers in the store and in the cache."""

    def __init__(
        self, ledgers: LedgerCache, store: Store, clock: Clock, decision_log: DecisionLog
    ) -> None:
        self._ledgers = ledgers
        self._store = store
        self._clock = clock
        self._decision_log = decision_log
        self._pending: dict[str, list[_PendingChange[Any]]] = {}
        self._tasks: dict[str, Task[None]] = {}
        self._next_write: dict[str, int] = {}

    async def change(self, node: str, revision: Revision[T]) -> T | None:
        """Apply a revision to the newest ledger of a node and write the result.

        Returns:
            what the revision returned for the ledger that was written, or for the newest one where
            it changed nothing; None where the node has no ledger.

        Raises:
            LedgerContended: other replicas wrote first each time, or the ledger cannot be read.
            OSError: the store did not answer; the write may have happened.
        """
        change = _PendingChange(revision)
        self._pending.setdefault(node, []).append(change)
        if node not in self._tasks:
            self._tasks[node] = create_task(self._write_pending(node))
        try:
            return await change.result
        finally:
            change.result.cancel()  # no effect unless the caller was cancelled

    def close(self) -> None:
        """Cancel all writes in progress, and with them the calls of ``change``."""
        for task in self._tasks.values():
            task.cancel()
        for change in chain.from_iterable(self._pending.values()):
            change.result.cancel()  # a task that has not begun cancels nothing

    async def _write_pending(self, node: str) -> None:
        """Write batch after batch until no change of the node is pending."""
        batch: list[_PendingChange[Any]] = []
        try:
            while self._pending[node]:
                now = self._clock.now()
                self._next_write = {each: at for each, at in self._next_write.items() if at > now}
                at = self._next_write.get(node, now)
                self._next_write[node] = at + WRITE_INTERVAL_NS
                early = at - now - (BURST - 1) * WRITE_INTERVAL_NS
                if early > 0:
                    await self._clock.sleep(early)
                batch, self._pending[node] = self._pending[node], []
                awaited = [change for change in batch if not change.result.done()]
                try:
                    if awaited:
                        await self._compare_and_swap(node, awaited)
                except Exception as error:  # every caller gets it
                    for change in awaited:
                        change.fail(error)
                else:
                    for change in awaited:
                        change.succeed()
        finally:
            del self._tasks[node]
            for change in (*batch, *self._pending.pop(node)):
                change.result.cancel()  # no effect unless this task was cancelled

    async def _compare_and_swap(self, node: str, batch: "Sequence[_PendingChange[Any]]") -> None:
        """Make some changes with one write."""
        is_newest = False
        for attempt in range(ATTEMPTS):
            stored = self._ledgers.stored(node)
            if stored is None:
                stored, is_newest = await self._refresh(node), True
            if stored is None:
                for change in batch:
                    change.undo()
                return
            changed = stored.ledger
            for change in batch:
                changed = change.apply(changed)
            if not is_newest and not all(change.has_effect for change in batch):
                # The watch cache may be stale: read the ledger before a change is rejected.
                await self._refresh(node)
                is_newest = True
                continue
            if changed is stored.ledger:
                return
            changed = metered(changed, stored.ledger, self._clock.wall() // MILLISECOND)
            try:
                version = await self._store.write(changed, stored.version)
            except Conflict:
                self._decision_log.conflict(node)
                if attempt:
                    await self._clock.pause(attempt - 1)
                await self._refresh(node)
                is_newest = True
                continue
            cached = self._ledgers.stored(node)
            if cached is not None and cached.version == stored.version:
                # Else the watch has reported this record, or that it was deleted since.
                self._ledgers.apply(Change(node, Stored(changed, version)))
            return
        raise LedgerContended(f"other replicas changed the ledger of node {node} each time")

    async def _refresh(self, node: str) -> Stored | None:
        """Read the newest record from the store into the cache."""
        try:
            stored = await self._store.read(node)
        except LedgerRecordError as error:
            self._ledgers.put(Change(node, None, str(error)))
            raise LedgerContended(f"the ledger of node {node} cannot be read: {error}") from error
        self._ledgers.put(Change(node, stored))
        return stored


class _PendingChange(Generic[T]):
    """A change that a caller waits for.

    Attributes:
        has_effect: whether the revision changed the ledger when it was applied last.
        result: what the caller of ``change`` gets.
    """

    def __init__(self, revision: Revision[T]) -> None:
        self._revision = revision
        self._value: T | None = None
        self.has_effect = False
        self.result: Future[T | None] = get_running_loop().create_future()

    def apply(self, ledger: NodeLedger) -> NodeLedger:
        """Return the ledger after the change.

        Unchanged where the change failed or its caller left.
        """
        if self.result.done():
            return ledger
        try:
            changed, self._value = self._revision(ledger)
        except Exception as error:  # this caller's fault; the others' changes go on
            self.fail(error)
            return ledger
        self.has_effect = changed is not ledger
        return changed

    def undo(self) -> None:
        """Forget what an earlier ``apply`` gave, to a ledger that was deleted meanwhile."""
        self._value = None

    def succeed(self) -> None:
        """Return the value of the revision to the caller."""
        if not self.result.done():
            self.result.set_result(self._value)

    def fail(self, error: Exception) -> None:
        """Raise an error in the caller."""
        if not self.result.done():
            self.result.set_exception(error)
