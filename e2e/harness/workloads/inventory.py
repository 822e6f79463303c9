"""Nodes with cards, described in any dialect, created by the thousand.

The words are written here as the ecosystems' own node components write them and not taken from
the product, so that a test can find out whether the product reads them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.names import CORE, DEVICES, RATIO

MIB = 1 << 20
SLOTS = 10
"""Containers that may share a card, in Volcano's and MetaX's words."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card.

    Attributes:
        uuid: unique in the cluster.
        memory: MiB.
        model: as its maker names it.
        numa: NUMA node.
        link: cards with the same number are connected directly; 0 for none.
        pcie: the root complex; empty where unknown.
    """

    uuid: str
    memory: int = 81920
    model: str = "A100-SXM4-80GB"
    numa: int = 0
    link: int = 0
    pcie: str = ""
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class DialectRecords:
    """What one dialect says of a node.

    Attributes:
        annotations: of the node.
        labels: of the node.
        resources: capacity and allocatable of the node.
        device: the specification of its Device object, None where there is none.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    device: Object | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """A node for kwok, and its Device object if it has one."""

    node: Object
    device: Object | None = None


def gpus(node: str, count: int, memory: int = 81920) -> tuple[Gpu, ...]:
    """Cards for a node: two NUMA nodes, four cards to a link group, two to a root complex."""
    return tuple(
        Gpu(
            uuid=f"GPU-{node}-{index}",
            memory=memory,
            numa=index * 2 // count,
            link=index // 4 + 1,
            pcie=f"pci0000:{index // 2:02x}",
        )
        for index in range(count)
    )


def volcano(cards: Sequence[Gpu], mode: str = "hami-core", slots: int = SLOTS) -> DialectRecords:
    """Cards as Volcano's device plugin registers them.

    Source: volcano-vgpu-device-plugin pkg/util/util.go (the annotation), pkg/plugin/server.go.
    """
    register = "".join(
        f"{card.uuid},{slots},{card.memory},NVIDIA-{card.model},{_boolean(card.healthy)},{mode}:"
        for card in cards
    )
    usable = [card for card in cards if card.healthy]
    return DialectRecords(
        annotations={"volcano.sh/node-vgpu-register": register},
        resources={
            "volcano.sh/vgpu-number": str(slots * len(usable)),
            "volcano.sh/vgpu-memory": str(sum(card.memory for card in usable)),
            "volcano.sh/vgpu-cores": str(100 * len(usable)),
        },
    )


def metax(cards: Sequence[Gpu], slots: int = SLOTS) -> DialectRecords:
    """Cards that may be shared, as MetaX's device plugin registers them.

    Source: HAMi v2.10.0 pkg/device/metax/protocol.go.
    """
    devices = [
        {
            "uuid": card.uuid,
            "model": card.model,
            "totalDevCount": slots,
            "totalCompute": 100,
            "totalVRam": card.memory,
            "availableDevCount": slots,
            "availableCompute": 100,
            "availableVRam": card.memory,
            "numa": card.numa,
            "healthy": card.healthy,
            "qosPolicy": "best-effort",
            "linkZone": card.link,
        }
        for card in cards
    ]
    # A Go field that is marked omitempty is not written where it is zero.
    written = [{key: value for key, value in row.items() if value} for row in devices]
    return DialectRecords(
        annotations={"metax-tech.com/node-gpu-devices": json.dumps(written)},
        resources={"metax-tech.com/sgpu": str(slots * len(cards))},
    )


def hami(cards: Sequence[Gpu], slots: int = SLOTS) -> DialectRecords:
    """Cards as HAMi's device plugin registers them.

    Source: HAMi v2.10 pkg/device/devices.go, DeviceInfo. A Go field that is zero is not written.
    """
    devices = [
        {"id": card.uuid}
        | ({"index": index} if index else {})
        | {
            "count": slots,
            "devmem": card.memory,
            "devcore": 100,
            "type": f"NVIDIA-{card.model}",
            "mode": "hami-core",
            "health": card.healthy,
        }
        for index, card in enumerate(cards)
    ]
    return DialectRecords(
        annotations={"hami.io/node-nvidia-register": json.dumps(devices)},
        resources={"nvidia.com/gpu": str(slots * len(cards))},
    )


def metax_whole(count: int) -> DialectRecords:
    """MetaX cards of which a node says only how many there are. Source: as for ``metax``."""
    return DialectRecords(resources={"metax-tech.com/gpu": str(count)})


def koordinator(
    cards: Sequence[Gpu], vendor: str = "nvidia", *, with_shared: bool = False
) -> DialectRecords:
    """Cards as koordlet describes them and koord-manager sums them up on the node.

    Args:
        cards: by ascending minor, at least one.
        vendor: of all of them.
        with_shared: ``gpu.shared`` too, as with the gate EnableSyncGPUSharedResource.

    Source: koordinator pkg/koordlet/statesinformer/impl/states_device_linux.go, and
    pkg/slo-controller/noderesource/plugins/gpudeviceresource/plugin.go.
    """
    labels = {
        "node.koordinator.sh/gpu-vendor": vendor,
        "node.koordinator.sh/gpu-model": cards[0].model,
    }
    devices = [
        {
            "type": "gpu",
            "id": card.uuid,
            "minor": minor,
            "health": card.healthy,
            "resources": {
                CORE: "100",
                RATIO: "100",
                "koordinator.sh/gpu-memory": f"{card.memory}Mi",
            },
            "topology": {"socketID": -1, "nodeID": card.numa, "pcieID": card.pcie, "busID": ""},
        }
        for minor, card in enumerate(cards)
    ]
    usable = [card for card in cards if card.healthy]
    full = str(100 * len(usable))
    memory = f"{sum(card.memory for card in usable)}Mi"
    resources = {CORE: full, RATIO: full, "koordinator.sh/gpu-memory": memory}
    if vendor == "nvidia":
        resources["koordinator.sh/gpu"] = full
    if with_shared:
        resources["koordinator.sh/gpu.shared"] = full
    return DialectRecords(
        labels=labels,
        resources=resources,
        device={"devices": devices},
    )


def described(name: str, *sayings: DialectRecords) -> Described:
    """A node that one dialect describes, or several."""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    resources: dict[str, str] = {}
    for saying in sayings:
        annotations |= saying.annotations
        labels |= saying.labels
        resources |= saying.resources
    node = fake_node(name, resources, annotations, labels)
    devices = [saying.device for saying in sayings if saying.device is not None]
    return Described(node, _device(name, labels, devices[0]) if devices else None)


def add_inventory(api: Api, nodes: Iterable[Described]) -> None:
    """Create nodes and their Device objects, several at a time.

    Koordinator's definitions must be there if any node has a Device object.
    """
    rows = tuple(nodes)
    create_all(api, "/api/v1/nodes", [row.node for row in rows])
    create_all(api, DEVICES, [row.device for row in rows if row.device is not None])


def _device(name: str, labels: Mapping[str, str], spec: Object) -> Object:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": spec,
    }


def _boolean(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"
