"""The rows of all nodes, each built once for a ledger and kept until the ledger changes."""

from asyncio import sleep
from collections.abc import Hashable, Sequence

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.web.dashboard.node_row import NodeRow

BUILT = 50
"""Rows that are built before the event loop gets its turn."""


class FleetIndex:
    """Costs memory only once someone looks at the dashboard."""

    def __init__(self, ledgers: LedgerCache) -> None:
        self._ledgers = ledgers
        self._rows: dict[str, NodeRow] = {}
        self._unreadable: list[NodeRow] = []
        self._version: Hashable = None

    def version(self) -> Hashable:
        """Differs when a row may differ."""
        return self._ledgers.inventory.membership_version, self._ledgers.revision

    async def rows(self) -> Sequence[NodeRow]:
        """The rows of all nodes as they are now; other calls run in between."""
        version = self.version()
        if version != self._version:
            await self._refresh()
            self._version = version
        return [*self._rows.values(), *self._unreadable]

    async def _refresh(self) -> None:
        current: dict[str, NodeRow] = {}
        built = 0
        for ledger in [*self._ledgers.inventory]:
            row = self._rows.get(ledger.node.name)
            if row is None or row.ledger is not ledger:
                row = NodeRow.of(ledger)
                built += 1
                if built % BUILT == 0:
                    await sleep(0)
            current[row.name] = row
        problems = self._ledgers.problems().items()
        self._rows = current
        self._unreadable = [NodeRow.unreadable(*each) for each in problems]
