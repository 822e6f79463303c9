"""The devices that the kubelet assigned to containers, from its checkpoint file.

The kubelet writes a new file beside the old one and renames it, before the container starts; it
removes an entry some time after its pod. The checksum is over a printed Go value, so that no other
program can verify it. Unlike the kubelet's podresources service the file names pods by uid, and
contains the device plugin's answer. Source: kubernetes v1.37.1, in pkg/kubelet/cm/devicemanager
checkpoint/checkpoint.go (this form since v1.20) and manager.go, writeCheckpoint; k8s.io/kubelet
pkg/apis/deviceplugin/v1beta1/api.proto, ContainerAllocateResponse, and constants.go for the folder.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from adapters.agent.hook.facts import VISIBLE_DEVICES, GivenDevices, names_card
from adapters.agent.log import log_event
from adapters.agent.nri.protobuf import ProtobufError, entry, nested
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.records.hardware import is_reported

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"

MAX_FILE = 64 << 20
"""Bytes of the largest file that is read; a plugin may have tens of thousands of devices."""

_ENVS = 1

_REPLICA = "::"
"""Before a replica's number in a device's id (NVIDIA k8s-device-plugin internal/rm/devices.go)."""


class CheckpointError(ValueError):
    """The bytes are not a valid checkpoint."""


@dataclass(frozen=True, slots=True)
class DeviceAssignment:
    """Devices of one resource that the kubelet assigned to one container.

    Attributes:
        pod: uid.
        container: its name.
        resource: such as ``nvidia.com/gpu``.
        devices: the device plugin's ids, sorted, each once.
        visible: the items of ``NVIDIA_VISIBLE_DEVICES`` in the device plugin's answer.
    """

    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]
    visible: tuple[str, ...] = ()

    @property
    def without_replicas(self) -> tuple[str, ...]:
        """The device behind each id; the same more than once where it has several replicas."""
        return tuple(device.split(_REPLICA)[0] for device in self.devices)


class _Entry(msgspec.Struct, frozen=True, rename="pascal"):
    """``DeviceIDs`` is by NUMA node; a device that is near to several is listed under each."""

    pod_uid: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[str, tuple[str, ...] | None] | None = msgspec.field(name="DeviceIDs")
    alloc_resp: bytes | None = None


class _Data(msgspec.Struct, frozen=True, rename="pascal"):
    pod_device_entries: tuple[_Entry, ...] | None


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    data: _Data


_decoder = Decoder(_File)


def read(data: bytes) -> tuple[DeviceAssignment, ...]:
    """Read all device assignments in a checkpoint.

    Raises:
        CheckpointError: any part of the file is invalid.
    """
    if len(data) > MAX_FILE:
        raise CheckpointError(f"invalid kubelet checkpoint: more than {MAX_FILE} bytes")
    try:
        entries = _decoder.decode(data).data.pod_device_entries
        found: list[DeviceAssignment] = []
        for one in entries or ():
            devices = {device for near in (one.device_ids or {}).values() for device in near or ()}
            answer = nested(one.alloc_resp or b"")
            envs = dict(entry(value) for number, value in answer if number == _ENVS)
            items = [item.strip() for item in envs.get(VISIBLE_DEVICES, "").split(",")]
            found.append(
                DeviceAssignment(
                    one.pod_uid,
                    one.container_name,
                    one.resource_name,
                    tuple(sorted(devices)),
                    tuple(filter(None, items)),
                )
            )
        return tuple(found)
    except (UnreadableError, ProtobufError) as error:
        raise CheckpointError(f"invalid kubelet checkpoint: {error}") from error


@dataclass(slots=True)
class KubeletAssignments:
    """The latest valid content of the checkpoint; from any thread.

    Attributes:
        path: of the file.
    """

    path: Path
    _known: tuple[DeviceAssignment, ...] = ()
    _version: tuple[int, ...] = ()
    _problem: str = field(default="")

    def read(self) -> tuple[DeviceAssignment, ...]:
        """Return all assignments.

        An invalid file leaves the known ones: they are by uid, and a pod keeps its devices.
        """
        problem = ""
        try:
            stat = self.path.stat()
            version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if version != self._version:
                with self.path.open("rb") as file:
                    self._known = read(file.read(MAX_FILE + 1))
                self._version = version
        except (OSError, CheckpointError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            log_event("kubelet_checkpoint.invalid", reason=problem)
        self._problem = problem
        return self._known

    def given(self, pod: str, container: str) -> GivenDevices:
        """Return what device plugins gave a container.

        The kubelet writes the file before it creates the container.

        Args:
            pod: uid.
            container: its name.
        """
        own = [one for one in self.read() if one.pod == pod and one.container == container]
        return GivenDevices(
            frozenset(word for one in own for word in one.visible if names_card(word)),
            frozenset(
                device
                for one in own
                if is_reported(one.resource) and not any(map(names_card, one.visible))
                for device in one.without_replicas
            ),
        )
