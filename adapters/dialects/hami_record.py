"""The two texts in which HAMi and the MetaX device plugin keep what a pod was given.

Both list the pod's containers in start order, one entry for each, empty where a container has no
card. Memory is in whole MiB. Source: HAMi v2.10.0 pkg/device/devices.go:451-556 and
pkg/device/metax/protocol.go:67-144.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from adapters.dialects.dialect import DialectError
from adapters.wire.kube import Text
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB
from core.requests.grant import Grant

# HAMi v2.10.0 pkg/device/metax/protocol.go:28
METAX_ALLOCATED = "metax-tech.com/gpu-devices-allocated"

# HAMi v2.10.0 pkg/device/nvidia/device.go; the same since v2.4
NVIDIA_ALLOCATED = "hami.io/vgpu-devices-allocated"

# HAMi v2.10.0 pkg/util/types.go:21; a label too: pkg/util/util.go:188
NODE_KEY = "hami.io/vgpu-node"
"""The node that the record is for. HAMi's vGPUmonitor finds the pods of its node by the label."""

# int32 in HAMi v2.10.0 pkg/device/metax/protocol.go:67-73
_MOST_MIB = 2**31 - 1
# Printable ASCII without the marks between devices and fields.
_UUID = re.compile("(?:(?![,:;])[!-~])+")
_NUMBER = re.compile("[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class HamiShare:
    """A share of one card, as a record tells it.

    Attributes:
        card: the card's uuid.
        memory: bytes, a whole number of MiB, 0 or more.
        compute: percent of the card, 0 to 100.
    """

    card: str
    memory: int
    compute: int


ContainerShares = tuple[tuple[HamiShare, ...], ...]
"""The shares of each container of a pod, in start order."""


class _Device(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    uuid: str
    compute: Annotated[int, msgspec.Meta(ge=0, le=FULL)] = 0
    v_ram: Annotated[int, msgspec.Meta(ge=0, le=_MOST_MIB)] = 0


def is_card_uuid(uuid: str) -> bool:
    """Whether both texts can name a card."""
    return _UUID.fullmatch(uuid) is not None


def check_node(said: Text, node: Node) -> None:
    """See that a record is for the node where its pod runs; HAMi writes it before it binds.

    Raises:
        DialectError: it is for another.
    """
    if said.get(NODE_KEY, node.name) != node.name:
        field = f"metadata.annotations[{NODE_KEY}]"
        raise DialectError(field, said[NODE_KEY], f"the pod is bound to {node.name}")


def encode_metax(containers: Sequence[Sequence[Grant]]) -> str:
    """What the MetaX device plugin reads under ``METAX_ALLOCATED``.

    Args:
        containers: the grants of every container of the pod, in start order.
    """
    return msgspec.json.encode(
        [
            [_Device(grant.card, grant.compute, grant.memory // MIB) for grant in grants]
            for grants in containers
        ]
    ).decode()


def decode_metax(text: str) -> ContainerShares:
    """The shares of a text that ``encode_metax`` could have written.

    Raises:
        DialectError: the text is none.
    """
    field = f"metadata.annotations[{METAX_ALLOCATED}]"
    try:
        found = msgspec.json.decode(text, type=list[list[_Device]])
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise DialectError(field, text, f"not a MetaX record: {error}") from None
    return _checked(
        field,
        text,
        [[HamiShare(d.uuid, d.v_ram * MIB, d.compute) for d in devices] for devices in found],
    )


def encode_devices(kind: str, containers: Sequence[Sequence[Grant]]) -> str:
    """HAMi's device string.

    Args:
        kind: HAMi's word for the sort of card.
        containers: the grants of every container of the pod, in start order.
    """
    return "".join(
        "".join(f"{g.card},{kind},{g.memory // MIB},{g.compute}:" for g in grants) + ";"
        for grants in containers
    )


def decode_devices(kind: str, field: str, text: str) -> ContainerShares:
    """The shares of a text that ``encode_devices`` could have written.

    Args:
        kind: HAMi's word for the sort of card.
        field: where the text stands, for the error.
        text: the text.

    Raises:
        DialectError: the text is none.
    """
    *segments, end = text.split(";")
    if end:
        raise DialectError(field, text, "must end with ';'")
    return _checked(
        field, text, [list(_segment(kind, field, text, segment)) for segment in segments]
    )


def _segment(kind: str, field: str, text: str, segment: str) -> list[HamiShare]:
    *devices, end = segment.split(":")
    if end:
        raise DialectError(field, text, "every device must end with ':'")
    return [_device(kind, field, text, device) for device in devices]


def _device(kind: str, field: str, text: str, device: str) -> HamiShare:
    match device.split(","):
        case [uuid, found, memory, compute] if (
            found == kind and _NUMBER.fullmatch(memory) and _NUMBER.fullmatch(compute)
        ):
            return HamiShare(uuid, int(memory) * MIB, int(compute))
        case _:
            raise DialectError(
                field, text, f"every device must read 'UUID,{kind},MEMORY,COMPUTE', in MiB and %"
            )


def _checked(field: str, text: str, containers: Sequence[Sequence[HamiShare]]) -> ContainerShares:
    for shares in containers:
        for share in shares:
            if not is_card_uuid(share.card):
                raise DialectError(field, text, f"{share.card!r} cannot be a card's uuid")
            if share.compute > FULL or share.memory > _MOST_MIB * MIB:
                raise DialectError(field, text, f"card {share.card} cannot give so much")
        if len({share.card for share in shares}) < len(shares):
            raise DialectError(field, text, "names a card twice for one container")
    return tuple(tuple(shares) for shares in containers)
