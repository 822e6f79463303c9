"""Every key of the dialect, once, with the place in HAMi v2.10.0 that defines it."""

from adapters.dialects.formats.hami_policies import CARD_POLICY, NODE_POLICY, NUMA_BIND, WEIGHTS
from adapters.dialects.formats.hami_record import BIND_KEYS, METAX_ALLOCATED, METAX_QOS

NAME = "metax"
"""The dialect, and the vendor of its cards."""

# --- resources, as HAMi's chart names them ---------------------------------------------------

# charts/hami/templates/scheduler/device-configmap.yaml; MetaX sGPU manual, table 7.7
SGPU = "metax-tech.com/sgpu"
VCORE = "metax-tech.com/vcore"
VMEMORY = "metax-tech.com/vmemory"
GPU = "metax-tech.com/gpu"

# --- what a pod may set ----------------------------------------------------------------------

QOS = METAX_QOS
# pkg/device/metax/protocol.go:36
APP_CLASS = "metax-tech.com/sgpu-app-class"
# pkg/device/metax/protocol.go:35
TOPOLOGY_AWARE = "metax-tech.com/sgpu-topology-aware"
# pkg/device/metax/protocol.go:31
USE_UUIDS = "metax-tech.com/use-gpuuuid"
# pkg/device/metax/protocol.go:32
NO_USE_UUIDS = "metax-tech.com/nouse-gpuuuid"

POD_ANNOTATIONS = frozenset(
    {
        *(QOS, APP_CLASS, TOPOLOGY_AWARE, USE_UUIDS, NO_USE_UUIDS),
        *(NODE_POLICY, CARD_POLICY, WEIGHTS, NUMA_BIND),
    }
)

# --- what a node reports ------------------------------------------------------------------------

# pkg/device/metax/protocol.go:27
NODE_DEVICES = "metax-tech.com/node-gpu-devices"
# pkg/device/metax/device.go:40
LOSSES = "metax-tech.com/gpu.topology.losses"
# pkg/device/metax/device.go:41
GAINS = "metax-tech.com/gpu.topology.scores"

# --- what a placed pod gets -----------------------------------------------------------------

# pkg/device/metax/sdevice.go:76
SGPU_TO_ALLOCATE = "hami.io/metax-sgpu-devices-to-allocate"
# pkg/device/metax/sdevice.go:77
SGPU_ALLOCATED = "hami.io/metax-sgpu-devices-allocated"
# pkg/device/metax/device.go:52
GPU_TO_ALLOCATE = "hami.io/metax-gpu-devices-to-allocate"
# pkg/device/metax/device.go:53
GPU_ALLOCATED = "hami.io/metax-gpu-devices-allocated"
# pkg/device/metax/protocol.go:29
PREDICATE_TIME = "metax-tech.com/predicate-time"

# pkg/device/metax/sdevice.go:41
SGPU_KIND = "Metax-SGPU"
# pkg/device/metax/device.go:38
GPU_KIND = "Metax-GPU"

RESULT_KEYS = BIND_KEYS | frozenset(
    {
        SGPU_TO_ALLOCATE,
        SGPU_ALLOCATED,
        GPU_TO_ALLOCATE,
        GPU_ALLOCATED,
        METAX_ALLOCATED,
        PREDICATE_TIME,
    }
)
"""All annotations and labels that a placed pod may get; only a scheduler may write them."""
