"""Every key of the dialect, once, with the file in koordinator-sh/koordinator that defines it."""

from adapters.dialects import allocation_record
from adapters.dialects.formats import hami_record
from adapters.dialects.formats import koordinator_settings as words
from adapters.dialects.formats.koordinator_settings import SCHEDULER_CONFIG
from adapters.dialects.formats.nvidia_words import GPU as NVIDIA_GPU
from adapters.dialects.info import DialectInfo, DialectStyle, RuntimeHook

NAME = words.NAME

# --- resources: apis/extension/device_share.go:43-59 ----------------------------------------------

GPU = "koordinator.sh/gpu"
CORE = words.CORE
MEMORY = words.MEMORY
RATIO = words.RATIO
SHARED = "koordinator.sh/gpu.shared"
RDMA = "koordinator.sh/rdma"
FPGA = "koordinator.sh/fpga"

WHOLE_CARDS = {NVIDIA_GPU: "nvidia", "amd.com/gpu": "amd", "dcu.com/gpu": "hygon"}
"""Resources that count whole cards, and the vendor of the cards."""

# apis/extension/deprecated.go:21-60
DEPRECATED = {GPU: "kubernetes.io/gpu", **words.DEPRECATED, FPGA: "kubernetes.io/fpga"}
"""Earlier names, by the name that wins where a pod has both."""

NPU_PREFIX = "huawei.com/npu-"

BESIDE = frozenset((RDMA, "kubernetes.io/rdma"))
"""Resources that koord-scheduler allocates beside the cards, and states in the same record. They
make no pod ours, and a pod that requests cards may name them."""

OUT_OF_SCOPE = (FPGA, "huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp")
"""Resources that Koordinator schedules and Dragoman does not."""

OWN = frozenset((GPU, CORE, MEMORY, RATIO, SHARED, *OUT_OF_SCOPE, *DEPRECATED.values()))
"""Resources that only Koordinator reads."""

# Pods have it beside Koordinator's own names to make the kubelet call the MetaX device plugin:
# koordinator-sh/koordinator pull request 2734.
METAX_TRIGGER = "metax-tech.com/sgpu"

# --- vendors: apis/extension/device_share.go:75-80 ------------------------------------------------

NVIDIA = "nvidia"
METAX = "metax"

# --- what a pod may set: apis/extension/device_share.go:30-41 -------------------------------------

ISOLATION = "koordinator.sh/gpu-isolation-provider"
HAMI_CORE = "HAMi-core"
ALLOCATE_HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT_ALLOCATE = "scheduling.koordinator.sh/device-joint-allocate"
PARTITION_SPEC = "scheduling.koordinator.sh/gpu-partition-spec"
# apis/extension/numa_aware.go:36
NUMA_SPEC = "scheduling.koordinator.sh/numa-topology-spec"
# apis/extension/reservation.go:37-60
RESERVATION_AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
EXACT_MATCH_RESERVATION = "scheduling.koordinator.sh/exact-match-reservation"
RESERVE_POD = "scheduling.koordinator.sh/reserve-pod"
PRE_ALLOCATION_REQUIRED = "scheduling.koordinator.sh/pre-allocation-required"
# apis/extension/multi_scheduler.go:41-60
SCHEDULING_HINTS = (
    "internal.scheduling.koordinator.sh/scheduling-hint",
    "scheduling.koordinator.sh/scheduling-hint",
)
DEVICE_SHARE = words.DEVICE_SHARE

RESERVATIONS = (JOINT_ALLOCATE, RESERVATION_AFFINITY, EXACT_MATCH_RESERVATION, RESERVE_POD)
"""Annotations that choose the cards by what Dragoman does not have."""

HINTS = frozenset(
    {
        *(ALLOCATE_HINT, PARTITION_SPEC, NUMA_SPEC, *SCHEDULING_HINTS),
        *(*RESERVATIONS, PRE_ALLOCATION_REQUIRED),
    }
)
"""Annotations and labels about cards that only Koordinator reads beside ``nvidia.com/gpu``: a pod
that has one means Koordinator."""

POD_ANNOTATIONS = frozenset(
    {
        *HINTS,
        "scheduling.koordinator.sh/reservation-allocated",
        "scheduling.koordinator.sh/resource-spec",
        "scheduling.koordinator.sh/resource-status",
    }
)
"""What the dialect reads, and the ones of Koordinator that resemble it."""

# --- what a node or a Device reports: apis/extension/device_share.go:61-70 ------------------------

PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"
PARTITION_POLICY = "node.koordinator.sh/gpu-partition-policy"
HONOR = "Honor"
VENDOR = "node.koordinator.sh/gpu-vendor"
MODEL = "node.koordinator.sh/gpu-model"

# --- what a placed pod gets ----------------------------------------------------------------------

ALLOCATED = words.ALLOCATED
BIND_TIMESTAMP = words.BIND_TIMESTAMP
MINORS = words.MINORS

RESULT_KEYS = hami_record.BIND_KEYS | {
    *(ALLOCATED, BIND_TIMESTAMP, MINORS, allocation_record.KEY),
    *(hami_record.METAX_ALLOCATED, hami_record.NVIDIA_ALLOCATED, hami_record.NVIDIA_TO_ALLOCATE),
}
"""All annotations and labels that a placed pod may get; only a scheduler may write them."""


INFO = DialectInfo(
    name=NAME,
    style=DialectStyle("#2f6fb7", "dodger_blue1", "▓", "K"),
    result_keys=RESULT_KEYS,
    allocation_annotations=frozenset({ALLOCATED}),
    documents=frozenset({SCHEDULER_CONFIG}),
    implementation="adapters.dialects.koordinator.dialect:Koordinator",
    writer="adapters.dialects.koordinator.pod:WRITER",
    pod_annotations=POD_ANNOTATIONS,
    pod_labels=frozenset({ISOLATION, PRE_ALLOCATION_REQUIRED}),
    pod_resources=frozenset({*OWN, *WHOLE_CARDS}),
    resources_beside=BESIDE,
    node_sources=("object Device",),
    # pkg/koordlet/runtimehooks/hooks/gpu/gpu.go:69-130
    runtime_hook=RuntimeHook("Koordinator's GPUEnvInject", ALLOCATED, "turn that gate off"),
    mirror=ALLOCATED,
    # Source: koordinator-sh/koordinator config/manager/scheduler-config.yaml.
    scheduler="koord-scheduler",
)
