"""The two formats in which HAMi and the MetaX device plugin record the allocation of a pod.

Both have one entry for each container of the pod, in start order; it is empty where a container
has no card. Memory is in whole MiB. Source: HAMi v2.10.0 pkg/device/devices.go:451-556 and
pkg/device/metax/protocol.go:67-144.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from adapters.dialects.dialect import DialectError
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import KubeNode, Text, annotations
from core.durations import SECOND
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB
from core.requests.grant import Grant

HAMI = "hami"
"""The dialect of the NVIDIA cards that HAMi's device plugin describes."""

# HAMi v2.10.0 pkg/device/metax/protocol.go:28
METAX_ALLOCATED = "metax-tech.com/gpu-devices-allocated"

# HAMi v2.10.0 pkg/device/metax/protocol.go:34,39-43
METAX_QOS = "metax-tech.com/sgpu-qos-policy"
"""The annotation with the QoS policy of a pod with a part of a card's compute."""
BEST_EFFORT = "best-effort"
"""The policy of a pod that sets none: pkg/device/metax/sdevice.go:107-126."""
QOS_POLICIES = (BEST_EFFORT, "fixed-share", "burst-share")

# HAMi v2.10.0 pkg/device/nvidia/device.go, InitNvidiaDevice; the same since v2.4
NVIDIA_ALLOCATED = "hami.io/vgpu-devices-allocated"
NVIDIA_TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
NVIDIA_KIND = "NVIDIA"
"""HAMi's name of the type of card in records of NVIDIA cards."""

# HAMi v2.10.0 pkg/device/nvidia/mig_allocations.go:26
MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"

# HAMi v2.10.0 pkg/device/nvidia/device.go, RegisterAnnos; the same since v2.4
NODE_DEVICES = "hami.io/node-nvidia-register"
"""NVIDIA cards of a node, as HAMi's device plugin describes them."""

# HAMi v2.10.0 pkg/util/types.go:21; a label too: pkg/util/util.go:188
NODE_KEY = "hami.io/vgpu-node"
"""The node of the record. HAMi's vGPUmonitor finds the pods of its node by the label."""

# HAMi v2.10.0 pkg/util/types.go:20-29
TIME = "hami.io/vgpu-time"
BIND_TIME = "hami.io/bind-time"
BIND_PHASE = "hami.io/bind-phase"
ALLOCATING = "allocating"
"""The bind phase that the scheduler writes; the device plugin writes the next ones."""

BIND_KEYS = frozenset({NODE_KEY, TIME, BIND_TIME, BIND_PHASE})
"""What HAMi's scheduler writes on each pod that it binds, whichever its cards."""

_MAX_LABEL_LENGTH = 63
"""Characters that Kubernetes allows in the value of a label."""

# int32 in HAMi v2.10.0 pkg/device/metax/protocol.go:67-73 and pkg/device/devices.go:163-175
MAX_MIB = 2**31 - 1
"""The largest amount of memory that a record can contain."""
# Printable ASCII without the separators of devices and fields.
_UUID = re.compile("(?:(?![,:;])[!-~])+")
_NUMBER = re.compile("[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class HamiShare:
    """A share of one card in a record.

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


class _MetaxShare(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    uuid: str
    compute: Annotated[int, msgspec.Meta(ge=0, le=FULL)] = 0
    v_ram: Annotated[int, msgspec.Meta(ge=0, le=MAX_MIB)] = 0


_METAX = Decoder(list[list[_MetaxShare]])


def is_card_uuid(uuid: str) -> bool:
    """Return whether both formats can contain this uuid."""
    return _UUID.fullmatch(uuid) is not None


def serves_node(node: KubeNode) -> bool:
    """Return whether HAMi's device plugin for NVIDIA cards describes a node.

    It finds the pod that it serves by the lock of its node, and by nothing else where several pods
    wait. Source: HAMi v2.10.0 pkg/util/util.go, GetPendingPod.
    """
    return NODE_DEVICES in annotations(node)


def check_node(texts: Text, node: Node) -> None:
    """Verify that a record is for the node where its pod runs; HAMi writes it before it binds.

    Raises:
        DialectError: it is for another node.
    """
    if texts.get(NODE_KEY, node.name) != node.name:
        field = f"metadata.annotations[{NODE_KEY}]"
        raise DialectError(field, texts[NODE_KEY], f"the pod is bound to {node.name}")


def bind_annotations(node: str, devices: Mapping[str, str], now: int) -> dict[str, str]:
    """Return what HAMi's scheduler writes on a pod that it binds.

    Source: HAMi v2.10.0 pkg/scheduler/scheduler.go:1024-1027, 1124-1126.

    Args:
        node: name of the node.
        devices: the annotations that name the cards of the pod.
        now: nanoseconds since 1970.
    """
    seconds = str(now // SECOND)
    return {NODE_KEY: node, TIME: seconds, **devices, BIND_PHASE: ALLOCATING, BIND_TIME: seconds}


def bind_labels(node: str) -> dict[str, str]:
    """Return the label of a pod that HAMi's scheduler binds; none for a name too long for one."""
    return {NODE_KEY: node} if len(node) <= _MAX_LABEL_LENGTH else {}


def encode_metax(containers: Sequence[Sequence[Grant]]) -> str:
    """Write the annotation ``METAX_ALLOCATED``, which the MetaX device plugin reads.

    Args:
        containers: the grants of every container of the pod, in start order.
    """
    return msgspec.json.encode(
        [
            [_MetaxShare(grant.card, grant.compute, grant.memory // MIB) for grant in grants]
            for grants in containers
        ]
    ).decode()


def decode_metax(text: str) -> ContainerShares:
    """Read the shares of a text in the format of ``encode_metax``.

    Raises:
        DialectError: the text does not have this format.
    """
    field = f"metadata.annotations[{METAX_ALLOCATED}]"
    try:
        found = _METAX.decode(text)
    except UnreadableError as error:
        raise DialectError(field, text, f"not a MetaX record: {error}") from None
    return _checked(
        field,
        text,
        [[HamiShare(d.uuid, d.v_ram * MIB, d.compute) for d in devices] for devices in found],
    )


def encode_devices(kind: str, containers: Sequence[Sequence[Grant]]) -> str:
    """Write HAMi's device string.

    Args:
        kind: HAMi's name of the type of card.
        containers: the grants of every container of the pod, in start order.
    """
    return "".join(
        "".join(f"{g.card},{kind},{g.memory // MIB},{g.compute}:" for g in grants) + ";"
        for grants in containers
    )


def decode_devices(
    kind: str, field: str, text: str, *, several_slices: bool = False
) -> ContainerShares:
    """Read the shares of a text in the format of ``encode_devices``.

    Args:
        kind: HAMi's name of the type of card.
        field: path of the text, for the error.
        text: the text.
        several_slices: a list may name a card several times: once for each MIG slice.

    Raises:
        DialectError: the text does not have this format.
    """
    *segments, end = text.split(";")
    if end:
        raise DialectError(field, text, "must end with ';'")
    containers: list[list[HamiShare]] = []
    for segment in segments:
        *devices, end = segment.split(":")
        if end:
            raise DialectError(field, text, "every device must end with ':'")
        shares: list[HamiShare] = []
        for device in devices:
            fields = device.split(",")
            if len(fields) != 4 or fields[1] != kind or not all(map(_NUMBER.fullmatch, fields[2:])):
                shape = f"'UUID,{kind},MEMORY,COMPUTE'"
                raise DialectError(field, text, f"every device must read {shape}, in MiB and %")
            shares.append(HamiShare(fields[0], int(fields[2]) * MIB, int(fields[3])))
        containers.append(shares)
    return _checked(field, text, containers, several_slices=several_slices)


def _checked(
    field: str,
    text: str,
    containers: Sequence[Sequence[HamiShare]],
    *,
    several_slices: bool = False,
) -> ContainerShares:
    for shares in containers:
        for share in shares:
            if not is_card_uuid(share.card):
                raise DialectError(field, text, f"{share.card!r} is not a valid card uuid")
            if share.compute > FULL or share.memory > MAX_MIB * MIB:
                raise DialectError(
                    field, text, f"card {share.card} has less than this record states"
                )
        if not several_slices and len({share.card for share in shares}) < len(shares):
            raise DialectError(field, text, "names a card twice for one container")
    return tuple(tuple(shares) for shares in containers)
