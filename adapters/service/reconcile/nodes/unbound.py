"""Finds allocations whose Binding never came: a service died between ledger and Binding.

No watch reports them: neither the pod nor its node changes. Only the ledger did, a while ago.
"""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.state.ledger_cache import LedgerCache

EVERY = 5.0
"""Seconds between two scans. A Binding usually follows its ledger within one second."""


class UnboundScanner:
    """Finds the nodes whose ledger has a pod that is still not bound one scan later."""

    def __init__(
        self, ledgers: LedgerCache, cache: ClusterCache, found: Callable[[str], None]
    ) -> None:
        """Begin without a changed ledger.

        Args:
            ledgers: all ledgers.
            cache: the pods.
            found: called with the name of such a node.
        """
        self._ledgers = ledgers
        self._cache = cache
        self._found = found
        self._changed: set[str] = set()
        self._to_check: set[str] = set()

    def changed(self, node: str) -> None:
        """Note that a node's ledger was written."""
        self._changed.add(node)

    async def run(self) -> NoReturn:
        """Scan until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            self.scan()

    def scan(self) -> None:
        """Check the nodes whose ledger was written before the last scan."""
        for node in self._to_check:
            stored = self._ledgers.stored(node)
            if stored is None:
                continue
            bound = {pod.metadata.uid for pod in self._cache.holding(node)}
            ledger = stored.ledger
            bound |= {held.uid for held in self._cache.claims.holding(ledger, ledger.node)}
            if not stored.ledger.allocations.keys() <= bound:
                self._found(node)
        self._to_check, self._changed = self._changed, set()
