"""NVIDIA's cards as HAMi's device plugin describes them on a node.

HAMi is no vocabulary here: nobody can ask for a card because of it. But pods of HAMi hold such
cards, and what one holds must be known before somebody else is given any of it.

The text is a JSON list, in which what is 0 or false is left out; of older plugins it is
``(id,count,devmem,devcore,type,numa,health[,index,mode]:)*``. Memory is in MiB. Compute is 100
unless the operator oversells it, which is not followed.
Source: HAMi v2.10.0 pkg/device-plugin/nvidiadevice/nvinternal/plugin/register.go and
pkg/device/devices.go, DeviceInfo, MarshalNodeDevices, and DecodeNodeDevices for the older text
(a whole one stands in volcano-sh/volcano issue 4511).
"""

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from adapters.dialects.dialect import NodeDescription
from adapters.dialects.hami_record import is_card_uuid
from adapters.wire.kube import KubeNode, annotations
from core.hardware.card import Card, Mode
from core.hardware.quantity import MIB

# HAMi v2.10.0 pkg/device/nvidia/device.go, RegisterAnnos; the same since v2.4
NODE_DEVICES = "hami.io/node-nvidia-register"

NAME = "HAMi"

# HAMi v2.10.0 pkg/device/nvidia/device.go; mps is shared by the driver, by memory and compute too.
_MODES = {"": Mode.SHARED, "hami-core": Mode.SHARED, "mps": Mode.SHARED, "mig": Mode.MIG}
_NVIDIA = "NVIDIA"
_MOST = 2**31 - 1
_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_FLAGS = {"true": True, "false": False}
_SHORT, _LONG = 7, 9

_Number = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
_Many = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]


class _Device(msgspec.Struct, frozen=True):
    id: str
    count: _Many
    devmem: _Many
    type: str
    index: _Number = 0
    numa: int = 0
    mode: str = ""
    health: bool = False


def read_hami_node(node: KubeNode) -> NodeDescription:
    """The cards of a node; what cannot be read is left out and told.

    NUMA node 0 is also written where the node is not known, so that it says nothing.

    Args:
        node: the node.
    """
    text = annotations(node).get(NODE_DEVICES, "").strip()
    entries, problems = _entries(text)
    cards: dict[str, Card] = {}
    for position, entry in enumerate(entries):
        found = _card(node.metadata.name, entry)
        if isinstance(found, Card) and found.uuid not in cards:
            cards[found.uuid] = found
            continue
        problem = f"card {found.uuid} stands there twice" if isinstance(found, Card) else found
        problems.append(f"{NODE_DEVICES}, entry {position}: {problem}; left out")
    return NodeDescription(
        cards=tuple(sorted(cards.values(), key=lambda card: (card.index, card.uuid))),
        precision=MIB,
        problems=tuple(problems),
        source=NAME,
    )


def _entries(text: str) -> tuple[Sequence[object], list[str]]:
    """What stands there, one for each card, whatever it is."""
    if not text.startswith(("[", "null")):
        return [_fields(entry) for entry in text.split(":") if entry.strip()], []
    try:
        return msgspec.json.decode(text, type=list[object] | None) or [], []
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        return [], [f"{NODE_DEVICES} is no list of cards: {error}"]


def _fields(entry: str) -> dict[str, object] | str:
    """An entry of the older text, with the words of the newer one."""
    fields = [field.strip() for field in entry.split(",")]
    if len(fields) not in (_SHORT, _LONG):
        return f"has {len(fields)} fields, not {_SHORT} or {_LONG}"
    uuid, count, memory, _, kind, numa, health = fields[:_SHORT]
    index, mode = fields[_SHORT:] or ("0", "")
    if health not in _FLAGS:
        return f"has health {health!r}, not true or false"
    found: dict[str, object] = {"id": uuid, "type": kind, "mode": mode, "health": _FLAGS[health]}
    for name, number in (("count", count), ("devmem", memory), ("numa", numa), ("index", index)):
        if _NUMBER.fullmatch(number) is None:
            return f"has {name} {number!r}, not a whole number"
        found[name] = int(number)
    return found


def _card(node: str, entry: object) -> Card | str:
    if isinstance(entry, str):
        return entry
    try:
        device = msgspec.convert(entry, _Device)
    except msgspec.ValidationError as error:
        return str(error)
    if not is_card_uuid(device.id):
        return f"{device.id!r} cannot be a card's uuid"
    if _NVIDIA not in device.type:
        return f"has type {device.type!r}, which is no {_NVIDIA} card"
    if device.mode not in _MODES:
        return f"has mode {device.mode!r}, not {', '.join(mode for mode in _MODES if mode)}"
    return Card(
        uuid=device.id,
        node=node,
        index=device.index,
        vendor="nvidia",
        model=device.type.removeprefix(f"{_NVIDIA}-"),
        memory=device.devmem * MIB,
        slots=device.count,
        healthy=device.health,
        mode=_MODES[device.mode],
        numa=device.numa if device.numa > 0 else None,
        names=(device.type,),
    )
