"""Holds of quota: what a pod may have of its namespace's quota, before its cards are allocated.

The ledgers are one object a node, so two commits on two nodes do not meet there. They meet here:
each writes its hold into the namespace's one quota by compare-and-swap, before the ledger. The
order of writes is hold, ledger, Binding. Whatever dies in between leaves a hold without an
allocation; the leader drops it (``reconcile.quotas``) after a fence in the node's ledger, behind
which the lost commit can never be written.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import Clock
from adapters.service.decide.state.quotas import Quotas, not_counted
from adapters.stores.store import Conflict, QuotaStore, StoredQuota
from adapters.wire.records.quota import QuotaRecordError
from core.quota.amounts import NOTHING, QuotaAmounts
from core.quota.quota import QuotaHold, Shortage
from core.requests.reason import Cause, Reason
from core.requests.request import PodRef

ATTEMPTS = 12
"""Times that a hold is made again because another writer was first."""


@dataclass(frozen=True, slots=True)
class QuotaHoldNeeded:
    """A commit that needs another hold; the ledger was not changed.

    Attributes:
        amounts: that the allocation counts.
        above: the fence of the ledger.
    """

    amounts: QuotaAmounts
    above: int = 0


@dataclass(frozen=True, slots=True)
class AcquiredHold:
    """The hold of a commit in progress.

    Attributes:
        hold: as it was written; None where the namespace has no quota (any more).
        own: no other attempt to bind the pod there may rely on it.
    """

    hold: QuotaHold | None
    own: bool = True

    def covers(self, needed: QuotaHoldNeeded) -> bool:
        """Return whether an allocation of these amounts may be written behind a fence."""
        hold = self.hold
        return hold is None or (hold.number > needed.above and needed.amounts.within(hold.amounts))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A hold that a commit waits for.

    Attributes:
        asked: the hold, without a number.
        above: the fence of the ledger.
        earlier: the hold of the same commit that was not enough.
        result: the hold, or why the quota refuses it.
    """

    asked: QuotaHold
    above: int
    earlier: AcquiredHold | None
    result: asyncio.Future[AcquiredHold | Reason]


class QuotaHolds:
    """Makes and drops holds; one write makes all that are wanted of a namespace."""

    def __init__(self, quotas: Quotas, store: QuotaStore, clock: Clock) -> None:
        self._quotas = quotas
        self._store = store
        self._clock = clock
        # This process's own holds would only conflict with each other.
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._wanted: dict[str, list[_Wanted]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def limits(self, namespace: str) -> bool:
        """Return whether a namespace has a quota."""
        return self._quotas.limits(namespace)

    async def acquire(
        self,
        pod: PodRef,
        node: str,
        needed: QuotaHoldNeeded,
        earlier: AcquiredHold | None = None,
    ) -> AcquiredHold | Reason:
        """Make a hold, or renew it.

        Args:
            pod: with its uid.
            node: on which it gets cards.
            needed: what it counts there.
            earlier: the hold of the same commit that was not enough.

        Returns:
            the hold, or why the quota refuses it.

        Raises:
            LedgerContended: other writers were first each time, or the quota cannot be used yet.
            OSError: the store did not answer; the hold may have been made.
        """
        namespace, asked = pod.namespace, QuotaHold(pod.uid, str(pod), node, needed.amounts)
        result = asyncio.get_running_loop().create_future()
        wanted = _Wanted(asked, needed.above, earlier, result)
        self._wanted.setdefault(namespace, []).append(wanted)
        if namespace not in self._tasks:
            self._tasks[namespace] = asyncio.create_task(self._make_wanted(namespace))
        try:
            return await wanted.result
        finally:
            wanted.result.cancel()  # no effect unless the caller was cancelled

    def close(self) -> None:
        """Cancel all writes in progress, and with them the calls of ``acquire``."""
        for task in self._tasks.values():
            task.cancel()
        for wanted in chain.from_iterable(self._wanted.values()):
            wanted.result.cancel()  # a task that has not begun cancels nothing

    async def _make_wanted(self, namespace: str) -> None:
        """Make batch after batch until no hold of the namespace is wanted."""
        batch: list[_Wanted] = []
        try:
            while self._wanted[namespace]:
                batch, self._wanted[namespace] = self._wanted[namespace], []
                awaited = [wanted for wanted in batch if not wanted.result.done()]
                try:
                    results = await self._make(namespace, awaited) if awaited else ()
                except Exception as error:  # every caller gets it
                    for wanted in awaited:
                        if not wanted.result.done():
                            wanted.result.set_exception(error)
                    continue
                for wanted, result in zip(awaited, results, strict=True):
                    if not wanted.result.done():
                        wanted.result.set_result(result)
        finally:
            del self._tasks[namespace]
            for wanted in (*batch, *self._wanted.pop(namespace)):
                wanted.result.cancel()  # no effect unless this task was cancelled

    async def _make(
        self, namespace: str, batch: Sequence[_Wanted]
    ) -> Sequence[AcquiredHold | Reason]:
        for attempt in range(ATTEMPTS):
            if attempt > 1:
                await self._clock.pause(attempt - 2)
            async with self._locks[namespace]:
                try:
                    return await self._try(namespace, batch, newest=attempt > 0)
                except Conflict:
                    continue
        raise LedgerContended(f"other writers changed the quota of {namespace} each time")

    async def _try(
        self, namespace: str, batch: Sequence[_Wanted], *, newest: bool
    ) -> Sequence[AcquiredHold | Reason]:
        """Make holds once; what the cached quota refuses is decided again on the newest one."""
        stored = None if newest else self._quotas.get(namespace)
        if stored is None:
            stored, newest = await self._refresh(namespace), True
        if stored is None and not self._quotas.limits(namespace):
            return [AcquiredHold(None)] * len(batch)
        if stored is None or not stored.quota.counted:
            raise LedgerContended(not_counted(namespace))
        quota, results = stored.quota, list[AcquiredHold | Reason]()
        for wanted in batch:
            asked, earlier = wanted.asked, wanted.earlier
            changed = quota.hold(asked, wanted.above)
            if isinstance(changed, Shortage):
                if not newest:
                    return await self._try(namespace, batch, newest=True)
                results.append(Reason(asked.node, 0, cause=Cause.QUOTA, detail=changed.text()))
                continue
            known = quota.holds.get(asked.key)
            own = earlier.hold if earlier is not None and earlier.own else None
            is_own = known is None or (own is not None and own.number == known.number)
            quota = changed
            results.append(AcquiredHold(changed.holds[asked.key], is_own))
        if quota is not stored.quota:
            version = await self._store.write(quota, stored.version)
            self._quotas.put(StoredQuota(quota, version, stored.uid))
        return results

    async def drop(self, held: AcquiredHold) -> None:
        """Drop the hold of a commit that certainly wrote nothing.

        What cannot be dropped here, the leader drops: one that another attempt may rely on, and
        one whose write fails.
        """
        hold = held.hold
        if hold is None or not held.own:
            return
        namespace = PodRef.parse(hold.pod).namespace
        for attempt in range(ATTEMPTS):
            try:
                async with self._locks[namespace]:
                    stored = None if attempt else self._quotas.get(namespace)
                    stored = stored or await self._refresh(namespace)
                    changed = None if stored is None else stored.quota.settle(hold, NOTHING)
                    # Unless it is another attempt's now.
                    if stored is not None and changed is not None and changed is not stored.quota:
                        version = await self._store.write(changed, stored.version)
                        self._quotas.put(StoredQuota(changed, version, stored.uid))
            except Conflict:
                await self._clock.pause(attempt)
                continue
            except (LedgerContended, OSError):
                pass  # the leader will
            return

    async def _refresh(self, namespace: str) -> StoredQuota | None:
        try:
            stored = await self._store.read(namespace)
        except QuotaRecordError as error:
            self._quotas.reject(namespace, str(error))
            raise LedgerContended(str(error)) from error
        if stored is None:
            self._quotas.drop(namespace)
            return None
        return self._quotas.put(stored)
