"""Possible partitions of a card in MIG mode: from the device settings, else as NVIDIA publishes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from adapters.dialects.volcano.settings import GeometryTable, Slices
from core.hardware import mig_catalog
from core.hardware.mig import NO_GEOMETRY, Geometry, MigProfile, lay_out
from core.hardware.quantity import FULL, MIB

_SIZES = (1, 2, 4, 8)
"""Eighths of a card's memory that a slice may have."""

_COMPUTE_SLICES = 7
"""Compute slices of every card with MIG, unless a profile with fewer is the whole card."""

_NAME = re.compile(r"([1-7])g\..+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The possible partitions of one card.

    Attributes:
        geometry: of the card.
        problems: which of its settings are impossible, as sentences.
    """

    geometry: Geometry
    problems: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def partitioning(tables: tuple[GeometryTable, ...], card_type: str, memory: int) -> Partitioning:
    """Find the possible partitions of a card.

    Args:
        tables: of the device settings; the first that contains the type counts.
        card_type: as registered.
        memory: bytes of the whole card.
    """
    for table in tables:
        if any(model in card_type for model in table.models):
            return _tabled(table, card_type, memory)
    geometry = mig_catalog.geometry((card_type,))
    if geometry.layouts:
        return Partitioning(geometry)
    return Partitioning(
        NO_GEOMETRY, (f"no MIG layout is known for {card_type}; add it to knownMigGeometries",)
    )


def _tabled(table: GeometryTable, card_type: str, memory: int) -> Partitioning:
    listed = {slices.name: slices for group in table.groups for slices in group.slices}
    profiles = _published(listed, card_type) or _derived(listed, memory)
    layouts = [
        lay_out(group.name, [p for slices in group.slices for p in _of(slices, profiles)])
        if all(slices.name in profiles for slices in group.slices)
        else None
        for group in table.groups
    ]
    return Partitioning(
        Geometry(tuple(layout for layout in layouts if layout is not None)),
        tuple(
            f"{group.name} of knownMigGeometries does not fit on {card_type}"
            for group, layout in zip(table.groups, layouts, strict=True)
            if layout is None
        ),
    )


def _of(slices: Slices, profiles: Mapping[str, MigProfile]) -> list[MigProfile]:
    """The slices of an entry; none has more memory than its profile.

    The table that Volcano ships states more for the A30 and the A100 40GB than their slices have.
    """
    profile = profiles[slices.name]
    return [replace(profile, memory=min(slices.memory * MIB, profile.memory))] * slices.count


def _published(listed: Mapping[str, Slices], card_type: str) -> dict[str, MigProfile]:
    """The profiles as NVIDIA publishes them; empty unless the catalog has all of them."""
    known = {name: mig_catalog.profile((card_type,), name) for name in listed}
    return (
        {name: profile for name, profile in known.items() if profile is not None}
        if (None not in known.values())
        else {}
    )


def _derived(listed: Mapping[str, Slices], memory: int) -> dict[str, MigProfile]:
    """The profiles derived from their names and sizes, in eighths of the card."""
    kinds: dict[str, tuple[int, int]] = {}
    for name, slices in listed.items():
        match = _NAME.fullmatch(name)
        size = _size(slices.memory * MIB, memory)
        if match is not None and size is not None:
            kinds[name] = (int(match[1]), size)
    whole = next((parts for parts, size in kinds.values() if size == _SIZES[-1]), _COMPUTE_SLICES)
    return {
        name: MigProfile(
            name=name,
            memory=listed[name].memory * MIB,
            size=size,
            compute=min(FULL * parts // whole, FULL),
            starts=tuple(
                start for start in range(0, _SIZES[-1], size) if start + parts <= _COMPUTE_SLICES
            ),
        )
        for name, (parts, size) in kinds.items()
    }


def _size(slice_memory: int, card_memory: int) -> int | None:
    nearest = (2 * _SIZES[-1] * slice_memory + card_memory) // (2 * card_memory)
    return next((size for size in _SIZES if size >= nearest), None)
