"""Makes the holds of quotas agree with the ledgers; runs in the elected leader only.

An allocation without a hold (of a pod that another scheduler bound, or from before the quota)
gets one, whatever the limits are. A hold without an allocation is dropped: after its pod left, or
where the replica that made it died. Before that the node's ledger is fenced, so that a commit that
is still on its way cannot be written behind the hold that it relies on.

Where ResourceQuotas limit a namespace, the holds are in a ShareQuota without limits of its own.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.service import Service
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.stores.store import Conflict, QuotaStore, StoredQuota
from adapters.wire.records.quota import QuotaRecordError
from core.durations import SECOND
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import NOTHING, QuotaAmounts
from core.quota.quota import HoldKey, Quota, QuotaHold, holds_of

EVERY = 1.0
"""Seconds between two rounds."""

GRACE = 15
"""Seconds that a commit may take between its hold and its allocation. A shorter time would be as
safe: a commit behind a fence acquires its hold again."""


class NamespaceUsage:
    """Reads each ledger once; a ledger is a value, so the same object has the same allocations."""

    def __init__(self, ledgers: LedgerCache) -> None:
        self._ledgers = ledgers
        self._read: dict[str, NodeLedger] = {}
        self._by_namespace: dict[str, dict[HoldKey, QuotaHold]] = {}

    def update(self) -> None:
        """Read the ledgers that have changed."""
        names = {*self._ledgers.inventory.names()}
        for gone in self._read.keys() - names:
            self._drop(self._read.pop(gone))
        for name in names:
            stored = self._ledgers.stored(name)
            known = self._read.get(name)
            if stored is None or stored.ledger is known:
                continue
            if known is not None:
                self._drop(known)
            self._read[name] = stored.ledger
            for hold in holds_of(stored.ledger):
                namespace = hold.pod.partition("/")[0]
                self._by_namespace.setdefault(namespace, {})[hold.key] = hold

    def of(self, namespace: str) -> Mapping[HoldKey, QuotaHold]:
        """Return what the pods of a namespace have: holds without a number."""
        return self._by_namespace.get(namespace, {})

    def _drop(self, ledger: NodeLedger) -> None:
        for hold in holds_of(ledger):
            self._by_namespace.get(hold.pod.partition("/")[0], {}).pop(hold.key, None)


Lowered = tuple[QuotaHold, QuotaAmounts]
"""A hold that is above what its pod has, and what that is; nothing without an allocation."""


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
            # The object in which pods hold what a ResourceQuota limits. Where it exists meanwhile,
            # the watch reports it; else the next round tries again.
            with suppress(Conflict, QuotaRecordError, OSError):
                self._service.quotas.put(await self._store.create(namespace))
        quotas = self._service.quotas.all()
        if not quotas:
            return
        self._usage.update()
        for namespace in [*quotas]:
            try:
                await self._reconcile(namespace)
            except (Conflict, LedgerContended, QuotaRecordError, OSError):
                continue  # the next round tries again

    async def _reconcile(self, namespace: str) -> None:
        """Adopt what has no hold, and lower what is above its pod's, after a fence on its node."""
        cached = self._service.quotas.get(namespace)
        if cached is None:
            return
        quota, seen = cached.quota, self._allocated.get(namespace, set())
        self._allocated[namespace] = {*self._usage.of(namespace)} | (seen & quota.holds.keys())
        if quota.counted and self._adopted(quota) is quota and not self._ripe(quota):
            return
        stored = await self._store.read(namespace)
        if stored is None:
            self._service.quotas.drop(namespace)
            return
        stored = self._service.quotas.put(stored)
        by_node: dict[str, list[Lowered]] = {}
        for hold, amounts in self._ripe(stored.quota):
            by_node.setdefault(hold.node, []).append((hold, amounts))
        changed = self._adopted(stored.quota)
        for node, lowered in by_node.items():
            confirmed = await self._service.committer.fence(
                node,
                namespace,
                max(hold.number for hold, _ in lowered),
                {hold.uid: amounts for hold, amounts in lowered},
            )
            for hold, amounts in lowered:
                if hold.uid in confirmed:
                    changed = changed.settle(hold, amounts)
        if changed is not stored.quota:
            version = await self._store.write(changed, stored.version)
            self._service.quotas.put(StoredQuota(changed, version, stored.uid))

    def _adopted(self, quota: Quota) -> Quota:
        """Return the quota with a hold for every allocation; itself where it has all."""
        for key, found in self._usage.of(quota.namespace).items():
            known = quota.holds.get(key)
            if known is None or not found.amounts.within(known.amounts):
                quota = quota.adopt(found)
        return quota if quota.counted else quota.begun()

    def _ripe(self, quota: Quota) -> list[Lowered]:
        """Return the holds to lower whose allocation was seen before, or did not come in time."""
        now, namespace = self._service.ports.clock.now(), quota.namespace
        allocated = self._usage.of(namespace)
        seen, ripe = self._allocated.get(namespace, set()), list[Lowered]()
        waiting: dict[tuple[str, HoldKey, int], int] = {}
        for hold in quota.holds.values():
            has = allocated.get(hold.key)
            amounts = NOTHING if has is None else has.amounts
            if amounts == hold.amounts or not amounts.within(hold.amounts):
                continue
            key = (namespace, hold.key, hold.number)
            waiting[key] = self._first_seen.get(key, now)
            if hold.key in seen or now - waiting[key] >= self._grace:
                ripe.append((hold, amounts))
        self._first_seen = {
            **{key: at for key, at in self._first_seen.items() if key[0] != namespace},
            **waiting,
        }
        return ripe
