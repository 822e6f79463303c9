"""NVIDIA's cards as HAMi's device plugin describes them in an annotation of the node.

HAMi is not a dialect: no pod gets a card by this annotation. But pods that HAMi's scheduler bound
use such cards, and the ledger must know these cards before another dialect allocates them.

The text is a JSON list that omits values of 0 and false; older plugins write
``(id,count,devmem,devcore,type,numa,health[,index,mode]:)*``. Memory is in MiB. Compute is 100
unless the operator overcommits it, which Dragoman ignores.
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
_MAX = 2**31 - 1
_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_FLAGS = {"true": True, "false": False}
_SHORT, _LONG = 7, 9

_Number = Annotated[int, msgspec.Meta(ge=0, le=_MAX)]
_Many = Annotated[int, msgspec.Meta(ge=1, le=_MAX)]


class _NvidiaDevice(msgspec.Struct, frozen=True):
    id: str
    count: _Many
    devmem: _Many
    type: str
    index: _Number = 0
    numa: int = 0
    mode: str = ""
    health: bool = False


def read_hami_node(node: KubeNode) -> NodeDescription:
    """Read the cards of a node; an invalid entry becomes a problem.

    HAMi also writes NUMA node 0 where it does not know the NUMA node, so 0 means unknown.

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
        problem = f"card {found.uuid} is listed twice" if isinstance(found, Card) else found
        problems.append(f"{NODE_DEVICES}, entry {position}: {problem}; ignored")
    return NodeDescription(
        cards=tuple(sorted(cards.values(), key=lambda card: (card.index, card.uuid))),
        precision=MIB,
        problems=tuple(problems),
        source=NAME,
    )


def _entries(text: str) -> tuple[Sequence[object], list[str]]:
    """The entries of the text, one for each card, not yet validated, and problems."""
    if not text.startswith(("[", "null")):
        return [_fields(entry) for entry in text.split(":") if entry.strip()], []
    try:
        return msgspec.json.decode(text, type=list[object] | None) or [], []
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        return [], [f"{NODE_DEVICES} is not a list of cards: {error}"]


def _fields(entry: str) -> dict[str, object] | str:
    """An entry of the older format, with the keys of the newer one; or what is wrong with it."""
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
        device = msgspec.convert(entry, _NvidiaDevice)
    except msgspec.ValidationError as error:
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
        vendor="nvidia",
        model=device.type.removeprefix(f"{_NVIDIA}-"),
        memory=device.devmem * MIB,
        slots=device.count,
        healthy=device.health,
        mode=_MODES[device.mode],
        numa=device.numa if device.numa > 0 else None,
        names=(device.type,),
    )
