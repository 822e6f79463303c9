"""Every key of HAMi's dialect on NVIDIA cards, once, with the place in HAMi that defines it."""

from adapters.dialects.formats.hami_policies import CARD_POLICY, NODE_POLICY, NUMA_BIND, WEIGHTS
from adapters.dialects.formats.hami_record import (
    BIND_KEYS,
    HAMI,
    MIG_ALLOCATIONS,
    NVIDIA_ALLOCATED,
    NVIDIA_TO_ALLOCATE,
)
from adapters.dialects.formats.nvidia_words import GPU

NAME = HAMI
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

RESULT_KEYS = BIND_KEYS | {NVIDIA_ALLOCATED, NVIDIA_TO_ALLOCATE, MIG_ALLOCATIONS}
"""All annotations and labels that a placed pod may get; only a scheduler may write them."""
