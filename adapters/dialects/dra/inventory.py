"""The cards that ResourceSlices describe."""

from collections.abc import Iterable

from adapters.dialects.dialect import NodeDescription
from adapters.dialects.dra.devices import MEMORY, SHARERS, PublishedDevice, means_cards
from core.hardware.card import Card

SLOTS = 10
"""Places on a card whose driver states none, as HAMi and Volcano have by default."""

INDEX = ("index", "minor")
"""Attributes that number the cards of a node."""

NUMA = ("resource.kubernetes.io/numaNode", "numaNode", "numa")
"""Attributes with the NUMA node of a card; the first one means the same for every driver."""


def described(node: str, devices: Iterable[PublishedDevice]) -> tuple[NodeDescription, ...]:
    """What each driver reports about the cards of a node.

    Only whole cards with a uuid and an amount of memory, and only of drivers whose name says that
    their devices are cards. No dialect of pods describes such a card, so that only claims have it
    unless another source describes it too.

    Args:
        node: name.
        devices: of all slices of the node.
    """
    drivers: dict[str, list[PublishedDevice]] = {}
    for device in devices:
        is_whole = device.card and not device.profile and MEMORY in device.amounts
        if is_whole and means_cards(device.driver):
            drivers.setdefault(device.driver, []).append(device)
    return tuple(_description(node, driver, drivers[driver]) for driver in sorted(drivers))


def _description(node: str, driver: str, devices: list[PublishedDevice]) -> NodeDescription:
    cards = {
        device.card: Card(
            uuid=device.card,
            node=node,
            index=_index(device, position),
            vendor=_vendor(device),
            model=device.texts.get("productName", driver),
            memory=int(device.amounts[MEMORY]),
            slots=int(device.amounts.get(SHARERS, SLOTS)),
            numa=_numa(device),
        )
        for position, device in enumerate(sorted(devices, key=lambda each: each.name))
    }
    ordered = tuple(sorted(cards.values(), key=lambda card: (card.index, card.uuid)))
    return NodeDescription(
        ordered,
        slots_stated=False,
        compute_stated=False,
        source=f"ResourceSlices of {driver}",
    )


def _index(device: PublishedDevice, position: int) -> int:
    numbers = (device.numbers.get(name) for name in INDEX)
    return next((number for number in numbers if number is not None and number >= 0), position)


def _numa(device: PublishedDevice) -> int | None:
    """The NUMA node; drivers write -1 where it is not known."""
    stated = next((device.numbers[name] for name in NUMA if name in device.numbers), -1)
    return stated if stated >= 0 else None


def _vendor(device: PublishedDevice) -> str:
    """The vendor that the device states; else the domain of the driver, such as ``nvidia``."""
    stated = device.texts.get("vendor") or device.texts.get("productName", "").partition(" ")[0]
    if stated.lower() in {"nvidia", "metax", "amd", "intel"}:
        return stated.lower()
    if device.card.startswith("GPU-"):
        return "nvidia"
    parts = device.driver.split(".")
    return parts[-2] if len(parts) > 1 else device.driver
