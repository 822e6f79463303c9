"""The devices that a card is for Dynamic Resource Allocation, as a ResourceSlice states them.

Form: k8s.io/api v0.37.1 resource/v1/types.go. A claim that states no amount of a capacity consumes
its default: all memory, no reserved compute, one slot.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from adapters.dialects.dra import DRIVER
from adapters.dialects.dra.conditions import COMMITTED, REJECTED
from core.hardware import mig_catalog
from core.hardware.card import Card, Mode
from core.hardware.mig import Geometry, Slice
from core.hardware.quantity import FULL, MIB

UNHEALTHY = f"{DRIVER}/unhealthy"
"""Key of the taint of a card that gets no new allocations; running containers keep it."""

NUMA = "resource.kubernetes.io/numaNode"

NVIDIA = "nvidia"

_MAX_TEXT = 64
"""Characters of an attribute (types.go, DeviceAttributeMaxValueLength)."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CardDevices:
    """The devices of one card.

    Attributes:
        card: uuid.
        devices: as in ``spec.devices``.
        counters: the counter set that they consume; None where the card cannot be partitioned.
    """

    card: str
    devices: tuple[Json, ...]
    counters: Json | None = None
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(each["name"] for each in self.devices))


def card_devices(card: Card) -> CardDevices | None:
    """The devices of a card; None where it has none that a claim could get.

    A card in MIG mode whose layouts are not known has none, and one that states no memory.
    """
    if card.memory < MIB:
        return None
    match card.mode:
        case Mode.SHARED | Mode.MPS:
            return CardDevices(card.uuid, (_shared(card),))
        case Mode.WHOLE:
            return CardDevices(card.uuid, (_whole(card),))
        case Mode.MIG:
            return _partitioned(card)


def with_conditions(devices: CardDevices) -> CardDevices:
    """Return the devices with conditions: schedulers wait until the ledger has the claim."""
    conditions = {"bindingConditions": [COMMITTED], "bindingFailureConditions": [REJECTED]}
    return replace(devices, devices=tuple(each | conditions for each in devices.devices))


def names_of_cards(cards: Iterable[CardDevices]) -> Mapping[str, str]:
    """The uuid of the card of each device, by the device's name."""
    return {name: each.card for each in cards for name in each.names}


def _shared(card: Card) -> Json:
    memory = f"{card.memory // MIB}Mi"
    capacity = {
        "memory": {
            "value": memory,
            "requestPolicy": {
                "default": memory,
                "validRange": {"min": "1Mi", "max": memory, "step": "1Mi"},
            },
        },
        "compute": {
            "value": str(FULL),
            "requestPolicy": {
                "default": "0",
                "validRange": {"min": "0", "max": str(FULL), "step": "1"},
            },
        },
        "slots": {
            "value": str(card.slots),
            "requestPolicy": {"default": "1", "validValues": ["1"]},
        },
    }
    return _device(card, _name(card), Mode.SHARED, capacity) | {"allowMultipleAllocations": True}


def _whole(card: Card) -> Json:
    capacity = {"memory": {"value": f"{card.memory // MIB}Mi"}}
    return _device(card, _name(card), Mode.WHOLE, capacity)


def _partitioned(card: Card) -> CardDevices | None:
    geometry = card.geometry if card.geometry.layouts else mig_catalog.geometry(card.names)
    slices = _distinct(geometry)
    if not slices:
        return None
    counter_set = _name(card)
    covered = max(slot.start + slot.size for slot in slices)
    devices = tuple(_mig(card, slot, counter_set) for slot in slices)
    counters = {"name": counter_set, "counters": _memory_slices(range(covered))}
    return CardDevices(card.uuid, devices, counters)


def _distinct(geometry: Geometry) -> list[Slice]:
    """Each profile at each start once, the smallest first.

    Of one profile, those that exclude the fewest other slices come first: kube-scheduler takes the
    first device that fits (k8s.io/dynamic-resource-allocation v0.37.1 structured/allocator.go), and
    so a small slice leaves room for the largest one.
    """
    found = {(slot.profile, slot.start): slot for each in geometry.layouts for slot in each.slices}

    def excluded(slot: Slice) -> int:
        return sum(slot.overlaps(other) for other in found.values())

    return sorted(
        found.values(), key=lambda slot: (slot.size, slot.profile, excluded(slot), slot.start)
    )


def _mig(card: Card, slot: Slice, counter_set: str) -> Json:
    name = f"{_name(card)}-mig-{_label(slot.profile)}-{slot.start}"
    capacity = {
        "memory": {"value": f"{slot.memory // MIB}Mi"},
        "compute": {"value": str(slot.compute)},
    }
    found = _device(card, name, Mode.MIG, capacity)
    found["attributes"] |= {
        "profile": {"string": slot.profile},
        "start": {"int": slot.start},
    }
    covered = _memory_slices(range(slot.start, slot.start + slot.size))
    found["consumesCounters"] = [{"counterSet": counter_set, "counters": covered}]
    return found


def _memory_slices(numbers: Iterable[int]) -> Json:
    """A counter of 1 for each memory slice, so that slices that overlap exclude each other."""
    return {f"memory-slice-{number}": {"value": "1"} for number in numbers}


def _device(card: Card, name: str, mode: Mode, capacity: Json) -> Json:
    attributes: Json = {
        "uuid": {"string": card.uuid},
        "index": {"int": card.index},
        "vendor": {"string": card.vendor[:_MAX_TEXT]},
        "mode": {"string": mode.value},
    }
    if card.model:
        attributes["productName"] = {"string": card.model[:_MAX_TEXT]}
    if card.numa is not None:
        attributes[NUMA] = {"int": card.numa}
    found: Json = {"name": name, "attributes": attributes, "capacity": capacity}
    if not card.healthy:
        found["taints"] = [{"key": UNHEALTHY, "effect": "NoSchedule"}]
    return found


def _name(card: Card) -> str:
    return f"{'gpu' if card.vendor == NVIDIA else _label(card.vendor)}-{card.index}"


def _label(text: str) -> str:
    """Return a text as a part of a DNS label: lower case, and ``-`` for all other characters."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
