"""The entry of MetaX under HAMi in the registry."""

from adapters.dialects.formats.hami_device_config import DEVICE_CONFIG, DEVICE_CONFIG_LABEL
from adapters.dialects.info import DialectInfo, DialectStyle
from adapters.dialects.metax import keys

INFO = DialectInfo(
    name=keys.NAME,
    style=DialectStyle("#8a63c9", "medium_purple1", "▒", "M"),
    result_keys=keys.RESULT_KEYS,
    allocation_annotations=frozenset({keys.SGPU_ALLOCATED, keys.GPU_ALLOCATED}),
    documents=frozenset({DEVICE_CONFIG}),
    labelled_documents=frozenset({(DEVICE_CONFIG_LABEL, DEVICE_CONFIG)}),
    implementation="adapters.dialects.metax.dialect:Metax",
    writer="adapters.dialects.metax.writer:WRITER",
    vendor=keys.NAME,
    uses_node_lock=True,
    pod_annotations=keys.POD_ANNOTATIONS,
    pod_resources=frozenset({keys.SGPU, keys.VCORE, keys.VMEMORY, keys.GPU}),
    node_sources=(f"annotation {keys.NODE_DEVICES}", f"resource {keys.GPU}"),
)
