"""Every key of Volcano's vGPU dialect, once.

Paths without a repository are in volcano-sh/volcano, where ``vgpu/`` stands for
``pkg/scheduler/api/devices/nvidia/vgpu/``.
"""

from adapters.dialects import allocation_record
from adapters.dialects.dialect import Document

NAME = "volcano"

# pkg/scheduler/api/devices/config/vgpu.go:19-30
COUNT = "volcano.sh/vgpu-number"
MEMORY = "volcano.sh/vgpu-memory"
MEMORY_PERCENT = "volcano.sh/vgpu-memory-percentage"
CORES = "volcano.sh/vgpu-cores"

FAMILY = "volcano.sh/vgpu-"
"""Prefix of the name of every resource of this dialect, unless a setting renames it."""

# pkg/scheduler/api/devices/nvidia/gpushare/type.go:27-38
LEGACY = frozenset({"volcano.sh/gpu-memory", "volcano.sh/gpu-number"})
"""Resources of the older device plugin, which shares cards by environment variables only."""

# vgpu/type.go:54, 57-59
MODE = "volcano.sh/vgpu-mode"
HAMI_CORE = "hami-core"
MIG = "mig"
MPS = "mps"

# vgpu/type.go:23-25
USE_TYPE = "nvidia.com/use-gputype"
AVOID_TYPE = "nvidia.com/nouse-gputype"
USE_UUID = "volcano.sh/vgpu-use-gpuuuid"
AVOID_UUID = "volcano.sh/vgpu-nouse-gpuuuid"

# vgpu/type.go:55-56
GROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
SPREAD = "spread"

# vgpu/utils.go:174-204
GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Annotations with the name of a pod's PodGroup; the first one counts."""

POD_ANNOTATIONS = frozenset(
    {MODE, USE_TYPE, AVOID_TYPE, USE_UUID, AVOID_UUID, GROUP_POLICY, *GROUP_NAMES}
)
POD_RESOURCES = frozenset({COUNT, MEMORY, MEMORY_PERCENT, CORES}) | LEGACY

# vgpu/utils.go:52-100; the device plugin writes it, pkg/util/util.go:163-170
REGISTER = "volcano.sh/node-vgpu-register"

# vgpu/utils.go:220-226; pkg/plugin/register.go of the device plugin
VENDOR_TYPE = "NVIDIA"
"""The type of every device in a result; a registered type begins with it and a hyphen."""

VENDOR = "nvidia"

# vgpu/type.go:27-32
NODE = "volcano.sh/vgpu-node"
TIME = "volcano.sh/vgpu-time"
ASSIGNED = "volcano.sh/vgpu-ids-new"
TO_ALLOCATE = "volcano.sh/devices-to-allocate"
PHASE = "volcano.sh/bind-phase"
BIND_TIME = "volcano.sh/bind-time"

RESULT_KEYS = frozenset(
    (NODE, TIME, ASSIGNED, TO_ALLOCATE, PHASE, BIND_TIME, allocation_record.KEY)
)
"""All annotations that a placed pod gets; only a scheduler may write them."""

ALLOCATING = "allocating"
"""The bind phase that the scheduler writes; the device plugin writes the next ones."""

DEVICE_CONFIG: Document = ("volcano-vgpu-device-config", "device-config.yaml")
SCHEDULER_CONFIG: Document = ("volcano-scheduler-configmap", "volcano-scheduler.conf")

# pkg/scheduler/plugins/deviceshare/deviceshare.go:40-57, 80-128 and gpuexclusive.go:33-37
PLUGIN = "deviceshare"
POLICY = "deviceshare.SchedulePolicy"
WEIGHT = "deviceshare.ScheduleWeight"
RULES = "deviceshare.GPUExclusiveRules"
CONFIG_NAME = "deviceshare.KnownGeometriesCMName"
SWITCHES = (
    "deviceshare.VGPUEnable",
    "deviceshare.GPUSharingEnable",
    "deviceshare.GPUNumberEnable",
    "deviceshare.NodeLockEnable",
    "deviceshare.AscendMindClusterVNPUEnable",
    "deviceshare.AscendHAMiVNPUEnable",
)
"""Arguments that are true or false. Dragoman checks them; none changes its decisions."""
