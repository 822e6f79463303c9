"""Creates and destroys MIG instances of NVIDIA's cards, through NVML.

Source of the order in which instances are created and destroyed: NVIDIA Multi-Instance GPU User
Guide, "Creating GPU Instances".
"""

from collections.abc import Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import Any

import pynvml

from adapters.agent.hardware.nvml import NvmlError
from adapters.agent.hardware.nvml_mig import NvmlMigReader
from core.hardware.mig_repartition import GpuInstancePlacement


class MigError(RuntimeError):
    """A card cannot be partitioned as requested."""


@dataclass(frozen=True, slots=True)
class NvmlMigDriver:
    """Changes the instances of cards; see ``MigDriver``."""

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
        for number, there, instance in self.reader.gpu_instances(card):
            if there == placement:
                try:
                    return self._destroy(card, number, instance)
                except NvmlError as error:
                    return str(error)
        return ""

    def _destroy(self, card: Any, number: int, instance: Any) -> str:
        for place in range(self.reader.nvml.call("nvmlDeviceGetMaxMigDeviceCount", card)):
            device = self.reader.device_at(card, place)
            if (
                device is not None
                and self.reader.nvml.call("nvmlDeviceGetGpuInstanceId", device) == number
                and self.reader.is_busy(device)
            ):
                return "a process runs on it"
        for compute in self.reader.compute_instances(instance):
            self.reader.nvml.call("nvmlComputeInstanceDestroy", compute)
        self.reader.nvml.call("nvmlGpuInstanceDestroy", instance)
        return ""

    def _add(self, card: Any, placement: GpuInstancePlacement) -> None:
        profile = self.reader.profiles(card).get(placement.profile)
        if profile is None:
            raise MigError(f"the card does not support the profile {placement.profile}")
        instance = next(
            (handle for _, there, handle in self.reader.gpu_instances(card) if there == placement),
            None,
        )
        made = instance is None
        if made:
            place = pynvml.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
            name = "nvmlDeviceCreateGpuInstanceWithPlacement"
            instance = self.reader.nvml.call(name, card, profile.id, byref(place))
        try:
            self._fill(instance, profile.sliceCount)
        except (NvmlError, MigError):
            if made:
                self.reader.nvml.call("nvmlGpuInstanceDestroy", instance)
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
