"""Reads NVIDIA's cards as HAMi's device plugin describes them in annotations of the node.

The text is a JSON list that omits values of 0 and false; older plugins write
``(id,count,devmem,devcore,type,numa,health[,index,mode]:)*``. Memory is in MiB. ``devcore`` is
the percent of compute that pods may have together: ``deviceCoreScaling`` times 100, and 100 of a
card in MIG mode (register.go:175-177). HAMi also reads an absent one as 0.
Source: pkg/device-plugin/nvidiadevice/nvinternal/plugin/register.go and pkg/device/devices.go,
DeviceInfo, MarshalNodeDevices, and DecodeNodeDevices for the older text (a whole one stands in
volcano-sh/volcano issue 4511).

Links between cards follow from the score of each pair, a sum over its links: 10 to 60 for the way
over PCIe (50: one switch, 60: one board), and 100 for each NVLink. Source:
nvidia/calculate_score.go, calculateGPUPairScore.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import msgspec

from adapters.dialects.containers import is_zero
from adapters.dialects.dialect import NodeDescription
from adapters.dialects.formats.hami_record import NODE_DEVICES, is_card_uuid
from adapters.dialects.hami import keys
from adapters.dialects.hami.keys import HamiConfig
from adapters.wire.decode.decoder import Decoder, Int64, UnreadableError, convert
from adapters.wire.kube import KubeNode, annotations
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig import NO_GEOMETRY, Geometry, MigLayout, Slice
from core.hardware.quantity import FULL, MAX_COMPUTE, MIB

# nvidia/device.go:61-63
_MODES = {"": Mode.SHARED, keys.HAMI_CORE: Mode.SHARED, keys.MPS: Mode.MPS, keys.MIG: Mode.MIG}
_NVIDIA = "NVIDIA"
_MAX = 2**31 - 1
_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_FLAGS = {"true": True, "false": False}
_SHORT, _LONG = 7, 9
_FROM_THE_END = ("1g.", "3g.")

_Number = Annotated[int, msgspec.Meta(ge=0, le=_MAX)]
_Many = Annotated[int, msgspec.Meta(ge=1, le=_MAX)]


class _Placement(msgspec.Struct, frozen=True):
    size: Annotated[int, msgspec.Meta(ge=1, le=64)]
    start: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0


class _Profile(msgspec.Struct, frozen=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    memory: _Many = msgspec.field(name="memoryMB")
    core: Annotated[int, msgspec.Meta(ge=0, le=FULL)] = 0
    placements: tuple[_Placement, ...] | None = None


class _NvidiaDevice(msgspec.Struct, frozen=True):
    id: str
    count: _Many
    devmem: _Many
    type: str
    devcore: Annotated[int, msgspec.Meta(ge=0, le=MAX_COMPUTE)] = 0
    index: _Number = 0
    numa: Int64 = 0
    mode: str = ""
    health: bool = False
    profiles: tuple[_Profile, ...] | None = msgspec.field(default=None, name="migProfiles")


_ENTRIES: Decoder[list[object] | None] = Decoder(list[object] | None)


def read_node(node: KubeNode, config: HamiConfig) -> NodeDescription:
    """Read the cards of a node; an invalid entry becomes a problem.

    HAMi also writes NUMA node 0 where it does not know the NUMA node, so 0 means unknown.

    A node with 0 of the resource that counts cards has no device plugin any more, which leaves its
    annotation behind: the cards are known then, and pods of this dialect get none of them.
    """
    texts = annotations(node)
    entries, problems = _entries(texts.get(NODE_DEVICES, "").strip())
    scores, unread = read_pair_scores(texts.get(keys.PAIR_SCORES))
    problems += unread
    cards: dict[str, Card] = {}
    for position, entry in enumerate(entries):
        found = _card(node.metadata.name, entry)
        if isinstance(found, Card) and found.uuid not in cards:
            cards[found.uuid] = found
            continue
        problem = f"card {found.uuid} is listed twice" if isinstance(found, Card) else found
        problems.append(f"{NODE_DEVICES}, entry {position}: {problem}; ignored")
    withdrawn = is_zero((node.status.allocatable or {}).get(config.count, ""))
    cordoned = {uuid.strip() for uuid in texts.get(keys.CORDON, "").split(",")} & cards.keys()
    reasons = dict.fromkeys(cordoned, f"{keys.CORDON} names it")
    if cards and withdrawn:
        zero = f"allocatable {config.count} is 0: HAMi's device plugin does not run"
        problems.append(zero)
        reasons = dict.fromkeys(cards, zero) | reasons
    problems += [
        f"card {card.uuid} is in mode {keys.MIG} and lists no migProfiles, as before HAMi 2.10"
        for card in cards.values()
        if card.mode is Mode.MIG and not card.geometry.layouts
    ]
    problems += [f"{keys.CORDON}: no pod gets card {uuid} any more" for uuid in sorted(cordoned)]
    return NodeDescription(
        cards=tuple(
            replace(
                card,
                healthy=card.healthy and card.uuid not in cordoned,
                links=links(card, scores),
                dialects=frozenset() if withdrawn else frozenset({keys.NAME}),
                problem=reasons.get(card.uuid, ""),
            )
            for card in sorted(cards.values(), key=lambda card: (card.index, card.uuid))
        ),
        precision=MIB,
        scores=scores,
        problems=tuple(problems),
        source="HAMi",
    )


def _entries(text: str) -> tuple[Sequence[object], list[str]]:
    """Return the entries of the text, one for each card, not yet validated, and problems."""
    if not text.startswith(("[", "null")):
        written = [entry for entry in text.split(":") if entry.strip()]
        return [_fields(number, entry) for number, entry in enumerate(written)], []
    try:
        return _ENTRIES.decode(text) or [], []
    except UnreadableError as error:
        return [], [f"{NODE_DEVICES} is not a list of cards: {error}"]


def _fields(number: int, entry: str) -> dict[str, object] | str:
    """Return an entry of the older format, with the keys of the newer one.

    Or what is wrong with it.

    Without an index, a card has the number of its entry: plugins list cards by index.
    """
    fields = [field.strip() for field in entry.split(",")]
    if len(fields) not in (_SHORT, _LONG):
        return f"has {len(fields)} fields, not {_SHORT} or {_LONG}"
    uuid, count, memory, compute, kind, numa, health = fields[:_SHORT]
    index, mode = fields[_SHORT:] or (str(number), "")
    if health not in _FLAGS:
        return f"has health {health!r}, not true or false"
    found: dict[str, object] = {"id": uuid, "type": kind, "mode": mode, "health": _FLAGS[health]}
    numbers = {"count": count, "devmem": memory, "devcore": compute, "numa": numa, "index": index}
    for name, digits in numbers.items():
        if _NUMBER.fullmatch(digits) is None:
            return f"has {name} {digits!r}, not a whole number"
        found[name] = int(digits)
    return found


def _card(node: str, entry: object) -> Card | str:
    if isinstance(entry, str):
        return entry
    try:
        device = convert(entry, _NvidiaDevice)
    except UnreadableError as error:
        return str(error)
    if not is_card_uuid(device.id):
        return f"{device.id!r} is not a valid card uuid"
    if _NVIDIA not in device.type:
        return f"has type {device.type!r}, which is not an {_NVIDIA} card"
    if device.mode not in _MODES:
        return f"has mode {device.mode!r}, not {', '.join(mode for mode in _MODES if mode)}"
    return Card(
        uuid=device.id,
        node=node,
        index=device.index,
        vendor=keys.VENDOR,
        model=device.type.removeprefix(f"{_NVIDIA}-"),
        memory=device.devmem * MIB,
        slots=device.count,
        healthy=device.health,
        mode=_MODES[device.mode],
        numa=device.numa if device.numa > 0 else None,
        names=(device.type,),
        geometry=_geometry(device),
        compute=FULL if _MODES[device.mode] is Mode.MIG else device.devcore,
    )


def _geometry(device: _NvidiaDevice) -> Geometry:
    """Return one layout for each profile: all places where NVML says that it may be.

    HAMi's device plugin makes instances one by one, of any profile. Its scheduler places those of
    one and three compute slices from the end of the card.
    Source: nvidia/mig_topology.go, orderedMigPlacements.
    """
    if _MODES[device.mode] is not Mode.MIG:
        return NO_GEOMETRY
    return Geometry(
        tuple(
            MigLayout(
                profile.name,
                tuple(
                    Slice(
                        profile=profile.name,
                        start=place.start,
                        size=place.size,
                        memory=profile.memory * MIB,
                        compute=profile.core,
                        layout=profile.name,
                        position=position,
                    )
                    for position, place in enumerate(
                        sorted(
                            profile.placements or (),
                            key=lambda place: place.start,
                            reverse=profile.name.startswith(_FROM_THE_END),
                        )
                    )
                ),
            )
            for profile in device.profiles or ()
        ),
        mixed=bool(device.profiles),
    )


_NVLINK = 100
_ONE_SWITCH = 50

PairScores = Mapping[str, Mapping[str, int]]
"""Scores of pairs of cards, by the uuid of one and of the other."""


class _Scores(msgspec.Struct, frozen=True):
    uuid: str = ""
    score: dict[str, Int64] | None = None


_decoder: Decoder[list[_Scores] | None] = Decoder(list[_Scores] | None)


def read_pair_scores(text: str | None) -> tuple[PairScores, list[str]]:
    """Read the scores of a node, and what is wrong with them as a sentence."""
    if text is None:
        return {}, []
    try:
        found = _decoder.decode(text) or []
    except UnreadableError as error:
        return {}, [f"{keys.PAIR_SCORES} is not a list of scores: {error}"]
    return {each.uuid: each.score or {} for each in found}, []


def links(card: Card, scores: PairScores) -> tuple[Scope, ...]:
    """Return the scopes of a card.

    Cards with NVLinks between them, also over others, are one scope; so are cards at one switch.
    HAMi compares NUMA nodes as numbers, also where 0 means unknown.
    """
    switched = _component(card.uuid, scores, lambda score: score % _NVLINK >= _ONE_SWITCH)
    linked = _component(card.uuid, scores, lambda score: score >= _NVLINK)
    return (
        Scope(Level.NUMA, str(card.numa or 0)),
        *((Scope(Level.PCIE, switched),) if switched else ()),
        *((Scope(Level.LINK, linked),) if linked else ()),
    )


def _component(uuid: str, scores: PairScores, joined: Callable[[int], bool]) -> str | None:
    """Return the smallest uuid of the cards that are joined with a card; None where none is."""
    found, left = {uuid}, [uuid]
    while left:
        near = {other for other, score in scores.get(left.pop(), {}).items() if joined(score)}
        left += near - found
        found |= near
    return min(found) if len(found) > 1 else None
