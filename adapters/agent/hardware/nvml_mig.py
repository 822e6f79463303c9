"""Reads, creates and destroys the MIG instances of NVIDIA's cards, through NVML.

It needs driver 510 or later, which reports the names of profiles. Source of the order in which
instances are created and destroyed: NVIDIA Multi-Instance GPU User Guide, "Creating GPU Instances".
"""

from collections.abc import Sequence
from ctypes import byref, c_uint
from dataclasses import dataclass
from typing import Any

import pynvml

from adapters.agent.hardware.nvml import Nvml, NvmlError
from core.hardware.mig_repartition import GpuInstancePlacement

_UNSUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_NOT_FOUND,
    }
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
        devices: of its compute instances; empty where its creation was interrupted.
    """

    number: int
    placement: GpuInstancePlacement
    devices: tuple[MigDevice, ...] = ()

    @property
    def whole(self) -> MigDevice | None:
        """Return the device that has the entire instance; None where no device has."""
        end = f" {self.placement.profile}"
        return next((device for device in self.devices if device.name.endswith(end)), None)


@dataclass(frozen=True, slots=True)
class NvmlMigReader:
    """Reads the instances of cards. Hold ``nvml.lock`` for several calls that belong together."""

    nvml: Nvml

    def instances(self, uuid: str) -> tuple[GpuInstance, ...] | None:
        """List the GPU instances of a card, by their start; None where it is not in MIG mode.

        Raises:
            NvmlError: a call fails.
        """
        with self.nvml.lock:
            card = self.nvml.handle_of(uuid)
            if not self.is_enabled(card):
                return None
            call = self.nvml.call
            devices: dict[int, list[MigDevice]] = {}
            for place in range(call("nvmlDeviceGetMaxMigDeviceCount", card)):
                handle = self.device_at(card, place)
                if handle is not None:
                    device = MigDevice(
                        call("nvmlDeviceGetUUID", handle),
                        call("nvmlDeviceGetName", handle),
                        call("nvmlDeviceGetComputeInstanceId", handle),
                    )
                    number = call("nvmlDeviceGetGpuInstanceId", handle)
                    devices.setdefault(number, []).append(device)
            found = [
                GpuInstance(number, placement, tuple(devices.get(number, ())))
                for number, placement, _ in self.gpu_instances(card)
            ]
        return tuple(sorted(found, key=lambda instance: instance.placement.start))

    def is_enabled(self, card: Any) -> bool:
        """Return whether a card is in MIG mode."""
        try:
            now, _ = self.nvml.call("nvmlDeviceGetMigMode", card)
        except NvmlError as error:
            if error.code in (pynvml.NVML_ERROR_NOT_SUPPORTED, None):
                return False  # a card or a library without MIG
            raise
        return bool(now == pynvml.NVML_DEVICE_MIG_ENABLE)

    def profiles(self, card: Any) -> dict[str, Any]:
        """List the profiles that the card supports, by name."""
        found: dict[str, Any] = {}
        for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            try:
                profile = self.nvml.call("nvmlDeviceGetGpuInstanceProfileInfo", card, number)
            except NvmlError as error:
                if error.code in _UNSUPPORTED:
                    continue
                raise
            found.setdefault(profile.name.removeprefix("MIG "), profile)
        return found

    def gpu_instances(self, card: Any) -> list[tuple[int, GpuInstancePlacement, Any]]:
        """List number, placement and handle of each GPU instance."""
        found: list[tuple[int, GpuInstancePlacement, Any]] = []
        for name, profile in self.profiles(card).items():
            handles = (pynvml.c_nvmlGpuInstance_t * max(profile.instanceCount, 1))()
            count = c_uint(len(handles))
            self.nvml.call("nvmlDeviceGetGpuInstances", card, profile.id, handles, byref(count))
            for instance in handles[: count.value]:
                info = self.nvml.call("nvmlGpuInstanceGetInfo", instance)
                place = GpuInstancePlacement(name, info.placement.start, info.placement.size)
                found.append((info.id, place, instance))
        return found

    def device_at(self, card: Any, place: int) -> Any:
        """Return the MIG device at a place of NVML's list; None where there is none."""
        try:
            return self.nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", card, place)
        except NvmlError as error:
            if error.code == pynvml.NVML_ERROR_NOT_FOUND:
                return None
            raise

    def is_busy(self, device: Any) -> bool:
        """Return whether a process uses a card or MIG device; True where NVML does not say."""
        try:
            return bool(self.nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device))
        except NvmlError:
            return True

    def compute_instances(self, instance: Any) -> list[Any]:
        """List the compute instances of a GPU instance."""
        found: list[Any] = []
        for profile in self.compute_profiles(instance):
            handles = (pynvml.c_nvmlComputeInstance_t * max(profile.instanceCount, 1))()
            count = c_uint(len(handles))
            self.nvml.call(
                "nvmlGpuInstanceGetComputeInstances", instance, profile.id, handles, byref(count)
            )
            found += handles[: count.value]
        return found

    def compute_profiles(self, instance: Any) -> list[Any]:
        """List the profiles of compute instances that a GPU instance supports."""
        found: dict[int, Any] = {}
        engines, version = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, 1
        for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                profile = self.nvml.call(
                    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
                    instance,
                    number,
                    engines,
                    version,
                )
            except NvmlError as error:
                if error.code in _UNSUPPORTED:
                    continue
                raise
            found.setdefault(profile.id, profile)
        return list(found.values())


class MigError(RuntimeError):
    """A card cannot be partitioned as requested."""


@dataclass(frozen=True, slots=True)
class NvmlMigDriver:
    """Changes the instances of cards. Each call may take seconds."""

    reader: NvmlMigReader

    def enable(self, uuid: str) -> None:
        """Enable a card's MIG mode.

        Raises:
            MigError: a process runs on it, or it needs a reset.
            NvmlError: a call fails.
        """
        with self.reader.nvml.lock:
            card = self.reader.nvml.handle_of(uuid)
            if self.reader.is_enabled(card):
                return
            if self.reader.is_busy(card):
                raise MigError(f"card {uuid} is in use: MIG mode cannot be enabled")
            enable = pynvml.NVML_DEVICE_MIG_ENABLE
            status = self.reader.nvml.call("nvmlDeviceSetMigMode", card, enable)
            if status or not self.reader.is_enabled(card):
                raise MigError(f"card {uuid} needs a reset to enable MIG mode")

    def repartition(
        self, uuid: str, remove: Sequence[GpuInstancePlacement], add: Sequence[GpuInstancePlacement]
    ) -> dict[GpuInstancePlacement, str]:
        """Destroy instances without a process, then create others; one that exists stays.

        Returns:
            The instances that could not be created, each with the reason.

        Raises:
            NvmlError: the card does not answer.
        """
        problems: dict[GpuInstancePlacement, str] = {}
        with self.reader.nvml.lock:
            card = self.reader.nvml.handle_of(uuid)
            ready = {found.placement for found in self.reader.instances(uuid) or () if found.whole}
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

    def _remove(self, card: Any, placement: GpuInstancePlacement) -> str:
        """Destroy an instance; return the reason where that failed, else an empty text."""
        reader, call = self.reader, self.reader.nvml.call
        for number, there, instance in reader.gpu_instances(card):
            if there != placement:
                continue
            try:
                for place in range(call("nvmlDeviceGetMaxMigDeviceCount", card)):
                    device = reader.device_at(card, place)
                    if (
                        device is not None
                        and call("nvmlDeviceGetGpuInstanceId", device) == number
                        and reader.is_busy(device)
                    ):
                        return "a process runs on it"
                for compute in reader.compute_instances(instance):
                    call("nvmlComputeInstanceDestroy", compute)
                call("nvmlGpuInstanceDestroy", instance)
            except NvmlError as error:
                return str(error)
            break
        return ""

    def _add(self, card: Any, placement: GpuInstancePlacement) -> None:
        """Create an instance with one compute instance that has all of it, or complete it."""
        reader, call = self.reader, self.reader.nvml.call
        profile = reader.profiles(card).get(placement.profile)
        if profile is None:
            raise MigError(f"the card does not support the profile {placement.profile}")
        instance = next(
            (handle for _, there, handle in reader.gpu_instances(card) if there == placement), None
        )
        made = instance is None
        if made:
            place = pynvml.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
            name = "nvmlDeviceCreateGpuInstanceWithPlacement"
            instance = call(name, card, profile.id, byref(place))
        try:
            self._fill(instance, profile.sliceCount)
        except (NvmlError, MigError):
            if made:
                call("nvmlGpuInstanceDestroy", instance)
            raise

    def _fill(self, instance: Any, slices: int) -> None:
        """Create the one compute instance that has the entire GPU instance."""
        if self.reader.compute_instances(instance):
            raise MigError("it exists, but is divided among compute instances")
        profiles = self.reader.compute_profiles(instance)
        whole = next((found for found in profiles if found.sliceCount == slices), None)
        if whole is None:
            raise MigError(f"no profile of compute instances has all {slices} slices")
        self.reader.nvml.call("nvmlGpuInstanceCreateComputeInstance", instance, whole.id)
