"""Which cards of a node the fabric (NVSwitch) can join into a partition.

Source: koordinator-sh/koordinator pkg/scheduler/plugins/deviceshare/
{allocator_gpu_helper.go:28-163,device_cache.go:532-545}.
"""

import re

import msgspec

from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.annotation_values import decode
from adapters.dialects.koordinator import keys
from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Amount, DeviceObject, KubeNode, annotations, labels
from adapters.wire.quantity import QuantityError, parse_int
from core.hardware.node import Partition

HOPPER = tuple(
    Partition(indexes)
    for size in (1, 2, 4, 8)
    for indexes in zip(*(range(first, 8, size) for first in range(size)), strict=True)
)
"""Eight cards on NVSwitch: the table that is built into koord-scheduler."""

# koordlet's label is NVML's product name, such as H100-80GB-HBM3. H200 is another product, and the
# PCIe and NVL boards have no NVSwitch.
_HOPPER_MODEL = re.compile(r"(?:NVIDIA-)?(?:H100|H800|H20)(?!.*(?:PCIe|NVL))(?:-.*)?")


class _Ring(msgspec.Struct, frozen=True, rename="camel"):
    minors: tuple[Int64, ...] = ()
    ring_bus_bandwidth: Amount | None = None
    allocation_score: Int64 | str = 0


def read_partitions(
    node: KubeNode, device: DeviceObject, vendor: str, model: str
) -> tuple[tuple[Partition, ...], bool, tuple[str, ...]]:
    """Read the partition table of a node.

    Args:
        node: the node object.
        device: Koordinator's inventory of it.
        vendor: of its cards, in lower case.
        model: of its cards.

    Returns:
        the partitions in the order of the table; whether groups of whole cards must be a
        partition; as sentences what could not be parsed.
    """
    if not annotations(device).get(keys.PARTITIONS):
        known = vendor == keys.NVIDIA and _HOPPER_MODEL.fullmatch(model) is not None
        bind = known and labels(node).get(keys.PARTITION_POLICY) == keys.HONOR
        return (HOPPER if known else ()), bind, ()
    bind = labels(device).get(keys.PARTITION_POLICY) == keys.HONOR
    place = f"Device {device.metadata.name}: metadata.annotations[{keys.PARTITIONS}]"
    try:
        table = decode(annotations(device), keys.PARTITIONS, dict[str, tuple[_Ring, ...] | None])
    except DialectError as error:
        return (), bind, (f"{place}: {error.problem}",)
    partitions: list[Partition] = []
    problems: list[str] = []
    for size, rings in (table or {}).items():
        for ring in rings or ():
            partition = _partition(size, ring)
            if partition is None:
                problems.append(f"{place}: not a partition of {size}: {ring}")
            else:
                partitions.append(partition)
    return tuple(partitions), bind, tuple(problems)


def _partition(size: str, ring: _Ring) -> Partition | None:
    minors = tuple(sorted(set(ring.minors)))
    if str(len(minors)) != size or len(minors) < len(ring.minors) or minors[0] < 0:
        return None
    try:
        bandwidth = parse_int(str(ring.ring_bus_bandwidth or 0))
        return Partition(minors, bandwidth, parse_int(str(ring.allocation_score)))
    except QuantityError:
        return None
