"""The metrics of every card: rendered when a node's ledger has changed, compressed as seldom.

Not a prometheus_client collector: that would build every sample of 40,000 cards in each scrape, on
the event loop. Here the lines of a node are made once and kept until its ledger changes, so that a
scrape costs what has changed since the last one.
"""

from asyncio import sleep
from collections.abc import Callable

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.card_lines import CardLines, Lines
from adapters.service.observe.exposition import FamilyText
from core.ledger.node_ledger import NodeLedger

BATCH = 50
"""Nodes whose lines are made before the event loop gets its turn."""


class CardMetrics:
    """The lines of all nodes."""

    def __init__(
        self, book: LedgerCache, *, peers: bool = False, exported: Callable[[], bool] = lambda: True
    ) -> None:
        """Make no lines yet.

        Args:
            book: all ledgers.
            peers: whether to export under the names of HAMi and Volcano too.
            exported: whether this process exports cards now, or leaves it to another replica.
        """
        self._book = book
        self._lines = CardLines(peers=peers)
        self._exported = exported
        self._current: dict[str, tuple[NodeLedger, Lines]] = {}

    async def families(self) -> list[FamilyText]:
        """Return all lines; yields to the event loop meanwhile."""
        ledgers = [*self._book.inventory] if self._exported() else []
        made = 0
        current: dict[str, tuple[NodeLedger, Lines]] = {}
        for ledger in ledgers:
            earlier = self._current.get(ledger.node.name)
            if earlier is None or earlier[0] is not ledger:
                earlier = (ledger, self._lines.of(ledger.without_holds()))
                made += 1
                if made % BATCH == 0:
                    await sleep(0)
            current[ledger.node.name] = earlier
        self._current = current
        by_family = zip(*(lines for _, lines in current.values()), strict=True)
        return [FamilyText(*each) for each in zip(self._lines.heads, by_family, strict=False)]
