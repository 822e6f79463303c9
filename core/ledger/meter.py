"""How much of a node's cards pods have had, for how long: exact sums of amounts by milliseconds.

What is allocated changes only with a write of the ledger. Each write adds what was allocated since
the write before, in the same record: as only one of several writers succeeds, no time is counted
twice and none is left out, however often the writers restart or change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple


class Consumer(NamedTuple):
    """Pods that are counted together.

    Attributes:
        namespace: of the pods.
        dialect: of their requests.
        model: of the cards.
    """

    namespace: str
    dialect: str
    model: str


@dataclass(frozen=True, slots=True)
class Amounts:
    """Sums of shares, or of shares multiplied by milliseconds.

    Attributes:
        shares: one for each pod on each card.
        memory: bytes.
        compute: percent of one card.
    """

    shares: int = 0
    memory: int = 0
    compute: int = 0

    def plus(self, other: "Amounts", times: int = 1) -> "Amounts":
        """Return the sum with a multiple of others."""
        return Amounts(
            self.shares + other.shares * times,
            self.memory + other.memory * times,
            self.compute + other.compute * times,
        )


NOTHING = Amounts()

CONSUMERS = 128
"""Consumers of one node that are counted apart: they are about 20 KB of its record."""

OTHERS = Consumer("~others", "", "")
"""Consumers beyond ``CONSUMERS``, all of which have shares; no namespace has such a name."""


@dataclass(frozen=True, slots=True)
class Meter:
    """The sums of one node.

    Attributes:
        until: milliseconds since 1970 up to which the sums count; 0: nothing is counted yet.
        totals: amounts multiplied by milliseconds; the consumer that had a share last is last.
    """

    until: int = 0
    totals: Mapping[Consumer, Amounts] = field(default_factory=lambda: MappingProxyType({}))

    def advanced(self, allocated: Mapping[Consumer, Amounts], now: int) -> "Meter":
        """Return the sums up to a later time; itself where the time is not later.

        The consumer that has had no share for longest makes room for a new one.

        Args:
            allocated: since ``until``.
            now: milliseconds since 1970.
        """
        if now <= self.until:
            return self
        if self.until == 0:
            return Meter(now, self.totals)
        idle = {each: sums for each, sums in self.totals.items() if each not in allocated}
        others = idle.pop(OTHERS, NOTHING)
        active: dict[Consumer, Amounts] = {}
        for consumer in sorted(allocated, key=lambda each: (each not in self.totals, each)):
            amounts, elapsed = allocated[consumer], now - self.until
            if consumer not in self.totals and len(idle) + len(active) == CONSUMERS:
                if not idle:
                    others = others.plus(amounts, elapsed)
                    continue
                del idle[next(iter(idle))]
            active[consumer] = self.totals.get(consumer, NOTHING).plus(amounts, elapsed)
        beyond = {} if others == NOTHING else {OTHERS: others}
        return Meter(now, MappingProxyType(idle | active | beyond))


UNMETERED = Meter()
