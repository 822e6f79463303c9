"""Volcano's entry in the registry."""

from adapters.dialects.dialect import Defaults, Dialect, Documents
from adapters.dialects.info import DialectInfo, DialectStyle
from adapters.dialects.request_writer import RequestWriter
from adapters.dialects.volcano import keys


def _configure(settings: Documents, defaults: Defaults) -> Dialect:
    # Imported here because the node agent reads this entry and does not need the implementation.
    from adapters.dialects.volcano.dialect import Volcano

    return Volcano.configured(settings, defaults)


def _writer() -> RequestWriter:
    from adapters.dialects.volcano.writer import WRITER

    return WRITER


INFO = DialectInfo(
    name=keys.NAME,
    style=DialectStyle("#d9622b", "dark_orange", "█", "V"),
    result_keys=keys.RESULT_KEYS,
    allocation_annotations=frozenset({keys.ASSIGNED}),
    documents=frozenset({keys.DEVICE_CONFIG, keys.SCHEDULER_CONFIG}),
    configure=_configure,
    writer=_writer,
    vendor=keys.VENDOR,
    pod_annotations=keys.POD_ANNOTATIONS,
    pod_resources=keys.POD_RESOURCES,
    node_sources=(f"annotation {keys.REGISTER}",),
)
