"""Reads the MIG instances of NVIDIA's cards, through NVML.

It needs driver 510 or later, which reports the names of profiles.
"""

import ctypes
from dataclasses import dataclass

from adapters.agent.hardware.nvml import Nvml, NvmlError, NvmlReturn
from core.hardware.mig_repartition import GpuInstancePlacement

ON = 1
_NAME = 96
PROFILES = 18
"""NVML_GPU_INSTANCE_PROFILE_COUNT: numbers of profiles, of which a card supports some."""
COMPUTE_PROFILES = 9
"""NVML_COMPUTE_INSTANCE_PROFILE_COUNT."""
SHARED_ENGINES = 0

_UNSUPPORTED = frozenset(
    {NvmlReturn.NOT_SUPPORTED, NvmlReturn.INVALID_ARGUMENT, NvmlReturn.NOT_FOUND}
)


class PlacementStruct(ctypes.Structure):
    """``nvmlGpuInstancePlacement_t``."""

    _fields_ = (("start", ctypes.c_uint), ("size", ctypes.c_uint))


class InstanceInfo(ctypes.Structure):
    """``nvmlGpuInstanceInfo_t``."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("id", ctypes.c_uint),
        ("profile_id", ctypes.c_uint),
        ("placement", PlacementStruct),
    )


class Profile(ctypes.Structure):
    """``nvmlGpuInstanceProfileInfo_v2_t``."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("id", ctypes.c_uint),
        ("is_p2p_supported", ctypes.c_uint),
        ("slice_count", ctypes.c_uint),
        ("instance_count", ctypes.c_uint),
        ("engines", ctypes.c_uint * 6),
        ("memory_mib", ctypes.c_ulonglong),
        ("name", ctypes.c_char * _NAME),
    )


PROFILE_VERSION = ctypes.sizeof(Profile) | 2 << 24


class ComputeProfile(ctypes.Structure):
    """``nvmlComputeInstanceProfileInfo_t``."""

    _fields_ = (
        ("id", ctypes.c_uint),
        ("slice_count", ctypes.c_uint),
        ("instance_count", ctypes.c_uint),
        ("engines", ctypes.c_uint * 6),
    )


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A compute instance that a container can get.

    Attributes:
        name: as NVML reports it, such as ``NVIDIA A100-SXM4-40GB MIG 1g.5gb``.
        compute_instance: its number in the GPU instance.
    """

    uuid: str
    name: str
    compute_instance: int


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A GPU instance of a card.

    Attributes:
        number: on the card.
        placement: its profile and place.
        devices: of its compute instances; empty where its creation was interrupted.
    """

    number: int
    placement: GpuInstancePlacement
    devices: tuple[MigDevice, ...] = ()

    @property
    def whole(self) -> MigDevice | None:
        """The device that has the entire instance; None where no device has."""
        end = f" {self.placement.profile}"
        return next((device for device in self.devices if device.name.endswith(end)), None)


@dataclass(frozen=True, slots=True)
class NvmlMigReader:
    """Reads the instances of cards. Hold ``nvml.lock`` for several calls that belong together."""

    nvml: Nvml

    def instances(self, uuid: str) -> tuple[GpuInstance, ...] | None:
        """The GPU instances of a card, by their start; None where it is not in MIG mode.

        Raises:
            NvmlError: a call fails.
        """
        with self.nvml.lock:
            card = self.nvml.handle_of(uuid)
            if not self.is_enabled(card):
                return None
            devices = self._devices(card)
            found = [
                GpuInstance(number, placement, tuple(devices.get(number, ())))
                for number, placement, _ in self.gpu_instances(card)
            ]
        return tuple(sorted(found, key=lambda instance: instance.placement.start))

    def is_enabled(self, card: ctypes.c_void_p) -> bool:
        """Whether a card is in MIG mode."""
        now, later = ctypes.c_uint(), ctypes.c_uint()
        try:
            self.nvml.call("nvmlDeviceGetMigMode", card, ctypes.byref(now), ctypes.byref(later))
        except NvmlError as error:
            if error.code in (NvmlReturn.NOT_SUPPORTED, None):
                return False  # a card or a library without MIG
            raise
        return now.value == ON

    def profiles(self, card: ctypes.c_void_p) -> dict[str, Profile]:
        """The profiles that the card supports, by name."""
        found: dict[str, Profile] = {}
        for number in range(PROFILES):
            profile = Profile(version=PROFILE_VERSION)
            try:
                self.nvml.call(
                    "nvmlDeviceGetGpuInstanceProfileInfoV",
                    card,
                    ctypes.c_uint(number),
                    ctypes.byref(profile),
                )
            except NvmlError as error:
                if error.code in _UNSUPPORTED:
                    continue
                raise
            name = profile.name.decode("utf-8", "replace").removeprefix("MIG ")
            found.setdefault(name, profile)
        return found

    def gpu_instances(
        self, card: ctypes.c_void_p
    ) -> list[tuple[int, GpuInstancePlacement, ctypes.c_void_p]]:
        """Number, placement and handle of each GPU instance."""
        found: list[tuple[int, GpuInstancePlacement, ctypes.c_void_p]] = []
        for name, profile in self.profiles(card).items():
            handles = (ctypes.c_void_p * max(profile.instance_count, 1))()
            count = ctypes.c_uint(len(handles))
            self.nvml.call(
                "nvmlDeviceGetGpuInstances",
                card,
                ctypes.c_uint(profile.id),
                handles,
                ctypes.byref(count),
            )
            for handle in handles[: count.value]:
                info = InstanceInfo()
                instance = ctypes.c_void_p(handle)
                self.nvml.call("nvmlGpuInstanceGetInfo", instance, ctypes.byref(info))
                place = info.placement
                found.append(
                    (info.id, GpuInstancePlacement(name, place.start, place.size), instance)
                )
        return found

    def _devices(self, card: ctypes.c_void_p) -> dict[int, list[MigDevice]]:
        """The MIG devices of each GPU instance."""
        nvml = self.nvml
        found: dict[int, list[MigDevice]] = {}
        for place in range(nvml.number("nvmlDeviceGetMaxMigDeviceCount", card)):
            handle = self.device_at(card, place)
            if handle is not None:
                number = nvml.number("nvmlDeviceGetGpuInstanceId", handle)
                device = MigDevice(
                    nvml.uuid(handle),
                    nvml.text("nvmlDeviceGetName", handle),
                    nvml.number("nvmlDeviceGetComputeInstanceId", handle),
                )
                found.setdefault(number, []).append(device)
        return found

    def device_at(self, card: ctypes.c_void_p, place: int) -> ctypes.c_void_p | None:
        """The MIG device at a place of NVML's list; None where there is none."""
        handle = ctypes.c_void_p()
        try:
            self.nvml.call(
                "nvmlDeviceGetMigDeviceHandleByIndex",
                card,
                ctypes.c_uint(place),
                ctypes.byref(handle),
            )
        except NvmlError as error:
            if error.code == NvmlReturn.NOT_FOUND:
                return None
            raise
        return handle

    def is_busy(self, device: ctypes.c_void_p) -> bool:
        """Whether a process uses a card or MIG device; True where NVML does not report it."""
        count = ctypes.c_uint()
        try:
            self.nvml.call(
                "nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), None
            )
        except NvmlError:
            return True
        return count.value > 0

    def compute_instances(self, instance: ctypes.c_void_p) -> list[ctypes.c_void_p]:
        """The compute instances of a GPU instance."""
        found: list[ctypes.c_void_p] = []
        for profile in self.compute_profiles(instance):
            handles = (ctypes.c_void_p * max(profile.instance_count, 1))()
            count = ctypes.c_uint(len(handles))
            self.nvml.call(
                "nvmlGpuInstanceGetComputeInstances",
                instance,
                ctypes.c_uint(profile.id),
                handles,
                ctypes.byref(count),
            )
            found += [ctypes.c_void_p(handle) for handle in handles[: count.value]]
        return found

    def compute_profiles(self, instance: ctypes.c_void_p) -> list[ComputeProfile]:
        """The profiles of compute instances that a GPU instance supports."""
        found: dict[int, ComputeProfile] = {}
        for number in range(COMPUTE_PROFILES):
            profile = ComputeProfile()
            try:
                self.nvml.call(
                    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
                    instance,
                    ctypes.c_uint(number),
                    ctypes.c_uint(SHARED_ENGINES),
                    ctypes.byref(profile),
                )
            except NvmlError as error:
                if error.code in _UNSUPPORTED:
                    continue
                raise
            found.setdefault(profile.id, profile)
        return list(found.values())
