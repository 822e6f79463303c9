"""Holds of quota: what a pod may have of its namespace's quota, before its cards are allocated.

The ledgers are one object a node, so two commits on two nodes do not meet there. They meet here:
each writes its hold into the namespace's one quota by compare-and-swap, before the ledger. The
order of writes is hold, ledger, Binding. Whatever dies in between leaves a hold without an
allocation; the leader drops it (``reconcile.quotas``) after a fence in the node's ledger, behind
which the lost commit can never be written.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass

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


class QuotaHolds:
    """Makes and drops holds."""

    def __init__(self, quotas: Quotas, store: QuotaStore, clock: Clock) -> None:
        self._quotas = quotas
        self._store = store
        self._clock = clock
        # This process's own holds would only conflict with each other.
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

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
        asked = QuotaHold(pod.uid, str(pod), node, needed.amounts)
        for attempt in range(ATTEMPTS):
            if attempt > 1:
                await self._clock.pause(attempt - 2)
            async with self._locks[pod.namespace]:
                try:
                    found = await self._try(asked, needed.above, earlier, newest=attempt > 0)
                except Conflict:
                    continue
            if found is not None:
                return found
        raise LedgerContended(f"other writers changed the quota of {pod.namespace} each time")

    async def _try(
        self, asked: QuotaHold, above: int, earlier: AcquiredHold | None, *, newest: bool
    ) -> AcquiredHold | Reason | None:
        """Make a hold once; None where the cached quota refuses it, which may be stale."""
        namespace = PodRef.parse(asked.pod).namespace
        stored = None if newest else self._quotas.get(namespace)
        if stored is None:
            stored, newest = await self._refresh(namespace), True
        if stored is None and not self._quotas.limits(namespace):
            return AcquiredHold(None)
        if stored is None or not stored.quota.counted:
            raise LedgerContended(not_counted(namespace))
        changed = stored.quota.hold(asked, above)
        if isinstance(changed, Shortage):
            refused = Reason(asked.node, 0, cause=Cause.QUOTA, detail=changed.text())
            return refused if newest else None
        known, own = stored.quota.holds.get(asked.key), None
        if earlier is not None and earlier.own:
            own = earlier.hold
        is_own = known is None or (own is not None and own.number == known.number)
        version = await self._store.write(changed, stored.version)
        self._quotas.put(StoredQuota(changed, version, stored.uid))
        return AcquiredHold(changed.holds[asked.key], is_own)

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
