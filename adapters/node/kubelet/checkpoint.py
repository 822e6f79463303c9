"""What the kubelet has given to containers, out of the file in which it keeps that.

The kubelet writes the file anew beside the old one and renames it, before the container starts; an
entry goes some time after its pod. Its checksum is over a printed Go value, so that nobody else can
verify it. Unlike the kubelet's podresources service the file names pods by uid, and has what the
device plugin answered. Source: kubernetes v1.37.1 pkg/kubelet/cm/devicemanager/checkpoint/
checkpoint.go (this form since v1.20) and manager.go, writeCheckpoint; k8s.io/kubelet
pkg/apis/deviceplugin/v1beta1/api.proto, ContainerAllocateResponse, and constants.go for the folder.
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from adapters.node.hook.other_injectors import VISIBLE_DEVICES
from adapters.node.nri.protobuf import ProtobufError, entry, nested

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"

MAX_FILE = 64 << 20
"""Bytes of a file that is read; a plugin may have tens of thousands of devices."""

_ENVS = 1


class CheckpointError(ValueError):
    """Bytes that are no such file."""


@dataclass(frozen=True, slots=True)
class DeviceAssignment:
    """Devices of one resource that one container was given.

    Attributes:
        pod: uid.
        container: its name.
        resource: such as ``nvidia.com/gpu``.
        devices: as the device plugin calls them, in order, each once.
        visible: the items of ``NVIDIA_VISIBLE_DEVICES``, as the device plugin answered it.
    """

    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]
    visible: tuple[str, ...] = ()


class _Entry(msgspec.Struct, frozen=True, rename="pascal"):
    """``DeviceIDs`` is by NUMA node; a device that is near to several stands under each."""

    pod_uid: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[str, tuple[str, ...] | None] | None = msgspec.field(name="DeviceIDs")
    alloc_resp: bytes | None = None


class _Data(msgspec.Struct, frozen=True, rename="pascal"):
    pod_device_entries: tuple[_Entry, ...] | None


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    data: _Data


_decoder = msgspec.json.Decoder(_File)


def read(data: bytes) -> tuple[DeviceAssignment, ...]:
    """What a file says, all of it.

    Raises:
        CheckpointError: any of it cannot be understood.
    """
    if len(data) > MAX_FILE:
        raise CheckpointError(f"no checkpoint of the kubelet: more than {MAX_FILE} bytes")
    try:
        found = _decoder.decode(data).data.pod_device_entries
        return tuple(map(_given, found or ()))
    except (msgspec.DecodeError, UnicodeDecodeError, ProtobufError) as error:
        raise CheckpointError(f"no checkpoint of the kubelet: {error}") from error


def _given(one: _Entry) -> DeviceAssignment:
    devices = {device for near in (one.device_ids or {}).values() for device in near or ()}
    envs = [entry(value) for number, value in nested(one.alloc_resp or b"") if number == _ENVS]
    visible = dict(envs).get(VISIBLE_DEVICES, "")
    return DeviceAssignment(
        one.pod_uid,
        one.container_name,
        one.resource_name,
        tuple(sorted(devices)),
        tuple(item.strip() for item in visible.split(",") if item.strip()),
    )
