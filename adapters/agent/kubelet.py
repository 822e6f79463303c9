"""The devices that the kubelet assigned to containers, from its checkpoint file.

A pod that NVIDIA's own device plugin, or Volcano's older one, serves has no record of its cards;
only the kubelet knows them. The agent reports them for pods whose cards the ledger does not know,
and writes nothing for other pods.

The kubelet writes a new file beside the old one and renames it, before the container starts; it
removes an entry some time after its pod. The checksum is over a printed Go value, so that no other
program can verify it. Unlike the kubelet's podresources service the file names pods by uid, and
contains the device plugin's answer. Source: kubernetes v1.37.1, in pkg/kubelet/cm/devicemanager
checkpoint/checkpoint.go (this form since v1.20) and manager.go, writeCheckpoint; k8s.io/kubelet
pkg/apis/deviceplugin/v1beta1/api.proto, ContainerAllocateResponse, and constants.go for the folder.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.model import Hardware
from adapters.agent.hook.facts import VISIBLE_DEVICES, GivenDevices, names_card
from adapters.agent.log import log_event
from adapters.agent.nri.protobuf import ProtobufError, entry, nested
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.records.hardware import DeviceHolding, is_reported
from core.requests.grant import KUBELET

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"

MAX_FILE = 64 << 20
"""Bytes of the largest file that is read; a plugin may have tens of thousands of devices."""

INTERVAL = 2.0
"""Seconds between two readings, while there is a pod whose cards the ledger does not know."""

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


def read_checkpoint(data: bytes) -> tuple[DeviceAssignment, ...]:
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
    """The latest valid content of the checkpoint; from any thread."""

    path: Path
    _known: tuple[DeviceAssignment, ...] = ()
    _version: tuple[int, ...] = ()
    _problem: str = field(default="")

    def read(self) -> tuple[DeviceAssignment, ...]:
        """Return all assignments; an invalid file leaves the known ones, which pods keep."""
        problem = ""
        try:
            stat = self.path.stat()
            version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if version != self._version:
                with self.path.open("rb") as file:
                    self._known = read_checkpoint(file.read(MAX_FILE + 1))
                self._version = version
        except (OSError, CheckpointError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            log_event("kubelet_checkpoint.invalid", reason=problem)
        self._problem = problem
        return self._known

    def given(self, pod: str, container: str) -> GivenDevices:
        """Return what device plugins gave a container, by uid of its pod and its name.

        The kubelet writes the file before it creates the container.
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


def holdings(
    assignments: Sequence[DeviceAssignment], hardware: Hardware, pods: Collection[str]
) -> tuple[DeviceHolding, ...]:
    """Return the cards of some pods; none of a container whose cards are unknown or ambiguous.

    The cards that the plugin made visible by uuid count, or else by number, as NVML numbers them:
    the devices of HAMi's and Volcano's plugins are interchangeable for the kubelet, and the plugin
    gives the container what a scheduler chose. Where the plugin sets no visible cards, the
    kubelet's devices count. ``pods`` are uids.
    """
    cards = [card for card in hardware.cards if card.vendor == "nvidia"]
    names = {slot.uuid: key[0] for key, slot in hardware.instances.items()}
    names |= {card.uuid: card.uuid for card in cards}
    numbers = {str(card.index): card.uuid for card in cards}
    if len(numbers) < len(cards):  # two cards have the same number
        numbers = {}
    found: list[DeviceHolding] = []
    for one in assignments:
        if one.pod not in pods or not is_reported(one.resource):
            continue
        held = devices = _all(one.without_replicas, names)
        if any(map(names_card, one.visible)) and not (held := _all(one.visible, names)):
            held = _all(one.visible, numbers)
            if devices and devices != held:
                continue
        if held:
            shared, cards_held = held != set(one.devices), tuple(sorted(held))
            count = len(one.devices)
            found.append(
                DeviceHolding(one.pod, one.container, one.resource, count, cards_held, shared)
            )
    return tuple(sorted(found, key=lambda each: (each.pod, each.container, each.resource)))


def _all(words: Sequence[str], known: Mapping[str, str]) -> set[str]:
    """Look up words; nothing where any of them is unknown."""
    return {known[word] for word in words} if known.keys() >= set(words) else set()


@dataclass(slots=True)
class KubeletDevices:
    """Follows the kubelet's device assignments.

    Attributes:
        subscribers: called after ``found`` has changed.
        found: the cards to report; None as long as the ledger is not known.
    """

    assignments: KubeletAssignments
    grants: LedgerGrants
    hardware: Callable[[], Hardware]
    subscribers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    found: tuple[DeviceHolding, ...] | None = None
    _read: tuple[DeviceAssignment, ...] = ()

    async def run(self) -> None:
        """Update every ``INTERVAL``, and at once when the ledger has changed, until cancelled."""
        while True:
            change = self.grants.next_change()
            if self._pods():
                self._read = await asyncio.to_thread(self.assignments.read)
            self.update()
            with suppress(TimeoutError):
                await asyncio.wait_for(change, INTERVAL)

    def update(self) -> None:
        """Compute ``found``; no effect before the ledger is known."""
        if not self.grants.known:
            return
        found = holdings(self._read, self.hardware(), self._pods())
        if found != self.found:
            self.found = found
            for notify in self.subscribers:
                notify()

    def _pods(self) -> frozenset[str]:
        """List the pods whose cards the ledger does not know, or knows from this agent."""
        ledger = self.grants.ledger
        allocations = {} if ledger is None else ledger.allocations
        return frozenset(
            uid
            for uid, held in allocations.items()
            if held.unread is not None or held.dialect == KUBELET
        )
