"""The quotas of all namespaces as this process knows them, and which pods they refuse.

What is refused here is advice from a cache, but for a pod that alone exceeds its limit; the claim
decides (``claims``).
"""

from collections.abc import Mapping

from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.stores.quotas import StoredQuota
from core.quota.amounts import NOTHING, QuotaAmounts, held, least
from core.quota.quota import Shortage
from core.requests.pod_ref import PodRef
from core.requests.request import Request


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

    def all(self) -> Mapping[str, StoredQuota]:
        """By namespace, every quota that can be read."""
        return self._by_namespace

    def get(self, namespace: str) -> StoredQuota | None:
        """The quota of a namespace; None where it has none, or one that cannot be used."""
        return self._by_namespace.get(namespace)

    def problem(self, namespace: str) -> str | None:
        """Why the quota of a namespace cannot be used; None where it can, or there is none."""
        return self._problems.get(namespace)

    def limits(self, namespace: str) -> bool:
        """Whether a namespace has a quota, be it one that cannot be used."""
        return namespace in self._by_namespace or namespace in self._problems

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

    def put(self, stored: StoredQuota) -> None:
        """Replace a quota, whatever the cache had before."""
        self._problems.pop(stored.quota.namespace, None)
        self._by_namespace[stored.quota.namespace] = stored
        self.revision += 1

    def drop(self, namespace: str) -> None:
        """The quota was deleted."""
        self._by_namespace.pop(namespace, None)
        self._problems.pop(namespace, None)
        self.revision += 1

    def reject(self, namespace: str, problem: str) -> None:
        """The quota cannot be used: no pod of the namespace gets a share until it is repaired."""
        self._by_namespace.pop(namespace, None)
        self._problems[namespace] = problem
        self.revision += 1

    def too_large(self, request: Request) -> str | None:
        """Why a pod can never be within its quota; None where it can, or there is no quota."""
        stored = self.get(PodRef.parse(request.pod).namespace)
        if stored is None:
            return None
        amounts = least(request, self._ledgers.card_memory)
        for name, limit, asked in stored.quota.limits.with_amounts(amounts):
            if limit is not None and asked > limit:
                return Shortage(stored.quota.namespace, name, asked, 0, limit).text()
        return None

    def refusal(self, request: Request) -> str | None:
        """Why the quota refuses a pod now; None where it does not, or there is none.

        Reservations of this process count, so that a gang is refused before a part of it is bound.
        """
        holder = PodRef.parse(request.pod, request.uid)
        if not self.limits(holder.namespace):
            return None
        amounts = least(request, self._ledgers.card_memory)
        is_committed = next(self._ledgers.committed(request.uid), None) is not None
        return self.refusal_of(holder, NOTHING if is_committed else amounts)

    def refusal_of(self, holder: PodRef, amounts: QuotaAmounts) -> str | None:
        """Why the quota refuses some amounts now; None where it does not, or there is none."""
        problem = self._problems.get(holder.namespace)
        stored = self._by_namespace.get(holder.namespace)
        if problem is not None or stored is None:
            return problem
        short = stored.quota.shortage(holder.uid, amounts, self._reserved(stored, holder.uid))
        return None if short is None else short.text()

    def _reserved(self, stored: StoredQuota, uid: str) -> QuotaAmounts:
        """What this process reserved for other pods of the namespace that have no claim yet."""
        claimed = {claim.uid for claim in stored.quota.claims.values()}
        found = NOTHING
        for allocation in self._ledgers.reservations():
            pod = allocation.pod_ref
            if pod.namespace == stored.quota.namespace and pod.uid not in claimed | {uid}:
                node = self._ledgers.inventory.ledger(allocation.node).node
                found = found.plus(held(allocation, node))
        return found
