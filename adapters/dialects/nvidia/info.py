"""The entry of NVIDIA's device plugin in the registry."""

from adapters.dialects.formats.hami_record import NVIDIA_ALLOCATED
from adapters.dialects.formats.koordinator_words import ALLOCATED, SCHEDULER_CONFIG
from adapters.dialects.formats.nvidia_words import GPU, SHARED
from adapters.dialects.info import DialectInfo, DialectStyle
from adapters.dialects.nvidia import keys

INFO = DialectInfo(
    name=keys.NAME,
    style=DialectStyle("#5f8f1f", "chartreuse3", "▙", "N"),
    result_keys=keys.RESULT_KEYS,
    allocation_annotations=frozenset({ALLOCATED, NVIDIA_ALLOCATED}),
    documents=frozenset({SCHEDULER_CONFIG}),
    implementation="adapters.dialects.nvidia.dialect:Nvidia",
    writer="adapters.dialects.nvidia.writer:WRITER",
    vendor=keys.VENDOR,
    pod_resources=frozenset({GPU, SHARED}),
)
