"""The quotas of all namespaces as this process knows them, and which pods they refuse.

A refusal here is advice from a cache, except for a pod that exceeds its limit by itself; the hold
decides (``holds``).
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.stores.store import StoredQuota
from core.feasibility.fit import fit
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import NO_LIMITS, NOTHING, QuotaAmounts, QuotaLimits, amounts_of, least
from core.quota.quota import Quota, Shortage
from core.requests.grant import Allocation
from core.requests.reason import Reason
from core.requests.request import PodRef, Request


class Quotas:
    """All quotas, fed by a watch and by this process's own writes.

    Attributes:
        revision: number of changes to anything that a decision depends on.
    """

    def __init__(self, ledgers: LedgerCache) -> None:
        self.revision = 0
        self._ledgers = ledgers
        self._by_namespace: dict[str, StoredQuota] = {}
        self._problems: dict[str, str] = {}
        self._host: dict[str, QuotaLimits] = {}

    def all(self) -> Mapping[str, StoredQuota]:
        """Return the quotas that can be read, by namespace."""
        return self._by_namespace

    def get(self, namespace: str) -> StoredQuota | None:
        """Return the quota of a namespace; None where it has none, or one that cannot be used."""
        return self._by_namespace.get(namespace)

    def problem(self, namespace: str) -> str | None:
        """Return why the quota of a namespace cannot be used.

        None where it can, or there is none.
        """
        return self._problems.get(namespace)

    def limits(self, namespace: str) -> bool:
        """Return whether a namespace has a quota, valid or not, with a ShareQuota or not."""
        return any(namespace in each for each in (self._by_namespace, self._problems, self._host))

    def without_holds(self) -> list[str]:
        """Return the namespaces that a ResourceQuota limits, and that have no object for holds."""
        return [n for n in self._host if n not in self._by_namespace and n not in self._problems]

    def restrict(self, namespace: str, limits: QuotaLimits) -> None:
        """Replace the limits that ResourceQuotas state for a namespace."""
        if limits == self._host.get(namespace, NO_LIMITS):
            return
        if limits == NO_LIMITS:
            del self._host[namespace]
        else:
            self._host[namespace] = limits
        stored = self._by_namespace.get(namespace)
        if stored is not None:
            self._by_namespace[namespace] = self._restricted(stored)
        self.revision += 1

    def apply(self, stored: StoredQuota) -> None:
        """Update from a watch, which also reports what this process wrote itself, and later."""
        known = self._by_namespace.get(stored.quota.namespace)
        if (
            known is not None
            and known.uid == stored.uid
            and stored.quota.sequence < known.quota.sequence
        ):
            return
        self.put(stored)

    def put(self, stored: StoredQuota) -> StoredQuota:
        """Replace a quota, whatever the cache had before; returns it with all limits."""
        restricted = self._restricted(stored)
        self._problems.pop(stored.quota.namespace, None)
        self._by_namespace[stored.quota.namespace] = restricted
        self.revision += 1
        return restricted

    def drop(self, namespace: str) -> None:
        """Forget a quota that was deleted."""
        self._by_namespace.pop(namespace, None)
        self._problems.pop(namespace, None)
        self.revision += 1

    def reject(self, namespace: str, problem: str) -> None:
        """Refuse a namespace whose quota cannot be used, until it is repaired."""
        self._by_namespace.pop(namespace, None)
        self._problems[namespace] = problem
        self.revision += 1

    def too_large(self, request: Request) -> str | None:
        """Return why a pod can never be within its quota.

        None where it can, or there is no quota.
        """
        namespace = PodRef.parse(request.pod).namespace
        stored = self.get(namespace)
        host = self._host.get(namespace, NO_LIMITS)
        quota = Quota(namespace, host_limits=host) if stored is None else stored.quota
        if quota.bounds == NO_LIMITS:
            return None
        amounts = least(request, self._ledgers.cards.values())
        for name, limit, asked in quota.bounds.with_amounts(amounts):
            if limit is not None and asked > limit:
                return Shortage(namespace, name, asked, 0, limit).text()
        return None

    def refusal(self, request: Request) -> str | None:
        """Return why the quota refuses a pod now; None where it does not, or there is none.

        Reservations of this process count, so that a gang is refused before a part of it is bound.
        """
        holder = PodRef.parse(request.pod, request.uid)
        if not self.limits(holder.namespace):
            return None
        amounts = least(request, self._ledgers.cards.values())
        is_committed = self._ledgers.has_committed(request.uid)
        return self.refusal_of(holder, NOTHING if is_committed else amounts)

    def refusal_after(
        self, request: Request, ledger: NodeLedger, leaving: Collection[str]
    ) -> str | None:
        """Return why the quota refuses a pod on a node after evictions; None where it does not.

        Args:
            request: of the pod.
            ledger: of the node, before the evictions.
            leaving: uids of the pods to evict. Those of the pod's own namespace free its quota.
        """
        holder = PodRef.parse(request.pod, request.uid)
        if not self.limits(holder.namespace):
            return None
        placement = fit(request, ledger.release(*leaving))
        if isinstance(placement, Reason):
            return placement.text()
        return self.refusal_of(
            holder, amounts_of(Allocation.of(request, placement), ledger.node), leaving
        )

    def refusal_of(
        self, holder: PodRef, amounts: QuotaAmounts, leaving: Collection[str] = ()
    ) -> str | None:
        """Return why the quota refuses some amounts now; None where it does not, or there is none.

        Args:
            holder: the pod that asks for them.
            amounts: how much of each resource the pod would count.
            leaving: uids of the pods whose holds will be free.
        """
        problem = self._problems.get(holder.namespace)
        stored = self._by_namespace.get(holder.namespace)
        if problem is not None:
            return problem
        if stored is None:
            new = holder.namespace in self._host and amounts != NOTHING
            return not_counted(holder.namespace) if new else None
        holds = {key: hold for key, hold in stored.quota.holds.items() if hold.uid not in leaving}
        staying = replace(stored.quota, holds=holds)
        # What this process reserved for others of the namespace without a hold yet.
        reserved, held = NOTHING, {hold.uid for hold in stored.quota.holds.values()}
        for each in self._ledgers.reservations():
            pod = each.pod_ref
            if pod.namespace == holder.namespace and pod.uid not in held | {holder.uid}:
                node = self._ledgers.inventory.ledger(each.node).node
                reserved = reserved.plus(amounts_of(each, node))
        short = staying.shortage(holder.uid, amounts, reserved)
        return None if short is None else short.text()

    def _restricted(self, stored: StoredQuota) -> StoredQuota:
        quota = stored.quota
        host = self._host.get(quota.namespace, NO_LIMITS)
        if quota.host_limits == host:
            return stored
        return replace(stored, quota=replace(quota, host_limits=host))


def not_counted(namespace: str) -> str:
    """Return why nothing may be held of a quota yet."""
    return (
        f"the quota of namespace {namespace} is new, and the leader has not counted what its pods"
        " have"
    )
