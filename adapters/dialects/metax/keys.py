"""Every key and setting of the dialect, once, with the place in HAMi v2.10.0 that defines it.

Source of the settings, the MetaX section of HAMi's device configuration:
pkg/device/metax/config.go:21-30.
"""

import msgspec

from adapters.dialects.dialect import DialectError, Documents
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
from adapters.dialects.formats.hami_record import BIND_KEYS, METAX_ALLOCATED, METAX_QOS
from adapters.dialects.info import DialectInfo, DialectStyle

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


INFO = DialectInfo(
    name=NAME,
    style=DialectStyle("#8a63c9", "medium_purple1", "▒", "M"),
    result_keys=RESULT_KEYS,
    allocation_annotations=frozenset({SGPU_ALLOCATED, GPU_ALLOCATED}),
    documents=frozenset({DEVICE_CONFIG}),
    labelled_documents=frozenset({(DEVICE_CONFIG_LABEL, DEVICE_CONFIG)}),
    implementation="adapters.dialects.metax.dialect:Metax",
    writer="adapters.dialects.metax.pod:WRITER",
    vendor=NAME,
    uses_node_lock=True,
    pod_annotations=POD_ANNOTATIONS,
    kept_annotations=frozenset({QOS, APP_CLASS}),
    pod_resources=frozenset({SGPU, VCORE, VMEMORY, GPU}),
    node_sources=(f"annotation {NODE_DEVICES}", f"resource {GPU}"),
)


class MetaxConfig(msgspec.Struct, frozen=True):
    """The settings of this dialect.

    Attributes:
        sgpu: resource that counts shares of cards.
        vcore: resource that is the percent of compute of each.
        vmemory: resource that is the memory of each.
        gpu: resource that counts whole cards.
        topology_aware: whether links count in the choice of the node; None where not stated.
    """

    sgpu: str = msgspec.field(default=SGPU, name="resourceVCountName")
    vcore: str = msgspec.field(default=VCORE, name="resourceVCoreName")
    vmemory: str = msgspec.field(default=VMEMORY, name="resourceVMemoryName")
    gpu: str = msgspec.field(default=GPU, name="resourceCountName")
    topology_aware: bool | None = msgspec.field(default=None, name="sgpuTopologyAware")

    @property
    def resources(self) -> tuple[str, ...]:
        """All resource names."""
        return (self.sgpu, self.vcore, self.vmemory, self.gpu)


class _Document(msgspec.Struct, frozen=True):
    metax: MetaxConfig | None = None


def read_config(settings: Documents) -> MetaxConfig:
    """Read the settings; what the file omits gets HAMi's default.

    Raises:
        DialectError: the file has an invalid value.
    """
    config = read_device_config(settings, NAME, _Document).metax or MetaxConfig()
    if "" in config.resources or len(set(config.resources)) < len(config.resources):
        raise DialectError(
            section_path(NAME), config.resources, "must be four different resource names"
        )
    return config
