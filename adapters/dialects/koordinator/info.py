"""Koordinator's entry in the registry."""

from adapters.dialects.formats.koordinator_words import SCHEDULER_CONFIG
from adapters.dialects.info import DialectInfo, DialectStyle, RuntimeHook
from adapters.dialects.koordinator import keys

INFO = DialectInfo(
    name=keys.NAME,
    style=DialectStyle("#2f6fb7", "dodger_blue1", "▓", "K"),
    result_keys=keys.RESULT_KEYS,
    allocation_annotations=frozenset({keys.ALLOCATED}),
    documents=frozenset({SCHEDULER_CONFIG}),
    implementation="adapters.dialects.koordinator.dialect:Koordinator",
    writer="adapters.dialects.koordinator.writer:WRITER",
    pod_annotations=keys.POD_ANNOTATIONS,
    pod_resources=frozenset({*keys.OWN, *keys.WHOLE_CARDS}),
    resources_beside=keys.BESIDE,
    node_sources=("object Device",),
    # pkg/koordlet/runtimehooks/hooks/gpu/gpu.go:69-130
    runtime_hook=RuntimeHook("Koordinator's GPUEnvInject", keys.ALLOCATED, "turn that gate off"),
    mirror=keys.ALLOCATED,
    # Source: koordinator-sh/koordinator config/manager/scheduler-config.yaml.
    scheduler="koord-scheduler",
)
