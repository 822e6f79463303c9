"""The MetaX section of HAMi's device configuration.

Source: HAMi v2.10.0 pkg/device/metax/config.go:21-30.
"""

from dataclasses import dataclass

import msgspec

from adapters.dialects.dialect import DialectError, Documents
from adapters.dialects.formats.hami_device_config import read_device_config, section_path
from adapters.dialects.metax import keys


@dataclass(frozen=True, slots=True)
class MetaxConfig:
    """The settings of this dialect.

    Attributes:
        sgpu: resource that counts shares of cards.
        vcore: resource that is the percent of compute of each.
        vmemory: resource that is the memory of each.
        gpu: resource that counts whole cards.
        topology_aware: whether links count in the choice of the node; None where not stated.
    """

    sgpu: str = keys.SGPU
    vcore: str = keys.VCORE
    vmemory: str = keys.VMEMORY
    gpu: str = keys.GPU
    topology_aware: bool | None = None

    @property
    def resources(self) -> tuple[str, ...]:
        """All resource names."""
        return (self.sgpu, self.vcore, self.vmemory, self.gpu)


class _Metax(msgspec.Struct, frozen=True, rename="camel"):
    resource_count_name: str = keys.GPU
    resource_v_count_name: str = keys.SGPU
    resource_v_memory_name: str = keys.VMEMORY
    resource_v_core_name: str = keys.VCORE
    sgpu_topology_aware: bool | None = None


class _Document(msgspec.Struct, frozen=True):
    metax: _Metax | None = None


def read_config(settings: Documents) -> MetaxConfig:
    """Read the settings; what the file omits gets HAMi's default.

    Raises:
        DialectError: the file has an invalid value.
    """
    metax = read_device_config(settings, keys.NAME, _Document).metax or _Metax()
    config = MetaxConfig(
        sgpu=metax.resource_v_count_name,
        vcore=metax.resource_v_core_name,
        vmemory=metax.resource_v_memory_name,
        gpu=metax.resource_count_name,
        topology_aware=metax.sgpu_topology_aware,
    )
    if "" in config.resources or len(set(config.resources)) < len(config.resources):
        field = section_path(keys.NAME)
        raise DialectError(field, config.resources, "must be four different resource names")
    return config
