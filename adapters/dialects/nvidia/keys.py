"""Every key of the dialect, once, with the place that defines it."""

from adapters.dialects import allocation_record
from adapters.dialects.formats import hami_record
from adapters.dialects.formats import koordinator_settings as koordinator
from adapters.dialects.formats.koordinator_settings import ALLOCATED, SCHEDULER_CONFIG
from adapters.dialects.formats.nvidia_words import GPU, SHARED
from adapters.dialects.info import DialectInfo, DialectStyle

NAME = "nvidia"
VENDOR = "nvidia"

ALTERNATIVES = frozenset({koordinator.NAME, hami_record.HAMI})
"""The dialects that describe the cards of a request for whole ones. Both mean whole cards by
``nvidia.com/gpu`` too (koordinator-sh/koordinator apis/extension/device_share.go:43-59; HAMi v2.10
pkg/device/nvidia/device.go, defaultExclusiveCoreIfNeeded)."""

RESULT_KEYS = hami_record.BIND_KEYS | {
    *(koordinator.ALLOCATED, koordinator.BIND_TIMESTAMP, koordinator.MINORS, allocation_record.KEY),
    *(hami_record.NVIDIA_ALLOCATED, hami_record.NVIDIA_TO_ALLOCATE),
}
"""All annotations and labels that a placed pod may get; only a scheduler may write them."""


INFO = DialectInfo(
    name=NAME,
    style=DialectStyle("#5f8f1f", "chartreuse3", "▙", "N"),
    result_keys=RESULT_KEYS,
    allocation_annotations=frozenset({ALLOCATED, hami_record.NVIDIA_ALLOCATED}),
    documents=frozenset({SCHEDULER_CONFIG}),
    implementation="adapters.dialects.nvidia.dialect:Nvidia",
    writer="adapters.dialects.nvidia.dialect:WRITER",
    vendor=VENDOR,
    pod_resources=frozenset({GPU, SHARED}),
)
