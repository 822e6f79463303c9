"""What the pods of each namespace have on each node, by the ledgers as the store has them."""

from collections.abc import Mapping

from adapters.service.decide.state.ledger_cache import LedgerCache
from core.ledger.node_ledger import NodeLedger
from core.quota.quota import ClaimKey, QuotaClaim, claims_of


class NamespaceUsage:
    """Reads each ledger once; a ledger is a value, so the same object has the same allocations."""

    def __init__(self, ledgers: LedgerCache) -> None:
        self._ledgers = ledgers
        self._read: dict[str, NodeLedger] = {}
        self._by_namespace: dict[str, dict[ClaimKey, QuotaClaim]] = {}

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
            for claim in claims_of(stored.ledger):
                namespace = claim.pod.partition("/")[0]
                self._by_namespace.setdefault(namespace, {})[claim.key] = claim

    def of(self, namespace: str) -> Mapping[ClaimKey, QuotaClaim]:
        """What the pods of a namespace have: claims without a number."""
        return self._by_namespace.get(namespace, {})

    def _drop(self, ledger: NodeLedger) -> None:
        for claim in claims_of(ledger):
            self._by_namespace.get(claim.pod.partition("/")[0], {}).pop(claim.key, None)
