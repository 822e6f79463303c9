"""Groups of connected NVIDIA cards: by NVLink, with or without switches, and by PCIe switches."""

import ctypes
from collections.abc import Sequence, Set
from itertools import combinations

from adapters.agent.hardware.nvml import NvidiaCard, Nvml, NvmlError, Pci
from core.hardware.card import Level, Scope

_LINKS = 36
"""NVML_NVLINK_MAX_LINKS."""
_SWITCH = 2
"""NVML_NVLINK_DEVICE_TYPE_SWITCH."""
_ONE_TREE = 20
"""NVML_TOPOLOGY_MULTIPLE: between two cards there are only PCIe switches, and no host bridge."""

Pair = tuple[str, str]


def scopes(nvml: Nvml, cards: Sequence[NvidiaCard]) -> dict[str, tuple[Scope, ...]]:
    """The scopes of each card, by its uuid; without those that NVML cannot report.

    Args:
        nvml: the library.
        cards: all of the node, by index.
    """
    found: dict[str, list[Scope]] = {card.uuid: [] for card in cards}
    index = {card.uuid: card.index for card in cards}
    for group in groups(list(found), _below_one_tree(nvml, cards)):
        for uuid in group:
            found[uuid].append(Scope(Level.PCIE, f"pcie-{index[group[0]]}"))
    for group in groups(list(found), _linked(nvml, cards)):
        if len(group) > 1:
            for uuid in group:
                found[uuid].append(Scope(Level.LINK, f"nvlink-{index[group[0]]}"))
    return {uuid: tuple(belongs) for uuid, belongs in found.items()}


def groups(uuids: Sequence[str], pairs: Set[Pair]) -> list[list[str]]:
    """Groups in which any two cards are a pair; each card is in the first group that fits.

    In a mesh of single links not all cards are connected to each other: it may be several groups.
    """
    found: list[list[str]] = []
    for uuid in uuids:
        for group in found:
            if all((other, uuid) in pairs for other in group):
                group.append(uuid)
                break
        else:
            found.append([uuid])
    return found


def _below_one_tree(nvml: Nvml, cards: Sequence[NvidiaCard]) -> set[Pair]:
    pairs: set[Pair] = set()
    for left, right in combinations(cards, 2):
        try:
            level = nvml.number(
                "nvmlDeviceGetTopologyCommonAncestor",
                nvml.handle_of(left.uuid),
                nvml.handle_of(right.uuid),
            )
        except NvmlError:
            continue
        if level <= _ONE_TREE:
            pairs.add((left.uuid, right.uuid))
    return pairs


def _linked(nvml: Nvml, cards: Sequence[NvidiaCard]) -> set[Pair]:
    at = {card.bus_id: card.uuid for card in cards}
    switched: list[str] = []
    pairs: set[Pair] = set()
    for card in cards:
        peers, through = _peers(nvml, card)
        pairs |= {(card.uuid, at[bus_id]) for bus_id in peers if bus_id in at}
        if through:
            switched.append(card.uuid)
    both = {(left, right) for left, right in pairs if (right, left) in pairs}
    return both | set(combinations(switched, 2))


def _peers(nvml: Nvml, card: NvidiaCard) -> tuple[set[str], bool]:
    """PCI addresses at the other ends of a card's active links, and whether a switch is at one."""
    peers: set[str] = set()
    through = False
    try:
        handle = nvml.handle_of(card.uuid)
        for number in range(_LINKS):
            link = ctypes.c_uint(number)
            if not nvml.number("nvmlDeviceGetNvLinkState", handle, link):
                continue
            if nvml.number("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) == _SWITCH:
                through = True
                continue
            pci = Pci()
            nvml.call("nvmlDeviceGetNvLinkRemotePciInfo_v2", handle, link, ctypes.byref(pci))
            peers.add(pci.address)
    except NvmlError:
        pass  # the number after a card's last link, or a card without links
    return peers, through
