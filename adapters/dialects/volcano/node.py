"""Reads the cards of a node, as the device plugin registers them in an annotation.

The grammar is ``(uuid,count,memory,type,health,mode:)+``; fields after the sixth have no meaning.
Source: volcano-vgpu-device-plugin pkg/util/util.go:163-170.

Plugins without modes end an entry after the health, which is always ``false`` there: they
compare ``Healthy`` with ``healthy``. Their cards are shared as with hami-core, and count as
healthy. Source: volcano-sh/devices pkg/plugin/vgpu/util/util.go, EncodeNodeDevices, and
pkg/plugin/vgpu/register.go, apiDevices.

The possible partitions of a card in MIG mode are those of the device settings, else as NVIDIA
publishes them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from adapters.dialects.containers import is_zero
from adapters.dialects.dialect import NodeDescription
from adapters.dialects.formats.annotation_values import parse_bool
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.keys import DeviceConfig, GeometryTable, Slices
from adapters.wire.kube import KubeNode, annotations
from core.hardware import mig, mig_catalog
from core.hardware.card import Card, Mode
from core.hardware.quantity import FULL, MAX_MEMORY, MIB

_FIELDS, _OLDER_FIELDS = 6, 5
_NUMBER = re.compile(r"0*([1-9][0-9]{0,9})", re.ASCII)
# These separate the fields of a result, so no uuid can contain them.
_UUID = re.compile(r"[^\s;\[\]]+")

# mps: scheduler and device plugin treat it as hami-core (pkg/plugin/server.go:438 of the plugin)
_MODES = {keys.HAMI_CORE: Mode.SHARED, keys.MPS: Mode.SHARED, keys.MIG: Mode.MIG}

_UNKNOWN_UNIT = (
    f"{keys.REGISTER}: entries without a mode do not say whether their memory is in units of"
    " gpuMemoryFactor; it is read as MiB"
)


_SIZES = (1, 2, 4, 8)
"""Eighths of a card's memory that a slice may have."""

_COMPUTE_SLICES = 7
"""Compute slices of every card with MIG, unless a profile with fewer is the whole card."""

_SHIPPED = ("A30", "A100-SXM4-40GB")
"""Models of which the table that Volcano ships states more memory than their slices have."""

_NAME = re.compile(r"([1-7])g\..+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The possible partitions of one card.

    Attributes:
        problems: which of its settings are impossible, as sentences.
    """

    geometry: mig.Geometry
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
        mig.NO_GEOMETRY, (f"no MIG layout is known for {card_type}; add it to knownMigGeometries",)
    )


@lru_cache(maxsize=1024)
def smaller_slices(
    tables: tuple[GeometryTable, ...], memory: int
) -> tuple[tuple[str, mig.Slice], ...]:
    """Return the models of which a request gets a slice with less memory than it asks for.

    Args:
        tables: of the device settings.
        memory: bytes that are requested.

    Returns:
        of each model the smallest slice that is configured with so much.
    """
    found: dict[tuple[str, int], tuple[str, mig.Slice]] = {}
    for model in (*(each.models[0] for each in tables if each.models), *_SHIPPED):
        # The card's size bounds profiles that NVIDIA does not publish; here none is known.
        slot = mig.smallest_configured(partitioning(tables, model, MAX_MEMORY).geometry, memory)
        if slot is not None and slot.memory < memory:
            found.setdefault((slot.profile, slot.memory), (model, slot))
    return tuple(found.values())


def _tabled(table: GeometryTable, card_type: str, memory: int) -> Partitioning:
    """Return the partitions that a table configures: by NVIDIA's profiles, or else derived ones.

    No slice has more memory than its profile: the table that Volcano ships states more for the A30
    and the A100 40GB than their slices have.
    """
    listed = {slices.name: slices for group in table.groups for slices in group.slices}
    known = {name: mig_catalog.profile((card_type,), name) for name in listed}
    published = {name: profile for name, profile in known.items() if profile is not None}
    profiles = published if len(published) == len(known) else _derived(listed, memory)
    layouts: list[mig.MigLayout] = []
    problems: list[str] = []
    for group in table.groups:
        parts: list[mig.MigProfile] = []
        for slices in group.slices:
            profile, configured = profiles.get(slices.name), slices.memory * MIB
            if profile is not None:
                smaller = min(configured, profile.memory)
                parts += [replace(profile, memory=smaller, configured=configured)] * slices.count
        is_known = all(slices.name in profiles for slices in group.slices)
        layout = mig.lay_out(group.name, parts) if is_known else None
        if layout is None:
            problems.append(f"{group.name} of knownMigGeometries does not fit on {card_type}")
        else:
            layouts.append(layout)
    return Partitioning(mig.Geometry(tuple(layouts)), tuple(problems))


def _derived(listed: Mapping[str, Slices], memory: int) -> dict[str, mig.MigProfile]:
    """Return the profiles derived from their names and sizes, in eighths of the card.

    None has more memory than its eighths, so that all slices together have no more than the card.
    """
    kinds: dict[str, tuple[int, int]] = {}
    for name, slices in listed.items():
        match = _NAME.fullmatch(name)
        nearest = (2 * _SIZES[-1] * slices.memory * MIB + memory) // (2 * memory)
        size = next((size for size in _SIZES if size >= nearest), None)
        if match is not None and size is not None:
            kinds[name] = (int(match[1]), size)
    whole = next((parts for parts, size in kinds.values() if size == _SIZES[-1]), _COMPUTE_SLICES)
    return {
        name: mig.MigProfile(
            name=name,
            memory=min(listed[name].memory * MIB, memory * size // _SIZES[-1]),
            size=size,
            compute=min(FULL * parts // whole, FULL),
            starts=tuple(
                start for start in range(0, _SIZES[-1], size) if start + parts <= _COMPUTE_SLICES
            ),
        )
        for name, (parts, size) in kinds.items()
    }


def read_node(node: KubeNode, config: DeviceConfig) -> NodeDescription:
    """Read the cards of a node; an invalid entry becomes a problem.

    A node with 0 of one of the resources has no running device plugin, or the kubelet has removed
    what it registered: the cards then count as unhealthy, and no pod gets them.
    """
    cards: dict[str, Card] = {}
    problems: list[str] = []
    # The position is the card's index for the scheduler: vgpu/utils.go:63, 95
    for index, entry in enumerate(annotations(node).get(keys.REGISTER, "").split(":")):
        if not entry.strip():
            continue
        found = _entry(entry, config)
        if isinstance(found, str):
            problems.append(f"{keys.REGISTER}: entry {index} {found}: {entry!r}")
            continue
        card, partitions, doubts = found
        if card.uuid in cards:
            problems.append(f"{keys.REGISTER}: entry {index} repeats uuid {card.uuid}")
            continue
        cards[card.uuid] = replace(
            card, node=node.metadata.name, index=index, dialects=frozenset({keys.NAME})
        )
        problems += (*partitions.problems, *doubts)
    allocatable = node.status.allocatable or {}
    counted = (config.count, config.memory, config.cores)
    zero = next((name for name in counted if is_zero(allocatable.get(name, ""))), None)
    if cards and zero is not None:
        withdrawn = f"allocatable {zero} is 0: the device plugin does not serve the cards"
        problems.append(withdrawn)
        cards = {
            uuid: replace(card, healthy=False, problem=withdrawn) for uuid, card in cards.items()
        }
    return NodeDescription(
        cards=tuple(cards.values()),
        precision=config.unit,
        problems=tuple(f"node {node.metadata.name}: {text}" for text in dict.fromkeys(problems)),
    )


def _entry(entry: str, config: DeviceConfig) -> tuple[Card, Partitioning, tuple[str, ...]] | str:
    """Return an entry's card, possible partitions and what is doubtful, or why it is invalid."""
    fields = [field.strip() for field in entry.split(",")]
    if len(fields) < _OLDER_FIELDS:
        return f"has {len(fields)} fields, not uuid, count, memory, type, health and mode"
    older = len(fields) == _OLDER_FIELDS
    uuid, count, memory, card_type, health, mode = (*fields, keys.HAMI_CORE)[:_FIELDS]
    slots, units, healthy = _NUMBER.fullmatch(count), _NUMBER.fullmatch(memory), parse_bool(health)
    if _UUID.fullmatch(uuid) is None:
        return "has no usable uuid"
    if slots is None:
        return f"has count {count!r}, not a number of sharers, 1 or more"
    if units is None:
        return f"has memory {memory!r}, not a number of units, 1 or more"
    if keys.VENDOR_TYPE not in card_type:
        return f"has type {card_type!r}, which is not an {keys.VENDOR_TYPE} card"
    if healthy is None:
        return f"has health {health!r}, not true or false"
    if mode not in _MODES:
        return f"has mode {mode!r}, not {keys.HAMI_CORE} or {keys.MIG}"
    # The first of the older plugins had no factor: the smaller reading overallocates nothing.
    size = int(units[1]) * (MIB if older else config.unit)
    partitions = (
        partitioning(config.tables, card_type, size)
        if _MODES[mode] is Mode.MIG
        else Partitioning(mig.NO_GEOMETRY)
    )
    card = Card(
        uuid=uuid,
        node="",
        index=0,
        vendor=keys.VENDOR,
        model=card_type.removeprefix(f"{keys.VENDOR_TYPE}-"),
        memory=size,
        slots=int(slots[1]),
        healthy=healthy or older,
        mode=_MODES[mode],
        names=(card_type,),
        geometry=partitions.geometry,
    )
    return card, partitions, (_UNKNOWN_UNIT,) if older and config.unit != MIB else ()
