"""What the pods of each namespace have on each node, by the ledgers as the store has them."""

from collections.abc import Mapping

from adapters.service.decide.state.ledger_cache import LedgerCache
from core.ledger.node_ledger import NodeLedger
from core.quota.quota import HoldKey, QuotaHold, holds_of


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
        """What the pods of a namespace have: holds without a number."""
        return self._by_namespace.get(namespace, {})

    def _drop(self, ledger: NodeLedger) -> None:
        for hold in holds_of(ledger):
            self._by_namespace.get(hold.pod.partition("/")[0], {}).pop(hold.key, None)
