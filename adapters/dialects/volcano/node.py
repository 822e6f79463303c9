"""Reads the cards of a node, as the device plugin registers them in an annotation.

The grammar is ``(uuid,count,memory,type,health,mode:)+``; fields after the sixth have no meaning.
Source: volcano-vgpu-device-plugin pkg/util/util.go:163-170.

Plugins without modes end an entry after the health, which is always ``false`` there: they
compare ``Healthy`` with ``healthy``. Their cards are shared as with hami-core, and count as
healthy. Source: volcano-sh/devices pkg/plugin/vgpu/util/util.go, EncodeNodeDevices, and
pkg/plugin/vgpu/register.go, apiDevices.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from adapters.dialects.containers import is_zero
from adapters.dialects.dialect import NodeDescription
from adapters.dialects.formats.annotation_values import parse_bool
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.geometry import Partitioning, partitioning
from adapters.dialects.volcano.settings import DeviceConfig
from adapters.wire.kube import Amount, KubeNode, annotations
from core.hardware.card import Card, Mode
from core.hardware.mig import NO_GEOMETRY
from core.hardware.quantity import FULL, MIB

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


def read_node(node: KubeNode, dialect: str, config: DeviceConfig) -> NodeDescription:
    """Read the cards of a node; an invalid entry becomes a problem.

    A node with 0 of one of the resources has no running device plugin, or the kubelet has removed
    what it registered: the cards then count as unhealthy, and no pod gets them.

    Args:
        node: the node.
        dialect: the name for ``Card.dialects``.
        config: the device settings.
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
            card, node=node.metadata.name, index=index, dialects=frozenset({dialect})
        )
        problems += (*partitions.problems, *doubts)
    withdrawn = _withdrawn(node.status.allocatable or {}, config) if cards else None
    if withdrawn is not None:
        problems.append(f"allocatable {withdrawn} is 0: the device plugin does not serve the cards")
    return NodeDescription(
        cards=tuple(
            replace(card, healthy=card.healthy and withdrawn is None) for card in cards.values()
        ),
        precision=config.unit,
        problems=tuple(f"node {node.metadata.name}: {text}" for text in dict.fromkeys(problems)),
    )


def resources(cards: Sequence[Card], dialect: str, config: DeviceConfig) -> dict[str, int]:
    """What the device plugin registers for the cards of a node.

    Its limit of 60,000 ids for a message does not apply to a node's status.
    Source: volcano-vgpu-device-plugin pkg/plugin/server.go:649-716.

    Args:
        cards: of one node.
        dialect: the name for ``Card.dialects``.
        config: the device settings.
    """
    described = [card for card in cards if dialect in card.dialects]
    if not described:
        return {}
    healthy = [card for card in described if card.healthy]
    return {
        config.count: sum(card.slots for card in healthy),
        config.cores: FULL * len(healthy),
        config.memory: sum(card.memory // config.unit for card in healthy),
    }


def _entry(entry: str, config: DeviceConfig) -> tuple[Card, Partitioning, tuple[str, ...]] | str:
    """The card of an entry, its possible partitions, and what is doubtful; or why it is invalid."""
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
        else Partitioning(NO_GEOMETRY)
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


def _withdrawn(allocatable: dict[str, Amount], config: DeviceConfig) -> str | None:
    named = (config.count, config.memory, config.cores)
    return next(
        (name for name in named if name in allocatable and is_zero(allocatable[name])), None
    )
