"""The commit: the one place where cards are given away.

Read the newest ledger, decide, write by compare-and-swap; where somebody else was faster, again.
"""

from asyncio import CancelledError, Future, Lock, get_running_loop
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from adapters.sidecar.asking import Asking
from adapters.sidecar.book import Book
from adapters.sidecar.ports import Clock, Journal
from adapters.sidecar.soundness import sound
from adapters.stores.store import Change, Conflict, Store, Stored
from adapters.wire.ledger import LedgerRecordError
from core.fit import fit
from core.grant import Allocation, Grant, Placement
from core.ledger import NodeLedger
from core.reason import Cause, Reason

ATTEMPTS = 12
"""How often a decision is made again because somebody else wrote the node's ledger first."""


class Busy(RuntimeError):  # noqa: N818 (it is no error: try again)
    """A node's ledger was written by others again and again, or cannot be read."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a pod holds now.

    Attributes:
        placement: on its node.
        fresh: False where the store had it before.
        claimed: it is the choice that the asker came with.
        since: of the allocation: it names this attempt to bind.
    """

    placement: Placement
    fresh: bool
    claimed: bool = False
    since: int = 0


class _Wish:
    """A change of a record that somebody waits for.

    Attributes:
        changes: whether it changed anything when it was made last.
        made: how it went, when it is sure.
    """

    def __init__(self, change: Callable[[NodeLedger], NodeLedger]) -> None:
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


class Committer:
    """Gives cards away and takes them back."""

    def __init__(self, book: Book, store: Store, clock: Clock, journal: Journal) -> None:
        self._book = book
        self._store = store
        self._clock = clock
        self._journal = journal
        self._turns: dict[str, tuple[Lock, int]] = {}
        self._wishes: dict[str, list[_Wish]] = {}

    async def commit(
        self, asking: Asking, node: str, claimed: Sequence[Grant] = ()
    ) -> Committed | Reason:
        """Give a pod its cards on a node. What it was given there before stays.

        Args:
            asking: the pod.
            node: where it goes.
            claimed: a choice that is taken if it is sound.

        Returns:
            what it holds, or why it gets none.

        Raises:
            Busy: others were faster each time, or the node's record cannot be read.
            OSError: the store did not answer; the write may have happened.
        """
        found: list[Committed | Reason] = []

        def decide(ledger: NodeLedger) -> NodeLedger:
            made = self._decide(asking, ledger, tuple(claimed))
            found[:] = [made]
            uid = asking.request.uid
            if isinstance(made, Reason):
                return ledger
            if not made.fresh:
                # Written too: that the store still has it must be sure before the Binding, and
                # a reconciler that is about to take it back must lose the race.
                changed = ledger.renew(uid)
            else:
                allocation = Allocation.of(asking.request, made.placement)
                changed = ledger.release(uid).hold(allocation).commit(uid)
            found[:] = [replace(made, since=changed.allocations[uid].since)]
            return changed

        written = await self._change(node, decide)
        if not written and not found:
            return Reason(node, 0, cause=Cause.NO_CARDS)
        self._book.unhold(asking.request.uid)
        return found[0]

    async def release(self, uid: str, node: str, since: int | None = None) -> bool:
        """Take back what a pod holds on a node.

        Args:
            uid: the pod's.
            node: the node.
            since: only if no later attempt to bind the pod has begun, here or elsewhere; that one
                relies on the same cards.

        Returns:
            whether it held anything in the store.

        Raises:
            Busy: as ``commit``.
            OSError: as ``commit``.
        """
        self._book.unhold(uid, node)

        def let_go(ledger: NodeLedger) -> NodeLedger:
            found = ledger.allocations.get(uid)
            if found is None or since not in (None, found.since):
                return ledger
            return ledger.release(uid)

        return await self._change(node, let_go)

    async def _change(self, node: str, change: Callable[[NodeLedger], NodeLedger]) -> bool:
        """Write what ``change`` makes of the newest record; False where it leaves it as it is.

        Changes that come while a record is being written are made together in the next write:
        else a scheduler that fills one node after the other would wait for one write a pod.
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
            raise Busy(f"the ledger of node {node} is being written by others again and again")
        for wish in wishes:
            wish.tell()

    async def _refresh(self, node: str) -> Stored | None:
        try:
            stored = await self._store.read(node)
        except LedgerRecordError as error:
            self._book.put(Change(node, None, str(error)))
            raise Busy(f"the ledger of node {node} cannot be read: {error}") from error
        self._book.put(Change(node, stored))
        return stored

    def _decide(
        self, asking: Asking, stored: NodeLedger, claimed: tuple[Grant, ...]
    ) -> Committed | Reason:
        request = asking.request
        earlier = stored.allocations.get(request.uid)
        if earlier is not None and earlier.unread is None:
            return Committed(Placement(stored.node.name, earlier.grants), fresh=False)
        ledger = self._book.over(stored)
        if claimed and sound(request, claimed, ledger):
            return Committed(Placement(stored.node.name, claimed), fresh=True, claimed=True)
        held = self._book.held(request.uid)
        if (
            held is not None
            and held.node == stored.node.name
            and sound(request, held.grants, ledger)
        ):
            return Committed(Placement(held.node, held.grants), fresh=True)
        result = fit(request, ledger)
        return result if isinstance(result, Reason) else Committed(result, fresh=True)
