"""Everything that a service exports for Prometheus, composed: its own metrics, cards and usage."""

from collections.abc import Callable

from adapters.service.decide.ports import Clock
from adapters.service.decide.service import Service
from adapters.service.observe.card_metrics import CardMetrics
from adapters.service.observe.exposition import Compressor, plain
from adapters.service.observe.metrics import Metrics, QuotaMetrics
from adapters.service.observe.usage_metrics import NamespaceMetrics, UsageMetrics
from core.durations import MILLISECOND
from core.requests.grant import AllocationState


class ExportedMetrics:
    """What ``/metrics`` and ``/metrics/usage`` answer."""

    def __init__(
        self,
        metrics: Metrics,
        service: Service,
        clock: Clock,
        cards: CardMetrics,
        led_for: Callable[[], float],
        staleness: Callable[[], float],
    ) -> None:
        """Register the gauges of the ledgers.

        Args:
            metrics: of the process.
            service: whose ledgers are exported.
            clock: of the service.
            cards: of its ledgers.
            led_for: seconds for which this replica has led.
            staleness: seconds since the cache of ledgers was last up to date.
        """
        self._metrics = metrics
        self._cards = cards
        self._namespaces = NamespaceMetrics(service.ledgers)
        self._usage = UsageMetrics(
            service.ledgers,
            lambda: clock.wall() // MILLISECOND,
            lambda: clock.now() // MILLISECOND,
            led_for,
            staleness,
        )
        self._compressor = Compressor()
        ledgers, gauge = service.ledgers, metrics.gauge
        gauge(
            "dragoman_holds",
            "Pods with a reservation that is not committed.",
            ledgers.reservation_count,
        )
        gauge("dragoman_nodes", "Nodes with a ledger.", lambda: len(ledgers.inventory))
        gauge(
            "dragoman_nodes_unreadable",
            "Nodes whose ledger cannot be read; the service rejects them.",
            lambda: len(ledgers.problems()),
        )
        gauge(
            "dragoman_allocations",
            "Pods with allocated cards.",
            lambda: sum(len(ledger.without_holds().allocations) for ledger in ledgers.inventory),
        )
        gauge(
            "dragoman_allocations_unknown",
            "Pods whose cards are unknown; all that they may use count as allocated.",
            lambda: sum(
                allocation.unread is not None and allocation.state is AllocationState.COMMITTED
                for ledger in ledgers.inventory
                for allocation in ledger.allocations.values()
            ),
        )
        metrics.registry.register(QuotaMetrics(service.quotas))

    async def usage(self, gzip: bool) -> bytes:  # noqa: FBT001 - the route's port
        """Return card-seconds."""
        families = await self._usage.families()
        return await Compressor().compress(b"", families) if gzip else plain(b"", families)

    async def all(self, gzip: bool) -> bytes:  # noqa: FBT001 - the route's port has it so
        """Return the process, and the cards where this replica exports them."""
        first, families = self._metrics.text(), await self._cards.families()
        if families:
            families += self._namespaces.families()
        return await self._compressor.compress(first, families) if gzip else plain(first, families)
