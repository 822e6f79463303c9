"""Koordinator's entry in the registry."""

from adapters.dialects.dialect import Defaults, Dialect, Documents
from adapters.dialects.formats.koordinator_words import SCHEDULER_CONFIG
from adapters.dialects.info import DialectInfo, DialectStyle, RuntimeHook
from adapters.dialects.koordinator import keys
from adapters.dialects.request_writer import RequestWriter


def _configure(settings: Documents, defaults: Defaults) -> Dialect:
    # Imported here because the node agent reads this entry and does not need the implementation.
    from adapters.dialects.koordinator.dialect import Koordinator

    return Koordinator.configured(settings, defaults)


def _writer() -> RequestWriter:
    from adapters.dialects.koordinator.writer import WRITER

    return WRITER


INFO = DialectInfo(
    name=keys.NAME,
    style=DialectStyle("#2f6fb7", "dodger_blue1", "▓", "K"),
    result_keys=keys.RESULT_KEYS,
    allocation_annotations=frozenset({keys.ALLOCATED}),
    documents=frozenset({SCHEDULER_CONFIG}),
    configure=_configure,
    writer=_writer,
    pod_annotations=keys.POD_ANNOTATIONS,
    pod_resources=frozenset({*keys.OWN, *keys.WHOLE_CARDS}),
    node_sources=("object Device",),
    # pkg/koordlet/runtimehooks/hooks/gpu/gpu.go:69-130
    runtime_hook=RuntimeHook("Koordinator's GPUEnvInject", keys.ALLOCATED, "turn that gate off"),
)
