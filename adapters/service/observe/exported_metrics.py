"""What a service exports for Prometheus, composed of its own metrics, those of cards and of usage.

Usage is what namespaces have of cards now, and for how long they have had it, for chargeback.

A series of seconds must never step back: Prometheus would take that for a restart and count the
whole value again. The ledgers' meters are exact, but this process may see a write late, and its
clock may differ from the writer's. So it counts up to a time that lies back by ``MARGIN`` and by
the staleness of its watch, and a new leader exports nothing before that time has passed its
election: then it has counted at least as far as the leader before. Series have the node as a label,
so that those of a node that is removed end instead of lowering a sum.
"""

from asyncio import sleep
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from adapters.dialects.adoption import KUBELET_SHARES
from adapters.service.decide.ports import Clock
from adapters.service.decide.service import Service
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.card_metrics import CardMetrics
from adapters.service.observe.metrics import (
    Compressor,
    FamilyText,
    Metrics,
    PeerMetrics,
    QuotaMetrics,
    escaped,
    plain,
)
from core.durations import MILLISECOND
from core.hardware.quantity import FULL, GIB
from core.ledger.node_ledger import Amounts, Consumer, Meter, NodeLedger, consumption
from core.requests.grant import AllocationState

MARGIN = 10.0
"""Seconds by which the replicas' clocks may differ; NTP keeps them within one."""

BATCH = 100
"""Nodes whose lines are made before the event loop gets its turn."""

_SECOND = 1_000
_FAMILIES = (
    ("dragoman_share_seconds_total", "Seconds for which pods had a share of a card."),
    (
        "dragoman_share_memory_gib_seconds_total",
        "Allocated memory of cards in GiB, multiplied by seconds.",
    ),
    (
        "dragoman_share_compute_card_seconds_total",
        "Allocated compute in whole cards, multiplied by seconds.",
    ),
)
_GRANTED = (
    ("dragoman_namespace_shares", "Shares of cards: one for each pod on each card."),
    ("dragoman_namespace_memory_granted_bytes", "Allocated memory of cards."),
    ("dragoman_namespace_compute_granted_cards", "Allocated compute, in whole cards."),
)
_UNTIL = "dragoman_share_seconds_counted_timestamp_seconds"
_UNTIL_HEAD = (
    f"# HELP {_UNTIL} The time up to which at least all nodes' shares are counted.\n"
    f"# TYPE {_UNTIL} gauge\n"
).encode()


@dataclass(eq=False, slots=True)
class UsageMetrics:
    """The meters of all nodes.

    ``wall`` returns milliseconds since 1970, which may be set back or ahead, and ``steady`` such
    that pass evenly, from any start; ``led_for`` seconds for which this process has led, 0 where it
    does not; ``staleness`` seconds since the cache of ledgers was last up to date.
    """

    _book: LedgerCache
    _wall: Callable[[], int]
    _steady: Callable[[], int]
    _led_for: Callable[[], float]
    _staleness: Callable[[], float]
    _offset: int | None = None
    _kept: dict[str, tuple[NodeLedger, dict[Consumer, Amounts]]] = field(default_factory=dict)
    _until: int = 0

    async def families(self) -> list[FamilyText]:
        """Return all lines; none where this process must not export them."""
        behind = MARGIN + self._staleness()
        if self._led_for() <= behind:
            self._kept.clear()
            self._offset = None
            return []
        wall, steady = self._wall(), self._steady()
        if self._offset is None:
            self._offset = wall - steady
        # Without what the clock was set ahead since the first call: a later leader, whose clock is
        # right, would step back from what such a clock has counted.
        now = min(wall, steady + self._offset)
        # A clock that is set back must not take seconds back.
        self._until = until = max(self._until, now - int(behind * _SECOND))
        lines: list[list[bytes]] = [[] for _ in _FAMILIES]
        kept: dict[str, tuple[NodeLedger, dict[Consumer, Amounts]]] = {}
        for number, ledger in enumerate(self._book.records(), 1):
            earlier = self._kept.get(ledger.node.name)
            if earlier is None or earlier[0] is not ledger:
                earlier = (ledger, dict(consumption(ledger)))
            kept[ledger.node.name] = earlier
            meter = ledger.meter.advanced(earlier[1], until) if ledger.meter.until else Meter()
            of_node: list[list[str]] = [[] for _ in _FAMILIES]
            for consumer, total in sorted(meter.totals.items()):
                labels = _labels({"node": ledger.node.name, **consumer._asdict()})
                values = (
                    total.shares / _SECOND,
                    total.memory / (GIB * _SECOND),
                    total.compute / (FULL * _SECOND),
                )
                for (name, _), texts, value in zip(_FAMILIES, of_node, values, strict=True):
                    texts.append(f"{name}{labels} {value!r}\n")
            for family, texts in zip(lines, of_node, strict=True):
                family.append("".join(texts).encode())
            if number % BATCH == 0:
                await sleep(0)
        self._kept = kept
        return [
            FamilyText(_UNTIL_HEAD, [f"{_UNTIL} {until / _SECOND!r}\n".encode()]),
            *(
                FamilyText(f"# HELP {name} {text}\n# TYPE {name} counter\n".encode(), family)
                for (name, text), family in zip(_FAMILIES, lines, strict=True)
            ),
        ]


class NamespaceMetrics:
    """Sums over all nodes; a node is summed again only when its ledger has changed."""

    def __init__(self, book: LedgerCache) -> None:
        self._book = book
        self._current: dict[str, tuple[NodeLedger, tuple[tuple[Consumer, Amounts], ...]]] = {}

    def families(self) -> list[FamilyText]:
        """Return the lines of all namespaces that have a share now."""
        current: dict[str, tuple[NodeLedger, tuple[tuple[Consumer, Amounts], ...]]] = {}
        sums: dict[Consumer, Amounts] = {}
        for ledger in self._book.inventory:
            earlier = self._current.get(ledger.node.name)
            if earlier is None or earlier[0] is not ledger:
                earlier = (ledger, tuple(consumption(ledger.without_holds()).items()))
            current[ledger.node.name] = earlier
            for consumer, amounts in earlier[1]:
                sums[consumer] = sums.get(consumer, Amounts()).plus(amounts)
        self._current = current
        lines: list[list[str]] = [[] for _ in _GRANTED]
        for consumer, amounts in sorted(sums.items()):
            label = _labels(consumer._asdict())
            values = (amounts.shares, amounts.memory, amounts.compute / FULL)
            for (name, _), family, value in zip(_GRANTED, lines, values, strict=True):
                family.append(f"{name}{label} {value}\n")
        return [
            FamilyText(
                f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode(), ["".join(family).encode()]
            )
            for (name, text), family in zip(_GRANTED, lines, strict=True)
        ]


def _labels(fields: Mapping[str, str]) -> str:
    """Return labels with their values, in braces."""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in fields.items()) + "}"


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
        """Register the gauges of the ledgers; the last two are as in ``UsageMetrics``."""
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
                allocation.unread not in (None, KUBELET_SHARES)
                and allocation.state is AllocationState.COMMITTED
                for ledger in ledgers.inventory
                for allocation in ledger.allocations.values()
            ),
        )
        metrics.registry.register(QuotaMetrics(service.quotas))
        if cards.peers:
            metrics.registry.register(PeerMetrics(service.quotas))

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
