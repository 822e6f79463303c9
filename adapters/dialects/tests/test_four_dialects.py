"""Pods of all four dialects share one card that all four describe, to the last byte."""

import json

from adapters.dialects.adoption import adopt
from adapters.dialects.dialect import Defaults
from adapters.dialects.matching import dialect_of
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialects
from adapters.dialects.tests.pods import a_container, a_pod
from adapters.wire.kube import (
    Amount,
    Container,
    DeviceInfo,
    DeviceObject,
    DeviceSpec,
    KubeNode,
    Metadata,
    Resources,
)
from core.feasibility.fit import fit
from core.hardware.quantity import GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.reason import Reason

ALL = dialects({}, Defaults())
NOW = 1_790_000_000_123_456_789
SIZE = 16 * GIB

KUBE = KubeNode(
    Metadata(
        "n",
        annotations={
            "volcano.sh/node-vgpu-register": "GPU-0,10,16384,NVIDIA-A100,true,hami-core:",
            "metax-tech.com/node-gpu-devices": json.dumps(
                [
                    {
                        "uuid": "GPU-0",
                        "totalDevCount": 16,
                        "totalCompute": 100,
                        "totalVRam": 16384,
                        "healthy": True,
                    }
                ]
            ),
            "hami.io/node-nvidia-register": json.dumps(
                [
                    {
                        "id": "GPU-0",
                        "count": 10,
                        "devmem": 16384,
                        "devcore": 100,
                        "type": "NVIDIA A100",
                        "mode": "hami-core",
                        "health": True,
                    }
                ]
            ),
        },
    )
)
DEVICE = DeviceObject(
    Metadata("n"),
    DeviceSpec(
        (
            DeviceInfo(
                type="gpu",
                id="GPU-0",
                minor=0,
                health=True,
                resources={"koordinator.sh/gpu-memory": "16Gi"},
            ),
        )
    ),
)

PODS: dict[str, dict[str, Amount]] = {
    "volcano": {
        "volcano.sh/vgpu-number": 1,
        "volcano.sh/vgpu-memory": 3000,
        "volcano.sh/vgpu-cores": 20,
    },
    "koordinator": {
        "koordinator.sh/gpu-memory": SIZE - (3000 + 4096 + 5000) * MIB,
        "koordinator.sh/gpu-core": 30,
    },
    "metax": {
        "metax-tech.com/sgpu": 1,
        "metax-tech.com/vmemory": 4,
        "metax-tech.com/vcore": 25,
    },
    "hami": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 5000, "nvidia.com/gpucores": 25},
}
RECORDS = {
    "volcano": {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,3000,20:"},
    "koordinator": {
        "scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0,'
        '"resources":{"koordinator.sh/gpu-core":"30","koordinator.sh/gpu-memory":"4288Mi",'
        '"koordinator.sh/gpu-memory-ratio":"26"},"id":"GPU-0"}]}'
    },
    "metax": {
        "metax-tech.com/gpu-devices-allocated": '[[{"uuid":"GPU-0","compute":25,"vRam":4096}]]'
    },
    "hami": {
        "hami.io/vgpu-devices-to-allocate": "GPU-0,NVIDIA,5000,25:;",
        "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,5000,25:;",
    },
}


def test_pods_of_four_dialects_share_one_card_to_the_byte() -> None:
    node, problems = read_node(KUBE, DEVICE, ALL)
    ledger = NodeLedger.of(node)
    adopted = NodeLedger.of(node)
    assert problems == ()
    (card,) = node.cards
    assert card.dialects == {"volcano", "koordinator", "metax", "hami"}

    for name, limits in PODS.items():
        main = Container("main", Resources(limits=limits))
        pod = a_pod([main], name=name)
        dialect = dialect_of(pod, ALL)
        assert dialect is not None
        assert dialect.name == name
        request = dialect.read_request(pod)
        placement = fit(request, ledger)
        assert isinstance(placement, Placement), placement
        ledger = ledger.reserve(Allocation.of(request, placement)).commit(request.uid)
        written = dialect.write_result(pod, request, placement, node, NOW).annotations
        assert RECORDS[name].items() <= written.items()
        found = adopt(a_pod([main], written, node="n", name=name), node, ALL)
        assert found is not None
        adopted = adopted.adopt(found)

    (use,) = ledger.usages
    assert (use.memory, use.compute, use.slots) == (SIZE, 100, 4)
    assert adopted.usages[0] == use
    one_more = a_pod([a_container("nvidia.com/", {"gpu": 1, "gpumem": 1})])
    hami = dialect_of(one_more, ALL)
    assert hami is not None
    assert isinstance(fit(hami.read_request(one_more), ledger), Reason)
