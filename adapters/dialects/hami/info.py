"""HAMi's entry in the registry."""

from adapters.dialects.dialect import Defaults, Dialect, Documents
from adapters.dialects.formats.hami_device_config import DEVICE_CONFIG
from adapters.dialects.formats.hami_record import NODE_DEVICES, NVIDIA_ALLOCATED
from adapters.dialects.hami import keys
from adapters.dialects.info import DialectInfo, DialectStyle
from adapters.dialects.request_writer import RequestWriter


def _configure(settings: Documents, defaults: Defaults) -> Dialect:
    # Imported here because the node agent reads this entry and does not need the implementation.
    from adapters.dialects.hami.dialect import Hami

    return Hami.configured(settings, defaults)


def _writer() -> RequestWriter:
    from adapters.dialects.hami.writer import WRITER

    return WRITER


INFO = DialectInfo(
    name=keys.NAME,
    style=DialectStyle("#b8912f", "gold3", "▞", "H"),
    result_keys=keys.RESULT_KEYS,
    allocation_annotations=frozenset({NVIDIA_ALLOCATED}),
    documents=frozenset({DEVICE_CONFIG}),
    configure=_configure,
    writer=_writer,
    vendor=keys.VENDOR,
    uses_node_lock=True,
    pod_annotations=keys.POD_ANNOTATIONS,
    pod_resources=keys.POD_RESOURCES,
    node_sources=(f"annotation {NODE_DEVICES}",),
)
