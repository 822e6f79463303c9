"""No description of a card or of a pod gives a card, or a share, of an impossible amount."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.dra.devices import Devices, described
from adapters.dialects.matching import dialect_of
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialects
from adapters.dialects.tests.extremes import EXTREMES, Json, places, replaced
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.dra import ResourceSlice
from adapters.wire.kube import DeviceObject, KubeNode, Pod
from adapters.wire.records.hardware import HardwareRecordError
from adapters.wire.records.hardware import decode as read_status
from adapters.wire.records.ledger import decode, encode
from core.hardware.quantity import FULL, MAX_MEMORY, MAX_NUMBER
from core.ledger.node_ledger import NodeLedger

DIALECTS = dialects({}, Defaults())
KUBE_NODE, POD, SLICE = Decoder(KubeNode), Decoder(Pod), Decoder(ResourceSlice)
DEVICE_OBJECT = Decoder(DeviceObject)
REGISTER = "hami.io/node-nvidia-register"


@dataclass
class Sources:
    """What is known of a node."""

    annotations: dict[str, str]
    capacity: Json = None
    device: Json = None
    status: Json = None
    published: Json = None


def annotated(key: str) -> Callable[[Json], Sources]:
    return lambda value: Sources({key: json.dumps(value)})


VOLCANO = ["GPU-1", 10, 8192, "NVIDIA-A10", "true", "hami-core"]
PROFILE = {"name": "1g.5gb", "memoryMB": 4864, "core": 14, "placements": [{"size": 1, "start": 0}]}
HAMI = {"id": "GPU-1", "count": 10, "devmem": 8192, "type": "NVIDIA-A10", "numa": 0, "index": 0}
MIG = {**HAMI, "mode": "mig", "health": True, "migProfiles": [PROFILE]}
OLDER = ["GPU-1", 10, 8192, 100, "NVIDIA-A10", 0, "true", 0, "hami-core"]
METAX = {
    "uuid": "MX-1",
    "totalDevCount": 16,
    "totalCompute": 100,
    "totalVRam": 65536,
    "numa": 0,
    "linkZone": 1,
}
DEVICE = {
    "metadata": {"name": "n"},
    "spec": {
        "devices": [
            {
                "type": "gpu",
                "id": "GPU-1",
                "minor": 0,
                "health": True,
                "resources": {"koordinator.sh/gpu-memory": "80Gi"},
                "topology": {"socketID": 0, "nodeID": 0, "pcieID": "p", "busID": "b"},
            }
        ]
    },
}
STATUS = {
    "cards": [
        {
            "uuid": "GPU-1",
            "index": 0,
            "vendor": "nvidia",
            "model": "A10",
            "memory": 8 << 30,
            "slots": 10,
            "numa": 0,
        }
    ]
}
PUBLISHED = {
    "attributes": {
        "uuid": {"string": "GPU-1"},
        "index": {"int": 0},
        "resource.kubernetes.io/numaNode": {"int": 0},
    },
    "capacity": {"memory": {"value": "8Gi"}, "slots": {"value": "10"}, "cores": {"value": 100}},
}
DESCRIPTIONS: dict[str, tuple[Json, Callable[[Json], Sources]]] = {
    "volcano": (
        VOLCANO,
        lambda value: Sources({"volcano.sh/node-vgpu-register": ",".join(map(str, value)) + ":"}),
    ),
    "hami": ([MIG], annotated(REGISTER)),
    "hami before JSON": (
        OLDER,
        lambda value: Sources({REGISTER: ",".join(map(str, value)) + ":"}),
    ),
    "metax": ([METAX], annotated("metax-tech.com/node-gpu-devices")),
    "metax, whole cards": ({"metax-tech.com/gpu": 1}, lambda value: Sources({}, capacity=value)),
    "koordinator": (DEVICE, lambda value: Sources({}, device=value)),
    "the agent": (STATUS, lambda value: Sources({}, status=value)),
    "a slice": (PUBLISHED, lambda value: Sources({}, published=value)),
    "a slice of NVIDIA": (
        {**PUBLISHED, "capacity": {"memory": {"value": "8Gi"}, "shares": {"value": 4}}},
        lambda value: Sources({}, published=value),
    ),
}


def ledger_read_from(sources: Sources) -> NodeLedger:
    """The ledger of a node as the service reads it.

    Raises:
        UnreadableError: an object cannot be decoded.
        HardwareRecordError: the agent's report cannot be decoded.
    """
    resources: Json = sources.capacity or {}
    node: Json = {
        "metadata": {"name": "n", "annotations": sources.annotations},
        "status": {"capacity": resources, "allocatable": resources},
    }
    published: dict[str, object] = {"name": "gpu-0", **(sources.published or {})}
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": "n",
        "pool": {"name": "n"},
        "devices": [published],
    }
    slices = SLICE.decode(json.dumps({"spec": spec}))
    found, _ = read_node(
        KUBE_NODE.decode(json.dumps(node)),
        DEVICE_OBJECT.decode(json.dumps(sources.device)) if sources.device else None,
        DIALECTS,
        read_status(json.dumps(sources.status).encode(), "n") if sources.status else None,
        described("n", Devices([slices]).of_node("n")),
    )
    return NodeLedger.of(found)


@pytest.mark.parametrize("source", DESCRIPTIONS)
def test_no_source_describes_a_card_of_an_impossible_amount(source: str) -> None:
    document, read = DESCRIPTIONS[source]

    assert len(ledger_read_from(read(document)).node.cards) == 1
    for place in places(document):
        for extreme in EXTREMES:
            try:
                found = ledger_read_from(read(replaced(document, place, extreme)))
            except (UnreadableError, HardwareRecordError):
                continue
            for card in found.node.cards:
                assert 0 < card.memory <= MAX_MEMORY, (place, extreme)
                assert 0 < card.slots <= MAX_NUMBER, (place, extreme)
                assert 0 <= card.index <= MAX_NUMBER, (place, extreme)
                assert 0 <= (card.numa or 0) <= MAX_NUMBER, (place, extreme)
            assert decode(encode(found)) == found, (place, extreme)


@pytest.mark.parametrize(
    "text", [json.dumps({str(number): 1}) for number in (-1, 1025, 1 << 64, 10**30)]
)
@pytest.mark.parametrize("key", ["losses", "scores"])
def test_a_table_for_more_cards_than_a_node_has_is_ignored(key: str, text: str) -> None:
    sources = annotated("metax-tech.com/node-gpu-devices")([METAX])
    sources.annotations[f"metax-tech.com/gpu.topology.{key}"] = text

    found = ledger_read_from(sources)

    assert (found.node.losses, found.node.gains) == ((), ())
    assert decode(encode(found)) == found


REQUESTS: tuple[dict[str, object], ...] = (
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4000, "volcano.sh/vgpu-cores": 10},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 50},
    {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50},
    {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory": "4Gi"},
    {
        "koordinator.sh/gpu.shared": 1,
        "koordinator.sh/gpu-core": 50,
        "koordinator.sh/gpu-memory-ratio": 50,
    },
    {"koordinator.sh/gpu": 50},
    {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 10},
    {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 30, "nvidia.com/priority": 1},
    {"nvidia.com/gpu": 1},
    {"nvidia.com/gpu.shared": 1},
    {"nvidia.com/mig-1g.5gb": 1},
    {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 10, "metax-tech.com/vmemory": 4},
    {"metax-tech.com/gpu": 1},
)


@pytest.mark.parametrize("limits", REQUESTS, ids="+".join)
def test_no_request_is_for_a_share_of_nothing(limits: dict[str, object]) -> None:
    for place in places(limits):
        for extreme in EXTREMES:
            resources = {"limits": replaced(limits, place, extreme)}
            spec = {"containers": [{"name": "main", "resources": resources}]}
            pod = POD.decode(json.dumps({"metadata": {"name": "p"}, "spec": spec}))
            try:
                dialect = dialect_of(pod, DIALECTS)
                containers = () if dialect is None else dialect.read_request(pod).containers
            except DialectError:
                continue
            for each in containers:
                assert each.count >= 1, (place, extreme)
                assert (each.memory is None) != (each.memory_percent is None), (place, extreme)
                assert each.memory is None or each.memory >= 1, (place, extreme)
                percent = each.memory_percent
                assert percent is None or 1 <= percent <= FULL, (place, extreme)
                assert 0 <= each.compute <= FULL, (place, extreme)
