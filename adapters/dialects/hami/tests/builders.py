"""Pods and nodes, as users and HAMi's device plugin write them, and a reader of the results."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from adapters.dialects.dialect import Defaults, DialectError, Documents
from adapters.dialects.formats.hami_policies import DEVICE_CONFIG
from adapters.dialects.hami.dialect import Hami
from adapters.dialects.tests import pods
from adapters.wire.kube import Amount, Container, KubeNode, Metadata, NodeStatus, Pod
from core.feasibility.fit import fit
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.reason import Reason
from core.requests.request import ContainerRequest, Request

GOLDEN = Path(__file__).parent / "golden"
HAMI = Hami.configured({}, Defaults())
NOW = 1_790_000_000_123_456_789


def a_hami(defaults: Defaults | None = None, **nvidia: object) -> Hami:
    """With these values in the NVIDIA section of HAMi's device configuration."""
    return Hami.configured(with_config(**nvidia), defaults or Defaults())


def with_config(**nvidia: object) -> Documents:
    return {DEVICE_CONFIG: {"nvidia": nvidia, "metax": {}}}


def a_container(
    limits: Mapping[str, Amount] | None = None, name: str = "main", *, sidecar: bool = False
) -> Container:
    """Resources have names without ``nvidia.com/``."""
    return pods.a_container("nvidia.com/", limits, name=name, sidecar=sidecar)


def a_pod(
    *containers: Container | Mapping[str, Amount],
    annotations: Mapping[str, str] | None = None,
    init: Sequence[Container] = (),
    node: str | None = None,
) -> Pod:
    """A mapping makes the one container with these limits."""
    made = [each if isinstance(each, Container) else a_container(each) for each in containers]
    return pods.a_pod(made, annotations, init, node=node)


def a_device(number: int = 0, **changes: object) -> dict[str, object]:
    """One entry of a node's annotation, as HAMi v2.10 writes it."""
    plain = {
        "id": f"GPU-{number}",
        "index": number,
        "count": 10,
        "devmem": 40960,
        "devcore": 100,
        "type": "NVIDIA-A100-PCIE-40GB",
        "mode": "hami-core",
        "health": True,
    }
    return {**plain, **changes}


PROFILES = [
    {
        "name": "1g.5gb",
        "memoryMB": 4864,
        "core": 15,
        "sliceCount": 1,
        "placements": [{"start": start, "size": 1} for start in range(7)],
    },
    {
        "name": "2g.10gb",
        "memoryMB": 9856,
        "core": 29,
        "sliceCount": 2,
        "placements": [{"start": start, "size": 2} for start in (0, 2, 4)],
    },
    {
        "name": "3g.20gb",
        "memoryMB": 19968,
        "core": 43,
        "sliceCount": 3,
        "placements": [{"start": start, "size": 4} for start in (0, 4)],
    },
]
"""What NVML says of an A100 of 40 GB, as HAMi v2.10 writes it."""


def a_mig_device(number: int = 0) -> dict[str, object]:
    return a_device(number, mode="mig", count=7, migProfiles=PROFILES)


def a_kube_node(
    *devices: Mapping[str, object],
    annotations: Mapping[str, str] | None = None,
    allocatable: Mapping[str, Amount] | None = None,
    name: str = "n",
) -> KubeNode:
    texts = {"hami.io/node-nvidia-register": json.dumps(devices), **(annotations or {})}
    status = NodeStatus(allocatable=None if allocatable is None else dict(allocatable))
    return KubeNode(Metadata(name, annotations=texts), status=status)


def the_node(kube: KubeNode, hami: Hami = HAMI) -> Node:
    """The node as the core sees it, where only this dialect describes it."""
    return Node(kube.metadata.name, hami.read_node(kube, None).cards)


def cards(number: int, name: str = "n") -> Node:
    return the_node(a_kube_node(*(a_device(index) for index in range(number)), name=name))


def read(pod: Pod, hami: Hami = HAMI) -> Request:
    assert hami.matches(pod)
    return hami.read_request(pod)


def only(pod: Pod, hami: Hami = HAMI) -> ContainerRequest:
    """The request of the one container."""
    (container,) = read(pod, hami).containers
    return container


def place(pod: Pod, node: Node | NodeLedger, hami: Hami = HAMI) -> Placement:
    """The placement of the pod, which must fit."""
    ledger = node if isinstance(node, NodeLedger) else NodeLedger.of(node)
    found = fit(read(pod, hami), ledger)
    assert isinstance(found, Placement), found.text()
    return found


def rejection(pod: Pod, node: Node | NodeLedger) -> Reason:
    """The reason why the pod does not fit; it must not fit."""
    found = fit(read(pod), node if isinstance(node, NodeLedger) else NodeLedger.of(node))
    assert isinstance(found, Reason), found
    return found


def run(ledger: NodeLedger, *pods: Pod, hami: Hami = HAMI) -> NodeLedger:
    """The ledger after the pods were placed in sequence."""
    for pod in pods:
        ledger = ledger.reserve(Allocation.of(read(pod, hami), place(pod, ledger, hami)))
    return ledger


def request_or_error(pod: Pod, hami: Hami = HAMI) -> Request | DialectError:
    try:
        return hami.read_request(pod)
    except DialectError as error:
        return error


@dataclass(frozen=True)
class PluginDevice:
    """One device of a container, as HAMi's device plugin decodes it."""

    uuid: str
    memory: int
    cores: int


def as_the_plugin_reads(pod: Pod, written: Mapping[str, str]) -> dict[str, list[PluginDevice]]:
    """The devices of each container by the rules of the plugin's source, not by our reader.

    Source: pkg/device/devices.go, DecodePodDevices, DecodeContainerDevices; the index runs over
    init containers, then main containers:
    pkg/device-plugin/nvidiadevice/nvinternal/plugin/util.go, popNextContainerDevices.
    """
    containers = [*(pod.spec.init_containers or ()), *pod.spec.containers]
    found: dict[str, list[PluginDevice]] = {}
    for index, segment in enumerate(written["hami.io/vgpu-devices-to-allocate"].split(";")):
        devices: list[PluginDevice] = []
        for one in segment.split(":"):
            if "," in one:
                uuid, kind, memory, cores = one.split(",")
                assert kind == "NVIDIA"
                devices.append(PluginDevice(uuid, int(memory), int(cores)))
        if devices:
            found[containers[index].name] = devices
    return found
