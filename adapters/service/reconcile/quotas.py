"""Makes the holds of quotas agree with the ledgers; runs in the elected leader only.

An allocation without a hold (of a pod that another scheduler bound, or from before the quota)
gets one, whatever the limits are. A hold without an allocation is dropped: after its pod left, or
where the replica that made it died. Before that the node's ledger is fenced, so that a commit that
is still on its way cannot be written behind the hold that it relies on.

Where ResourceQuotas limit a namespace, the holds are in a ShareQuota without limits of its own.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.service import Service
from adapters.service.reconcile.namespace_usage import NamespaceUsage
from adapters.stores.quotas import QuotaStore, StoredQuota
from adapters.stores.store import Conflict
from adapters.wire.records.quota import QuotaRecordError
from core.durations import SECOND
from core.quota.amounts import NOTHING, QuotaAmounts
from core.quota.quota import HoldKey, Quota, QuotaHold

EVERY = 1.0
"""Seconds between two rounds."""

GRACE = 15
"""Seconds that a commit may take between its hold and its allocation. A shorter time would be as
safe: a commit behind a fence acquires its hold again."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A hold that is above what its pod has.

    Attributes:
        hold: as the quota has it.
        amounts: what the pod has; nothing where it has no allocation.
    """

    hold: QuotaHold
    amounts: QuotaAmounts


class QuotaReconciler:
    """Reconciles every quota, round by round."""

    def __init__(self, service: Service, store: QuotaStore, grace: int = GRACE) -> None:
        self._service = service
        self._store = store
        self._grace = grace * SECOND
        self._usage = NamespaceUsage(service.ledgers)
        self._first_seen: dict[tuple[str, HoldKey, int], int] = {}
        self._allocated: dict[str, set[HoldKey]] = {}

    async def run(self) -> NoReturn:
        """Reconcile until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(EVERY)

    async def round(self) -> None:
        """Reconcile every quota once. Without a quota it does nothing."""
        for namespace in self._service.quotas.without_holds():
            await self._create(namespace)
        quotas = self._service.quotas.all()
        if not quotas:
            return
        self._usage.update()
        for namespace in [*quotas]:
            try:
                await self._reconcile(namespace)
            except (Conflict, LedgerContended, QuotaRecordError, OSError):
                continue  # the next round tries again

    async def _create(self, namespace: str) -> None:
        """Create the object in which pods hold what a ResourceQuota limits."""
        try:
            self._service.quotas.put(await self._store.create(namespace))
        except (Conflict, QuotaRecordError, OSError):
            return  # the next round tries again, or the watch reports the one that exists

    async def _reconcile(self, namespace: str) -> None:
        cached = self._service.quotas.get(namespace)
        if cached is None or not self._differs(cached.quota):
            return
        stored = await self._store.read(namespace)
        if stored is None:
            self._service.quotas.drop(namespace)
            return
        stored = self._service.quotas.put(stored)
        changed = self._adopted(stored.quota)
        for lowered in await self._fenced(stored.quota):
            changed = changed.settle(lowered.hold, lowered.amounts)
        if changed is not stored.quota:
            version = await self._store.write(changed, stored.version)
            self._service.quotas.put(StoredQuota(changed, version, stored.uid))

    def _differs(self, quota: Quota) -> bool:
        """Whether there is something to do, by the caches."""
        allocated = {*self._usage.of(quota.namespace)}
        seen = self._allocated.get(quota.namespace, set())
        self._allocated[quota.namespace] = allocated | (seen & quota.holds.keys())
        return (
            not quota.counted
            or self._adopted(quota) is not quota
            or bool(self._ripe(quota.namespace, _lowered(quota, self._usage)))
        )

    def _adopted(self, quota: Quota) -> Quota:
        """The quota with a hold for every allocation; itself where it has all."""
        for key, found in self._usage.of(quota.namespace).items():
            known = quota.holds.get(key)
            if known is None or not found.amounts.within(known.amounts):
                quota = quota.adopt(found)
        return quota if quota.counted else quota.begun()

    async def _fenced(self, quota: Quota) -> list[Lowered]:
        """The holds that may be lowered, after their nodes' ledgers are fenced."""
        by_node: dict[str, list[Lowered]] = {}
        for each in self._ripe(quota.namespace, _lowered(quota, self._usage)):
            by_node.setdefault(each.hold.node, []).append(each)
        found: list[Lowered] = []
        for node, lowered in by_node.items():
            confirmed = await self._service.committer.fence(
                node,
                quota.namespace,
                max(each.hold.number for each in lowered),
                {each.hold.uid: each.amounts for each in lowered},
            )
            found += [each for each in lowered if each.hold.uid in confirmed]
        return found

    def _ripe(self, namespace: str, lowered: Iterable[Lowered]) -> list[Lowered]:
        """The holds whose allocation was seen before, or did not come in time."""
        now = self._service.ports.clock.now()
        seen, ripe = self._allocated.get(namespace, set()), []
        waiting: dict[tuple[str, HoldKey, int], int] = {}
        for each in lowered:
            key = (namespace, each.hold.key, each.hold.number)
            waiting[key] = self._first_seen.get(key, now)
            if each.hold.key in seen or now - waiting[key] >= self._grace:
                ripe.append(each)
        self._first_seen = {
            **{key: at for key, at in self._first_seen.items() if key[0] != namespace},
            **waiting,
        }
        return ripe


def _lowered(quota: Quota, usage: NamespaceUsage) -> Iterable[Lowered]:
    allocated = usage.of(quota.namespace)
    for key, hold in quota.holds.items():
        found = allocated.get(key)
        amounts = NOTHING if found is None else found.amounts
        if amounts != hold.amounts and amounts.within(hold.amounts):
            yield Lowered(hold, amounts)
