"""Reads and changes the MIG instances of NVIDIA's cards, through NVML.

It needs driver 510 or later, which reports the names of profiles. Source of the order in which
instances are created and destroyed: NVIDIA Multi-Instance GPU User Guide, "Creating GPU Instances".
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.node.hardware.nvml import Nvml, NvmlError, NvmlReturn
from core.hardware.mig_repartition import GpuInstancePlacement

_ON = 1
_NAME = 96
_PROFILES = 18
"""NVML_GPU_INSTANCE_PROFILE_COUNT: numbers of profiles, of which a card supports some."""
_COMPUTE_PROFILES = 9
"""NVML_COMPUTE_INSTANCE_PROFILE_COUNT."""
_SHARED_ENGINES = 0

_UNSUPPORTED = frozenset(
    {NvmlReturn.NOT_SUPPORTED, NvmlReturn.INVALID_ARGUMENT, NvmlReturn.NOT_FOUND}
)


class _Placement(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint), ("size", ctypes.c_uint))


class _InstanceInfo(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.c_void_p),
        ("id", ctypes.c_uint),
        ("profile_id", ctypes.c_uint),
        ("placement", _Placement),
    )


class _Profile(ctypes.Structure):
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


_PROFILE_VERSION = ctypes.sizeof(_Profile) | 2 << 24


class _ComputeProfile(ctypes.Structure):
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


class MigError(RuntimeError):
    """A card cannot be partitioned as requested."""


@dataclass(frozen=True, slots=True)
class NvmlMig:
    """Reads and changes the instances of cards."""

    nvml: Nvml

    def instances(self, uuid: str) -> tuple[GpuInstance, ...] | None:
        """The GPU instances of a card, by their start; None where it is not in MIG mode.

        Raises:
            NvmlError: a call fails.
        """
        with self.nvml.lock:
            card = self.nvml.handle_of(uuid)
            if not self._on(card):
                return None
            devices = self._devices(card)
            found = [
                GpuInstance(number, placement, tuple(devices.get(number, ())))
                for number, placement, _ in self._instances(card)
            ]
        return tuple(sorted(found, key=lambda instance: instance.placement.start))

    def enable(self, uuid: str) -> None:
        """Enable a card's MIG mode.

        Raises:
            MigError: a process runs on it, or it needs a reset.
            NvmlError: a call fails.
        """
        with self.nvml.lock:
            card = self.nvml.handle_of(uuid)
            if self._on(card):
                return
            if self._busy(card):
                raise MigError(f"card {uuid} is in use: MIG mode cannot be enabled")
            status = ctypes.c_uint()
            self.nvml.call("nvmlDeviceSetMigMode", card, ctypes.c_uint(_ON), ctypes.byref(status))
            if status.value or not self._on(card):
                raise MigError(f"card {uuid} needs a reset to enable MIG mode")

    def repartition(
        self, uuid: str, remove: Sequence[GpuInstancePlacement], add: Sequence[GpuInstancePlacement]
    ) -> dict[GpuInstancePlacement, str]:
        """Destroy instances without a process, then create others.

        Args:
            uuid: of the card.
            remove: the instances to destroy; all others stay.
            add: the instances to create; one that exists stays.

        Returns:
            The instances that could not be created, each with the reason.

        Raises:
            NvmlError: the card does not answer.
        """
        problems: dict[GpuInstancePlacement, str] = {}
        with self.nvml.lock:
            card = self.nvml.handle_of(uuid)
            ready = {found.placement for found in self.instances(uuid) or () if found.whole}
            kept = [(placement, self._remove(card, placement)) for placement in remove]
            for placement in add:
                if placement in ready:
                    continue
                held = [(other, why) for other, why in kept if why and other.overlaps(placement)]
                try:
                    if held:
                        other, why = held[0]
                        problems[placement] = (
                            f"{other.profile} at {other.start} is in its way: {why}"
                        )
                    else:
                        self._add(card, placement)
                except (NvmlError, MigError) as error:
                    problems[placement] = str(error)
        return problems

    def _on(self, card: ctypes.c_void_p) -> bool:
        now, later = ctypes.c_uint(), ctypes.c_uint()
        try:
            self.nvml.call("nvmlDeviceGetMigMode", card, ctypes.byref(now), ctypes.byref(later))
        except NvmlError as error:
            if error.code in (NvmlReturn.NOT_SUPPORTED, None):
                return False  # a card or a library without MIG
            raise
        return now.value == _ON

    def _profiles(self, card: ctypes.c_void_p) -> dict[str, _Profile]:
        """The profiles that the card supports, by name."""
        found: dict[str, _Profile] = {}
        for number in range(_PROFILES):
            profile = _Profile(version=_PROFILE_VERSION)
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

    def _instances(
        self, card: ctypes.c_void_p
    ) -> list[tuple[int, GpuInstancePlacement, ctypes.c_void_p]]:
        """Number, placement and handle of each GPU instance."""
        found: list[tuple[int, GpuInstancePlacement, ctypes.c_void_p]] = []
        for name, profile in self._profiles(card).items():
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
                info = _InstanceInfo()
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
            handle = self._device(card, place)
            if handle is not None:
                number = nvml.number("nvmlDeviceGetGpuInstanceId", handle)
                device = MigDevice(
                    nvml.uuid(handle),
                    nvml.text("nvmlDeviceGetName", handle),
                    nvml.number("nvmlDeviceGetComputeInstanceId", handle),
                )
                found.setdefault(number, []).append(device)
        return found

    def _device(self, card: ctypes.c_void_p, place: int) -> ctypes.c_void_p | None:
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

    def _busy(self, device: ctypes.c_void_p) -> bool:
        """Whether a process uses a card or MIG device; True where NVML does not report it."""
        count = ctypes.c_uint()
        try:
            self.nvml.call(
                "nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), None
            )
        except NvmlError:
            return True
        return count.value > 0

    def _remove(self, card: ctypes.c_void_p, placement: GpuInstancePlacement) -> str:
        """Destroy an instance; the reason where that failed, else empty."""
        for number, there, instance in self._instances(card):
            if there == placement:
                try:
                    return self._destroy(card, number, instance)
                except NvmlError as error:
                    return str(error)
        return ""

    def _destroy(self, card: ctypes.c_void_p, number: int, instance: ctypes.c_void_p) -> str:
        for place in range(self.nvml.number("nvmlDeviceGetMaxMigDeviceCount", card)):
            device = self._device(card, place)
            if (
                device is not None
                and self.nvml.number("nvmlDeviceGetGpuInstanceId", device) == number
                and self._busy(device)
            ):
                return "a process runs on it"
        for compute in self._computes(instance):
            self.nvml.call("nvmlComputeInstanceDestroy", compute)
        self.nvml.call("nvmlGpuInstanceDestroy", instance)
        return ""

    def _computes(self, instance: ctypes.c_void_p) -> list[ctypes.c_void_p]:
        """The compute instances of a GPU instance."""
        found: list[ctypes.c_void_p] = []
        for profile in self._compute_profiles(instance):
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

    def _compute_profiles(self, instance: ctypes.c_void_p) -> list[_ComputeProfile]:
        found: dict[int, _ComputeProfile] = {}
        for number in range(_COMPUTE_PROFILES):
            profile = _ComputeProfile()
            try:
                self.nvml.call(
                    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
                    instance,
                    ctypes.c_uint(number),
                    ctypes.c_uint(_SHARED_ENGINES),
                    ctypes.byref(profile),
                )
            except NvmlError as error:
                if error.code in _UNSUPPORTED:
                    continue
                raise
            found.setdefault(profile.id, profile)
        return list(found.values())

    def _add(self, card: ctypes.c_void_p, placement: GpuInstancePlacement) -> None:
        profile = self._profiles(card).get(placement.profile)
        if profile is None:
            raise MigError(f"the card does not support the profile {placement.profile}")
        instance = self._instance_at(card, placement)
        made = instance is None
        if instance is None:
            instance = ctypes.c_void_p()
            self.nvml.call(
                "nvmlDeviceCreateGpuInstanceWithPlacement",
                card,
                ctypes.c_uint(profile.id),
                ctypes.byref(_Placement(placement.start, placement.size)),
                ctypes.byref(instance),
            )
        try:
            self._fill(instance, profile.slice_count)
        except (NvmlError, MigError):
            if made:
                self.nvml.call("nvmlGpuInstanceDestroy", instance)
            raise

    def _instance_at(
        self, card: ctypes.c_void_p, placement: GpuInstancePlacement
    ) -> ctypes.c_void_p | None:
        found = (handle for _, there, handle in self._instances(card) if there == placement)
        return next(found, None)

    def _fill(self, instance: ctypes.c_void_p, slices: int) -> None:
        """Create the one compute instance that has the entire GPU instance."""
        if self._computes(instance):
            raise MigError("it exists, but is divided among compute instances")
        profiles = self._compute_profiles(instance)
        whole = next((found for found in profiles if found.slice_count == slices), None)
        if whole is None:
            raise MigError(f"no profile of compute instances has all {slices} slices")
        made = ctypes.c_void_p()
        self.nvml.call(
            "nvmlGpuInstanceCreateComputeInstance",
            instance,
            ctypes.c_uint(whole.id),
            ctypes.byref(made),
        )
