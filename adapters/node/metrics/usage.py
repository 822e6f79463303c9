"""How containers use their cards, as HAMi-core tells in the folder that each of them has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from adapters.node.hook.containers import ContainerInfo, ContainerRegistry
from adapters.node.metrics.hami_region import Region, RegionCard, RegionError, read
from core.hardware.card import Card

_MOST_FILES = 16


@dataclass(frozen=True, slots=True)
class ShareUse:
    """One card as one container uses it.

    Attributes:
        place: of the card among the container's.
        idle: seconds since the container last started a kernel; 0 where that is not known.
    """

    container: ContainerInfo
    index: int
    card: RegionCard
    idle: int


def uses(tenants: ContainerRegistry, cards: Mapping[str, Card], now: int) -> Iterator[ShareUse]:
    """Each card of each container that has a region.

    Args:
        tenants: the node's containers.
        cards: of the node, by uuid; empty where nobody knows them.
        now: seconds since 1970.
    """
    for tenant, folder in tenants.cache_dirs():
        region = region_of(folder)
        if region is None:
            continue
        # A clock that was set back is no negative idleness, and a value from outside no date.
        idle = now - region.last_kernel if 0 < region.last_kernel <= now else 0
        for place, card in enumerate(region.cards):
            # The container can write any uuid there, but not make it a card of this node.
            if card.uuid and (not cards or card.uuid in cards):
                yield ShareUse(tenant, place, card, idle)


def region_of(folder: Path) -> Region | None:
    """The region in a container's folder; None where there is none that can be read.

    The container can write there: only so many names are looked at, and only one is read.
    """
    try:
        names = []
        for path in folder.iterdir():
            names.append(path)
            if len(names) == _MOST_FILES:
                break
        own = folder / f"{folder.name}.cache"
        others = sorted(path for path in names if path.suffix == ".cache" and path != own)
        for path in (own, *others):
            try:
                return read(path)
            except (RegionError, OSError):
                continue
    except OSError:
        pass
    return None
