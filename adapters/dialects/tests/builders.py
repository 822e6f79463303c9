"""Pods on a node, in any dialect, and a node that all dialects describe."""

import json
from collections.abc import Mapping
from pathlib import Path

from adapters.dialects.dialect import Defaults
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialects
from adapters.wire.kube import (
    Amount,
    Container,
    DeviceInfo,
    DeviceObject,
    DeviceSpec,
    KubeNode,
    Metadata,
    Pod,
    PodSpec,
    Resources,
    Text,
)

GOLDEN = Path(__file__).parent / "golden" / "adopted"
GEOMETRY = {
    "models": ["A100-SXM4-40GB"],
    "allowedGeometries": [
        {"group": "group1", "geometries": [{"name": "1g.5gb", "memory": 5120, "count": 7}]}
    ],
}
SETTINGS = {
    ("volcano-vgpu-device-config", "device-config.yaml"): {
        "nvidia": {"gpuMemoryFactor": 1, "knownMigGeometries": [GEOMETRY]}
    }
}
ALL = dialects(SETTINGS, Defaults())
KUBE = KubeNode(
    Metadata(
        name="n",
        annotations={
            "volcano.sh/node-vgpu-register": "u0,10,81920,NVIDIA-A100-SXM4-80GB,true,hami-core:"
            "u1,10,81920,NVIDIA-A100-SXM4-80GB,true,hami-core:"
            "u2,10,40960,NVIDIA-A100-SXM4-40GB,true,mig:",
            "metax-tech.com/node-gpu-devices": json.dumps(
                [
                    {
                        "uuid": uuid,
                        "totalDevCount": 16,
                        "totalCompute": 100,
                        "totalVRam": 65536,
                        "healthy": True,
                    }
                    for uuid in ("m0", "m1")
                ]
            ),
        },
    )
)
DEVICE = DeviceObject(
    Metadata(name="n"),
    DeviceSpec(
        tuple(
            DeviceInfo(
                type="gpu",
                id=f"u{minor}",
                minor=minor,
                health=True,
                resources={"koordinator.sh/gpu-memory": "80Gi"},
            )
            for minor in range(2)
        )
    ),
)
NODE, PROBLEMS = read_node(KUBE, DEVICE, ALL)


def bound(limits: Mapping[str, Amount], annotations: Text | None = None) -> Pod:
    """A pod of one container on node ``n``."""
    return Pod(
        Metadata(name="p", namespace="d", uid="7", annotations=annotations),
        PodSpec(containers=(Container("c", Resources(limits=dict(limits))),), node_name="n"),
    )
