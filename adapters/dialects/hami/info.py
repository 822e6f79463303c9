"""HAMi's entry in the registry."""

from adapters.dialects.formats.hami_device_config import DEVICE_CONFIG, DEVICE_CONFIG_LABEL
from adapters.dialects.formats.hami_record import NODE_DEVICES, NVIDIA_ALLOCATED
from adapters.dialects.hami import keys
from adapters.dialects.info import DialectInfo, DialectStyle

INFO = DialectInfo(
    name=keys.NAME,
    style=DialectStyle("#b8912f", "gold3", "▞", "H"),
    result_keys=keys.RESULT_KEYS,
    allocation_annotations=frozenset({NVIDIA_ALLOCATED}),
    documents=frozenset({DEVICE_CONFIG}),
    labelled_documents=frozenset({(DEVICE_CONFIG_LABEL, DEVICE_CONFIG)}),
    implementation="adapters.dialects.hami.dialect:Hami",
    writer="adapters.dialects.hami.writer:WRITER",
    vendor=keys.VENDOR,
    uses_node_lock=True,
    pod_annotations=keys.POD_ANNOTATIONS,
    pod_resources=keys.POD_RESOURCES,
    node_sources=(f"annotation {NODE_DEVICES}",),
    # Source: Project-HAMi/HAMi charts/hami/values.yaml, schedulerName.
    scheduler="hami-scheduler",
)
