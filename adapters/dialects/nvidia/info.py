"""The entry of NVIDIA's device plugin in the registry."""

from adapters.dialects.dialect import Defaults, Dialect, Documents
from adapters.dialects.formats.hami_record import NVIDIA_ALLOCATED
from adapters.dialects.formats.koordinator_words import ALLOCATED, SCHEDULER_CONFIG
from adapters.dialects.formats.nvidia_words import GPU, SHARED
from adapters.dialects.info import DialectInfo, DialectStyle
from adapters.dialects.nvidia import keys
from adapters.dialects.request_writer import RequestWriter


def _configure(settings: Documents, defaults: Defaults) -> Dialect:
    # Imported here because the node agent reads this entry and does not need the implementation.
    from adapters.dialects.nvidia.dialect import Nvidia

    return Nvidia.configured(settings, defaults)


def _writer() -> RequestWriter:
    from adapters.dialects.nvidia.writer import WRITER

    return WRITER


INFO = DialectInfo(
    name=keys.NAME,
    style=DialectStyle("#5f8f1f", "chartreuse3", "▙", "N"),
    result_keys=keys.RESULT_KEYS,
    allocation_annotations=frozenset({ALLOCATED, NVIDIA_ALLOCATED}),
    documents=frozenset({SCHEDULER_CONFIG}),
    configure=_configure,
    writer=_writer,
    vendor=keys.VENDOR,
    pod_resources=frozenset({GPU, SHARED}),
)
