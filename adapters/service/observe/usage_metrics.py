"""What pods have had of cards, for how long, for chargeback.

A series must never step back: Prometheus would take that for a restart and count the whole value
again. The ledgers' meters are exact, but this process may see a write late, and its clock may
differ from the writer's. So it counts up to a time that lies back by ``MARGIN`` and by the
staleness of its watch, and a new leader exports nothing before that time has passed its election:
then it has counted at least as far as the leader before. Series have the node as a label, so that
those of a node that is removed end instead of lowering a sum.
"""

from asyncio import sleep
from collections.abc import Callable

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.card_lines import escaped
from adapters.service.observe.exposition import FamilyText
from core.hardware.quantity import FULL, GIB
from core.ledger.meter import Amounts, Consumer, Meter
from core.ledger.node_ledger import NodeLedger, consumption

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
_UNTIL = "dragoman_share_seconds_counted_timestamp_seconds"
_UNTIL_HEAD = (
    f"# HELP {_UNTIL} The time up to which at least all nodes' shares are counted.\n"
    f"# TYPE {_UNTIL} gauge\n"
).encode()


class UsageMetrics:
    """The meters of all nodes."""

    def __init__(
        self,
        book: LedgerCache,
        wall: Callable[[], int],
        steady: Callable[[], int],
        led_for: Callable[[], float],
        staleness: Callable[[], float],
    ) -> None:
        """Count nothing yet.

        Args:
            book: all ledgers.
            wall: milliseconds since 1970; may be set back or ahead.
            steady: milliseconds that pass evenly, from any start.
            led_for: seconds for which this process has led; 0 where it does not.
            staleness: seconds since the cache of ledgers was last up to date.
        """
        self._book = book
        self._wall = wall
        self._steady = steady
        self._offset: int | None = None
        self._led_for = led_for
        self._staleness = staleness
        self._kept: dict[str, tuple[NodeLedger, dict[Consumer, Amounts]]] = {}
        self._until = 0

    async def families(self) -> list[FamilyText]:
        """Return all lines; none where this process must not export them."""
        behind = MARGIN + self._staleness()
        if self._led_for() <= behind:
            self._kept.clear()
            self._offset = None
            return []
        # A clock that is set back must not take seconds back.
        self._until = until = max(self._until, self._now() - int(behind * _SECOND))
        lines: list[list[bytes]] = [[] for _ in _FAMILIES]
        kept: dict[str, tuple[NodeLedger, dict[Consumer, Amounts]]] = {}
        for number, ledger in enumerate(self._book.records(), 1):
            earlier = self._kept.get(ledger.node.name)
            if earlier is None or earlier[0] is not ledger:
                earlier = (ledger, dict(consumption(ledger)))
            kept[ledger.node.name] = earlier
            meter = ledger.meter.advanced(earlier[1], until) if ledger.meter.until else Meter()
            for family, text in zip(lines, _of(ledger.node.name, meter), strict=True):
                family.append(text)
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

    def _now(self) -> int:
        """Milliseconds since 1970, without what the clock was set ahead since the first call.

        A later leader, whose clock is right, would step back from what such a clock has counted.
        """
        wall, steady = self._wall(), self._steady()
        if self._offset is None:
            self._offset = wall - steady
        return min(wall, steady + self._offset)


def _of(node: str, meter: Meter) -> tuple[bytes, ...]:
    """The lines of a node, family by family."""
    families: tuple[list[str], ...] = tuple([] for _ in _FAMILIES)
    for consumer, total in sorted(meter.totals.items()):
        labels = {"node": node, **consumer._asdict()}
        inside = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
        values = (
            total.shares / _SECOND,
            total.memory / (GIB * _SECOND),
            total.compute / (FULL * _SECOND),
        )
        for (name, _), family, value in zip(_FAMILIES, families, values, strict=True):
            family.append(f"{name}{{{inside}}} {value!r}\n")
    return tuple("".join(family).encode() for family in families)
