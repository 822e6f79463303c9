"""The metrics of a node's cards and of the shares on them, gathered when somebody asks."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from adapters.node.grants import GrantAnswer
from adapters.node.hardware.model import CardLoad, Hardware
from adapters.node.hook.containers import ContainerRegistry
from adapters.node.hook.counters import HookCounters
from adapters.node.metrics.cards import card_families
from adapters.node.metrics.exposition import Family
from adapters.node.metrics.hook import hook_families
from adapters.node.metrics.shares import share_families
from adapters.node.metrics.slices import slice_families
from adapters.node.metrics.usage import uses


@dataclass(slots=True)
class MetricsCollector:
    """What is told about a node.

    Attributes:
        node: its name.
        tenants: its containers.
        hardware: what is in it.
        loads: how busy its cards are, by uuid.
        counts: what the hook did.
        granted: what a container may use, by uid of its pod and its name.
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
        """Everything, as it is now."""
        hardware = self.hardware()
        cards = {card.uuid: card for card in hardware.cards}
        return [
            *card_families(self.node, cards, self.loads()),
            *share_families(list(uses(self.containers, cards, int(self.now())))),
            *slice_families(self.containers, hardware.instances, self.granted),
            *hook_families(self.counters),
        ]
