"""How containers use their cards, as HAMi-core records it in each container's folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from adapters.agent.hook.containers import ContainerInfo, ContainerRegistry
from adapters.agent.metrics.hami_region import Region, RegionCard, RegionError, read
from core.hardware.card import Card

_MAX_FILES = 16


@dataclass(frozen=True, slots=True)
class ShareUse:
    """One card as one container uses it.

    Attributes:
        index: of the card among the container's.
        idle: seconds since the container last started a kernel; 0 where it is not known.
    """

    container: ContainerInfo
    index: int
    card: RegionCard
    idle: int


def uses(containers: ContainerRegistry, cards: Mapping[str, Card], now: int) -> Iterator[ShareUse]:
    """Each card of each container that has a region.

    Args:
        containers: of the node.
        cards: of the node, by uuid; empty where they are not known.
        now: seconds since 1970.
    """
    for container, folder in containers.cache_dirs():
        region = region_of(folder)
        if region is None:
            continue
        # The clock may have been set back, and the container can write any time there.
        idle = now - region.last_kernel if 0 < region.last_kernel <= now else 0
        for index, card in enumerate(region.cards):
            # The container can write any uuid there, but not make it a card of this node.
            if card.uuid and (not cards or card.uuid in cards):
                yield ShareUse(container, index, card, idle)


def region_of(folder: Path) -> Region | None:
    """The region in a container's folder; None where there is no valid one.

    The container can write there, so the number of names is limited, and one region is enough.
    """
    try:
        names = []
        for path in folder.iterdir():
            names.append(path)
            if len(names) == _MAX_FILES:
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
