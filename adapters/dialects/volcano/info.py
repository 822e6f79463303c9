"""Volcano's entry in the registry."""

from adapters.dialects.info import DialectInfo, DialectStyle
from adapters.dialects.volcano import keys

INFO = DialectInfo(
    name=keys.NAME,
    style=DialectStyle("#d9622b", "dark_orange", "█", "V"),
    result_keys=keys.RESULT_KEYS,
    allocation_annotations=frozenset({keys.ASSIGNED}),
    documents=frozenset({keys.DEVICE_CONFIG, keys.SCHEDULER_CONFIG}),
    implementation="adapters.dialects.volcano.dialect:Volcano",
    writer="adapters.dialects.volcano.writer:WRITER",
    vendor=keys.VENDOR,
    mirror=keys.ASSIGNED,
    pod_annotations=keys.POD_ANNOTATIONS,
    pod_resources=keys.POD_RESOURCES,
    node_sources=(f"annotation {keys.REGISTER}",),
    # Source: volcano-sh/volcano cmd/scheduler/app/options/options.go, defaultSchedulerName.
    scheduler="volcano",
)
