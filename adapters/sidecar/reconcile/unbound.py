"""Cards that were booked for a Binding that did not come: left by a service that has died.

Nobody tells of them: the pod does not change, nor its node. Only the ledger has, a while ago.
"""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.reconcile.cluster_cache import ClusterCache

EVERY = 5.0
"""Seconds between two turns. A Binding follows its ledger within one, as a rule."""


class UnboundScanner:
    """Names the nodes in whose ledgers there is a pod that is not bound a while later."""

    def __init__(
        self, book: LedgerCache, mirror: ClusterCache, found: Callable[[str], None]
    ) -> None:
        """Nothing has changed yet.

        Args:
            book: the ledgers.
            mirror: the pods.
            found: told the name of a node.
        """
        self._book = book
        self._mirror = mirror
        self._found = found
        self._changed: set[str] = set()
        self._ripe: set[str] = set()

    def changed(self, node: str) -> None:
        """A node's ledger is another one."""
        self._changed.add(node)

    async def run(self) -> NoReturn:
        """Take turns until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            self.turn()

    def turn(self) -> None:
        """Name those that had changed before the last turn and still have such a pod."""
        for node in self._ripe:
            stored = self._book.stored(node)
            if stored is None:
                continue
            here = {pod.metadata.uid for pod in self._mirror.holding(node)}
            if not stored.ledger.allocations.keys() <= here:
                self._found(node)
        self._ripe, self._changed = self._changed, set()
