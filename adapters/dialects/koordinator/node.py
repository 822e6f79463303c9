"""Reads the cards of a node from its Device object, and their partitions.

Source: koordinator-sh/koordinator apis/scheduling/v1alpha1/device_types.go. A partition is a set
of cards that the fabric (NVSwitch) can join: pkg/scheduler/plugins/deviceshare/
{allocator_gpu_helper.go:28-163,device_cache.go:532-545}.
"""

import re
from collections import Counter

import msgspec

from adapters.dialects.dialect import DialectError, NodeDescription
from adapters.dialects.formats.annotation_values import decode
from adapters.dialects.formats.koordinator_settings import KoordinatorScheduling
from adapters.dialects.koordinator import keys
from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Amount, DeviceInfo, DeviceObject, KubeNode, annotations, labels
from adapters.wire.quantity import QuantityError, parse_int
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.node import Partition

# pkg/slo-controller/noderesource/plugins/gpudeviceresource/plugin.go:172-235: koord-manager
# publishes gpu.shared as 100 for each healthy card.
SLOTS = 100

_EARLIER_MEMORY = keys.DEPRECATED[keys.MEMORY]


def read_cards(
    node: KubeNode, device: DeviceObject | None, scheduling: KoordinatorScheduling
) -> NodeDescription:
    """Read what Koordinator reports about a node; empty where it has no Device object.

    Args:
        node: the node object.
        device: the Device object of the same name.
        scheduling: the service allocates its ``unshareable`` cards as a whole only.
    """
    if device is None:
        return NodeDescription(slots_stated=False)
    vendor = _label(node, device, keys.VENDOR).lower() or keys.NVIDIA
    model = _label(node, device, keys.MODEL)
    mode = Mode.WHOLE if (vendor, model) in scheduling.unshareable else Mode.SHARED
    infos = [info for info in device.spec.devices or () if info.type == "gpu"]
    minors = Counter(info.minor for info in infos)
    uuids = Counter(info.id for info in infos)
    cards: list[Card] = []
    problems: list[str] = []
    for info in infos:
        stated = info.resources or {}
        try:
            memory = parse_int(str(stated.get(keys.MEMORY, stated.get(_EARLIER_MEMORY, ""))))
        except QuantityError:
            memory = 0
        problem = _problem(info, minors[info.minor], uuids[info.id])
        if info.minor is None or memory < 1 or problem is not None:
            named = info.id or f"minor {info.minor}"
            problem = problem or f"{keys.MEMORY} must be a whole number of bytes, 1 or more"
            problems.append(f"Device {device.metadata.name}: GPU {named}: {problem}; it is ignored")
            continue
        links: list[Scope] = []
        # koordlet writes -1 for an unknown NUMA node.
        numa = info.topology.node_id if info.topology and info.topology.node_id >= 0 else None
        if numa is not None:
            links.append(Scope(Level.NUMA, str(numa)))
        if info.topology and info.topology.pcie_id:
            links.append(Scope(Level.PCIE, info.topology.pcie_id))
        cards.append(
            Card(
                uuid=info.id,
                node=node.metadata.name,
                index=info.minor,
                vendor=vendor,
                model=model,
                memory=memory,
                slots=SLOTS,
                healthy=info.health,
                mode=mode,
                numa=numa,
                links=tuple(links),
                dialects=frozenset({keys.NAME}),
                names=(model,) if model else (),
            )
        )
    partitions, bind, unread = read_partitions(node, device, vendor, model)
    return NodeDescription(
        cards=tuple(sorted(cards, key=lambda card: card.index)),
        slots_stated=False,
        isolation=labels(node).get(keys.ISOLATION) or None,
        partitions=partitions,
        partitions_bind=bind,
        problems=(*problems, *unread),
    )


def _label(node: KubeNode, device: DeviceObject, key: str) -> str:
    """Return a label of the Device, else of the node, to which koord-manager copies it later."""
    return labels(device).get(key) or labels(node).get(key) or ""


def _problem(info: DeviceInfo, same_minor: int, same_uuid: int) -> str | None:
    if info.minor is None or info.minor < 0:
        return "minor must be 0 or more"
    if not info.id:
        return "id is missing"
    if same_minor > 1:
        return f"minor {info.minor} is listed {same_minor} times"
    if same_uuid > 1:
        return f"its id is listed {same_uuid} times"
    if any(name.startswith(keys.NPU_PREFIX) for name in info.resources or ()):
        return "an NPU, which Dragoman does not allocate"
    return None


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
            minors = tuple(sorted(set(ring.minors)))
            try:
                bandwidth = parse_int(str(ring.ring_bus_bandwidth or 0))
                found = Partition(minors, bandwidth, parse_int(str(ring.allocation_score)))
            except QuantityError:
                found = None
            is_set = str(len(minors)) == size and len(minors) == len(ring.minors)
            if found and is_set and min(minors, default=-1) >= 0:
                partitions.append(found)
            else:
                problems.append(f"{place}: not a partition of {size}: {ring}")
    return tuple(partitions), bind, tuple(problems)
