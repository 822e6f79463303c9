"""How the peers' own plugins count the records of pods, for tests of mirrored records."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adapters.dialects.koordinator import keys as koordinator
from adapters.dialects.volcano import keys as volcano
from adapters.wire.quantity import parse_int
from core.hardware.card import Card, Mode
from core.hardware.quantity import FULL, MIB


@dataclass(slots=True)
class VolcanoCard:
    """One card in vc-scheduler. Source: vgpu/hamicore.go, mig.go and utils.go of v1.14.1."""

    memory: int
    number: int
    is_mig: bool
    used_memory: int = 0
    used_compute: int = 0
    used_number: int = 0

    def add(self, identity: str, memory: int, compute: int) -> None:
        """Count a device of a record (``AddPod``); no group of slices has the mirror's name."""
        assert not self.is_mig or "[dragoman-0]" in identity
        self.used_number += 1
        self.used_memory += 0 if self.is_mig else memory
        self.used_compute += compute

    def fits(self, memory: int, compute: int) -> bool:
        """Whether the plugin gives a part of the card (``checkNodeGPUSharingPredicate...``)."""
        if self.number <= self.used_number or self.memory - self.used_memory < memory:
            return False
        if self.used_compute + compute > FULL or (compute == FULL and self.used_number):
            return False
        return not (self.used_compute == FULL and compute == 0)


def volcano_cards(
    cards: Iterable[Card], pods: Iterable[Mapping[str, str]]
) -> dict[str, VolcanoCard]:
    """The cards that Volcano describes, after it counted the records of some pods.

    Args:
        cards: of one node.
        pods: their annotations.
    """
    counted = {
        card.uuid: VolcanoCard(card.memory // MIB, card.slots, card.mode is Mode.MIG)
        for card in cards
        if volcano.NAME in card.dialects
    }
    for annotations in pods:
        for device in annotations.get(volcano.ASSIGNED, "").replace(";", "").split(":"):
            if device:
                identity, _, memory, compute = device.split(",")
                counted[identity.split("[")[0]].add(identity, int(memory), int(compute))
    return counted


def koordinator_left(
    cards: Iterable[Card], pods: Iterable[Mapping[str, str]]
) -> dict[str, tuple[int, int, int]]:
    """What koord-scheduler has left of each card: bytes, percent of memory, percent of compute.

    Source: koordinator-sh/koordinator v1.8.0 deviceshare/device_cache.go ``updateCacheUsed``.
    """
    left = {
        card.uuid: (card.memory, FULL, FULL) for card in cards if koordinator.NAME in card.dialects
    }
    for annotations in pods:
        for row in json.loads(annotations.get(koordinator.ALLOCATED, "{}")).get("gpu", ()):
            memory, ratio, compute = left[row["id"]]
            used = {name: parse_int(text) for name, text in row["resources"].items()}
            left[row["id"]] = (
                memory - used[koordinator.MEMORY],
                ratio - used[koordinator.RATIO],
                compute - used.get(koordinator.CORE, 0),
            )
    return left
