"""The NVIDIA section of HAMi's device configuration.

Source: nvidia/device.go:87-106, NvidiaConfig; defaults as HAMi's chart writes them
(charts/hami/templates/scheduler/device-configmap.yaml).
"""

from typing import Annotated

import msgspec

from adapters.dialects.dialect import DialectError, Documents
from adapters.dialects.formats.hami_device_config import read_device_config, section_path
from adapters.dialects.formats.hami_record import MAX_MIB
from adapters.dialects.hami import keys
from core.hardware.quantity import FULL

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Many = Annotated[int, msgspec.Meta(ge=0, le=MAX_MIB)]


class HamiConfig(msgspec.Struct, frozen=True):
    """The settings of this dialect.

    Attributes:
        count: resource that counts cards.
        memory: resource that is memory of each card, in units of ``factor`` MiB.
        percent: resource that is percent of each card's memory.
        cores: resource that is percent of each card's compute.
        priority: resource that is the priority of the container's tasks on its cards.
        default_memory: MiB of each card for a container that names no memory; 0 for all.
        default_cores: percent for a container that names memory and no compute.
        default_count: cards of a container that names amounts and no count; 0 for none.
        factor: MiB of one unit of memory; 0 means 1.
    """

    count: _Name = msgspec.field(default=keys.COUNT, name="resourceCountName")
    memory: _Name = msgspec.field(default=keys.MEMORY, name="resourceMemoryName")
    percent: _Name = msgspec.field(default=keys.PERCENT, name="resourceMemoryPercentageName")
    cores: _Name = msgspec.field(default=keys.CORES, name="resourceCoreName")
    priority: _Name = msgspec.field(default=keys.PRIORITY, name="resourcePriorityName")
    default_memory: _Many = msgspec.field(default=0, name="defaultMemory")
    default_cores: Annotated[int, msgspec.Meta(ge=0, le=FULL)] = msgspec.field(
        default=0, name="defaultCores"
    )
    default_count: Annotated[int, msgspec.Meta(ge=0, le=1024)] = msgspec.field(
        default=1, name="defaultGPUNum"
    )
    factor: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = msgspec.field(
        default=1, name="memoryFactor"
    )

    @property
    def unit(self) -> int:
        """MiB of one unit of memory."""
        return max(self.factor, 1)

    @property
    def amounts(self) -> tuple[str, ...]:
        """The resources that describe a share; only HAMi reads them."""
        return (self.memory, self.percent, self.cores, self.priority)

    @property
    def resources(self) -> tuple[str, ...]:
        """All resource names."""
        return (self.count, *self.amounts)


class _Document(msgspec.Struct, frozen=True):
    nvidia: HamiConfig | None = None


def read_config(settings: Documents) -> HamiConfig:
    """Read the settings; what the file omits gets the default of HAMi's chart.

    Raises:
        DialectError: the file has an invalid value.
    """
    config = read_device_config(settings, keys.VENDOR, _Document).nvidia or HamiConfig()
    if len(set(config.resources)) < len(config.resources):
        problem = "must give each resource its own name"
        raise DialectError(section_path(keys.VENDOR), ", ".join(config.resources), problem)
    return config
