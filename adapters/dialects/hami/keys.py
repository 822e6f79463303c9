"""Every key and setting of HAMi's dialect on NVIDIA cards, once, with its place in HAMi.

Source of the settings: nvidia/device.go:87-106, NvidiaConfig; defaults as HAMi's chart writes them
(charts/hami/templates/scheduler/device-configmap.yaml).
"""

from typing import Annotated

import msgspec

from adapters.dialects.dialect import DialectError, Documents
from adapters.dialects.formats import hami_record
from adapters.dialects.formats.hami_policies import (
    CARD_POLICY,
    DEVICE_CONFIG,
    DEVICE_CONFIG_LABEL,
    NODE_POLICY,
    NUMA_BIND,
    WEIGHTS,
    read_device_config,
    section_path,
)
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.info import DialectInfo, DialectStyle
from core.hardware.quantity import FULL

NAME = hami_record.HAMI
VENDOR = "nvidia"

# --- resources: charts/hami/values.yaml, resourceName to resourcePriority -------------------------

COUNT = GPU
MEMORY = "nvidia.com/gpumem"
PERCENT = "nvidia.com/gpumem-percentage"
CORES = "nvidia.com/gpucores"
PRIORITY = "nvidia.com/priority"

POD_RESOURCES = frozenset({COUNT, MEMORY, PERCENT, CORES, PRIORITY})

# --- what a pod may set: nvidia/device.go:40-58 ---------------------------------------------------

USE_TYPE = "nvidia.com/use-gputype"
AVOID_TYPE = "nvidia.com/nouse-gputype"
USE_UUID = "nvidia.com/use-gpuuuid"
AVOID_UUID = "nvidia.com/nouse-gpuuuid"
MODE = "nvidia.com/vgpu-mode"
HAMI_CORE = "hami-core"
MIG = "mig"
MPS = "mps"

POD_ANNOTATIONS = frozenset(
    {
        *(USE_TYPE, AVOID_TYPE, USE_UUID, AVOID_UUID, MODE),
        *(NUMA_BIND, NODE_POLICY, CARD_POLICY, WEIGHTS),
    }
)
"""Only HAMi reads these beside ``nvidia.com/gpu``: a pod that has one means HAMi."""

# --- what a container gets from the webhook: pkg/util/types.go:39 ---------------------------------

PRIORITY_VARIABLE = "CUDA_TASK_PRIORITY"
"""HAMi-core v2.10 reads it, 1 without it: src/multiprocess/multiprocess_memory_limit.c:1139."""

# --- what a node reports: nvidia/device.go:40-42, 54 ----------------------------------------------

PAIR_SCORES = "hami.io/node-nvidia-score"
CORDON = "hami.io/device-cordon"

# --- what a placed pod gets -----------------------------------------------------------------------

RESULT_KEYS = hami_record.BIND_KEYS | {
    hami_record.NVIDIA_ALLOCATED,
    hami_record.NVIDIA_TO_ALLOCATE,
    hami_record.MIG_ALLOCATIONS,
}
"""All annotations and labels that a placed pod may get; only a scheduler may write them."""


INFO = DialectInfo(
    name=NAME,
    style=DialectStyle("#b8912f", "gold3", "▞", "H"),
    result_keys=RESULT_KEYS,
    allocation_annotations=frozenset({hami_record.NVIDIA_ALLOCATED}),
    documents=frozenset({DEVICE_CONFIG}),
    labelled_documents=frozenset({(DEVICE_CONFIG_LABEL, DEVICE_CONFIG)}),
    implementation="adapters.dialects.hami.dialect:Hami",
    writer="adapters.dialects.hami.pod:WRITER",
    vendor=VENDOR,
    uses_node_lock=True,
    pod_annotations=POD_ANNOTATIONS,
    pod_resources=POD_RESOURCES,
    node_sources=(f"annotation {hami_record.NODE_DEVICES}",),
    # Source: Project-HAMi/HAMi charts/hami/values.yaml, schedulerName.
    scheduler="hami-scheduler",
)


_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Many = Annotated[int, msgspec.Meta(ge=0, le=hami_record.MAX_MIB)]


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

    count: _Name = msgspec.field(default=COUNT, name="resourceCountName")
    memory: _Name = msgspec.field(default=MEMORY, name="resourceMemoryName")
    percent: _Name = msgspec.field(default=PERCENT, name="resourceMemoryPercentageName")
    cores: _Name = msgspec.field(default=CORES, name="resourceCoreName")
    priority: _Name = msgspec.field(default=PRIORITY, name="resourcePriorityName")
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
    config = read_device_config(settings, VENDOR, _Document).nvidia or HamiConfig()
    if len(set(config.resources)) < len(config.resources):
        problem = "must give each resource its own name"
        raise DialectError(section_path(VENDOR), ", ".join(config.resources), problem)
    return config
