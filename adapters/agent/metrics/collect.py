"""The metrics of a node's cards and of the shares on them, collected for each scrape."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from adapters.agent.grants import GrantAnswer
from adapters.agent.hardware.model import CardLoad, Hardware
from adapters.agent.hook.containers import ContainerRegistry
from adapters.agent.hook.reporter import HookCounters
from adapters.agent.metrics.cards import card_families
from adapters.agent.metrics.exposition import Family
from adapters.agent.metrics.granted import granted_families
from adapters.agent.metrics.hook import hook_families
from adapters.agent.metrics.shares import share_families
from adapters.agent.metrics.slices import slice_families
from adapters.agent.metrics.usage import uses


@dataclass(slots=True)
class MetricsCollector:
    """Collects the metrics of a node.

    Attributes:
        node: its name.
        containers: of the node.
        hardware: of the node, as last read.
        loads: of its cards, by uuid.
        counters: of the hook.
        granted: a container's grant, by uid of its pod and its name.
        now: seconds since 1970.
    """

    node: str
    containers: ContainerRegistry
    hardware: Callable[[], Hardware]
    loads: Callable[[], Mapping[str, CardLoad]]
    counters: HookCounters
    granted: Callable[[str, str], GrantAnswer]
    now: Callable[[], float] = time.time

    def families(self) -> list[Family]:
        """All metrics, as they are now."""
        hardware = self.hardware()
        cards = {card.uuid: card for card in hardware.cards}
        shares = list(uses(self.containers, cards, int(self.now())))
        return [
            *card_families(self.node, cards, self.loads()),
            *share_families(shares),
            *granted_families(self.node, self.containers, self.granted, shares),
            *slice_families(self.containers, hardware.instances, self.granted),
            *hook_families(self.counters),
        ]
