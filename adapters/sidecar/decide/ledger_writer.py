"""Writes what is to be changed of nodes' records, what comes at once together.

Read the newest record, change it, write by compare-and-swap; where somebody else was faster, again.
"""

from asyncio import CancelledError, Future, Lock, get_running_loop
from collections.abc import Callable, Sequence

from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.decide.ports import Clock, DecisionLog
from adapters.stores.store import Change, Conflict, Store, Stored
from adapters.wire.ledger import LedgerRecordError
from core.ledger.node_ledger import NodeLedger

ATTEMPTS = 12
"""How often a decision is made again because somebody else wrote the node's ledger first."""

BURST = 5
"""Writes of one node's record that wait for nothing."""

WRITE_INTERVAL_NS = 100_000_000
"""Nanoseconds from one write of a node's record to the next one after such a burst.

A scheduler that fills one node after the other has all its pods in the record of one: to write that
for every pod costs the API server more than all else that it does for the pod.
"""

Revision = Callable[[NodeLedger], NodeLedger]
"""What becomes of a ledger; the same object where nothing does."""


class LedgerContended(RuntimeError):  # noqa: N818 (it is no error: try again)
    """A node's ledger was written by others again and again, or cannot be read."""


class _Wish:
    """A change of a record that somebody waits for.

    Attributes:
        changes: whether it changed anything when it was made last.
        made: how it went, when it is sure.
    """

    def __init__(self, change: Revision) -> None:
        self._change = change
        self.changes = False
        self.made: Future[bool] = get_running_loop().create_future()

    def apply(self, ledger: NodeLedger) -> NodeLedger:
        """The ledger after the change; as it was where nobody waits for that any more."""
        if self.made.done():
            return ledger
        try:
            changed = self._change(ledger)
        except Exception as error:  # it is the asker's, not that of the others
            self.fail(error)
            return ledger
        self.changes = changed is not ledger
        return changed

    def tell(self) -> None:
        """It is done: tell whether it changed anything."""
        if not self.made.done():
            self.made.set_result(self.changes)

    def fail(self, error: Exception) -> None:
        """It cannot be done."""
        if not self.made.done():
            self.made.set_exception(error)


class LedgerWriter:
    """Changes records of the store, and tells the book."""

    def __init__(self, book: LedgerCache, store: Store, clock: Clock, journal: DecisionLog) -> None:
        self._book = book
        self._store = store
        self._clock = clock
        self._journal = journal
        self._turns: dict[str, tuple[Lock, int]] = {}
        self._wishes: dict[str, list[_Wish]] = {}
        self._due: dict[str, int] = {}

    async def change(self, node: str, change: Revision) -> bool:
        """Write what a change makes of the newest record; False where it leaves it as it is.

        Raises:
            Busy: others were faster each time, or the node's record cannot be read.
            OSError: the store did not answer; the write may have happened.
        """
        wish = _Wish(change)
        self._wishes.setdefault(node, []).append(wish)
        lock, users = self._turns.get(node, (Lock(), 0))
        self._turns[node] = (lock, users + 1)
        try:
            async with lock:
                if not wish.made.done():
                    await self._make(node)
            return await wish.made
        finally:
            wish.made.cancel()
            lock, users = self._turns.pop(node)
            if users > 1:
                self._turns[node] = (lock, users - 1)
            else:
                self._wishes.pop(node, None)

    async def _make(self, node: str) -> None:
        """Make all changes that are waited for; whoever waits is told how his went."""
        await self._space(node)
        wishes = [wish for wish in self._wishes[node] if not wish.made.done()]
        self._wishes[node] = []
        try:
            await self._try(node, wishes)
        except CancelledError:
            self._wishes[node] = wishes + self._wishes[node]
            raise
        except Exception as error:
            for wish in wishes:
                wish.fail(error)

    async def _space(self, node: str) -> None:
        """Wait until the record may be written again."""
        now = self._clock.now()
        self._due = {name: due for name, due in self._due.items() if due > now}
        due = self._due.get(node, now)
        self._due[node] = due + WRITE_INTERVAL_NS
        early = due - now - (BURST - 1) * WRITE_INTERVAL_NS
        if early > 0:
            await self._clock.sleep(early)

    async def _try(self, node: str, wishes: Sequence[_Wish]) -> None:
        newest = False
        for attempt in range(ATTEMPTS):
            stored = self._book.stored(node)
            if stored is None:
                stored, newest = await self._refresh(node), True
            if stored is None:
                break
            changed = stored.ledger
            for wish in wishes:
                changed = wish.apply(changed)
            if not newest and not all(wish.changes for wish in wishes):
                # The watch may be late: a no is said of the newest record only.
                await self._refresh(node)
                newest = True
                continue
            if changed is stored.ledger:
                break
            try:
                version = await self._store.write(changed, stored.version)
            except Conflict:
                self._journal.conflict(node)
                if attempt:
                    await self._clock.pause(attempt - 1)
                await self._refresh(node)
                newest = True
                continue
            self._book.apply(Change(node, Stored(changed, version)))
            break
        else:
            raise LedgerContended(
                f"the ledger of node {node} is being written by others again and again"
            )
        for wish in wishes:
            wish.tell()

    async def _refresh(self, node: str) -> Stored | None:
        try:
            stored = await self._store.read(node)
        except LedgerRecordError as error:
            self._book.put(Change(node, None, str(error)))
            raise LedgerContended(f"the ledger of node {node} cannot be read: {error}") from error
        self._book.put(Change(node, stored))
        return stored
