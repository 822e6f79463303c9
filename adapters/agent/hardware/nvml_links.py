"""Groups of connected NVIDIA cards: by NVLink, with or without switches, and by PCIe switches."""

from collections.abc import Sequence, Set
from itertools import combinations

import pynvml

from adapters.agent.hardware.nvml import NvidiaCard, Nvml, NvmlError, address
from core.hardware.card import Level, Scope

Pair = tuple[str, str]


def scopes(nvml: Nvml, cards: Sequence[NvidiaCard]) -> dict[str, tuple[Scope, ...]]:
    """Return the scopes of each card, by its uuid, without those that NVML cannot report.

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
    """Form groups in which any two cards are a pair; each card is in the first group that fits.

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
            handles = nvml.handle_of(left.uuid), nvml.handle_of(right.uuid)
            level = nvml.call("nvmlDeviceGetTopologyCommonAncestor", *handles)
        except NvmlError:
            continue
        if level <= pynvml.NVML_TOPOLOGY_MULTIPLE:  # only PCIe switches, and no host bridge
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
    """Read the addresses at the other ends of active links, and whether one is a switch."""
    peers: set[str] = set()
    through = False
    try:
        handle = nvml.handle_of(card.uuid)
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            if not nvml.call("nvmlDeviceGetNvLinkState", handle, link):
                continue
            kind = nvml.call("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
            if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                through = True
                continue
            peers.add(address(nvml.call("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)))
    except NvmlError:
        pass  # the number after a card's last link, or a card without links
    return peers, through
