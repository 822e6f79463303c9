"""Pods, Device objects and ledgers, as users and koordlet write them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from adapters.dialects.dialect import Defaults, Documents, NodeDescription
from adapters.dialects.formats.koordinator_settings import SCHEDULER_CONFIG
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.dialect import Koordinator
from adapters.dialects.tests import pods
from adapters.wire.kube import (
    Amount,
    Container,
    DeviceInfo,
    DeviceObject,
    DeviceSpec,
    DeviceTopology,
    KubeNode,
    Metadata,
    Pod,
    Resources,
)
from core.feasibility.fit import fit
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.reason import Reason
from core.requests.request import ContainerRequest, Request

GOLDEN = Path(__file__).parent / "golden"
KOORDINATOR = Koordinator.configured({}, Defaults())
HAMI_CORE = {keys.ISOLATION: "HAMi-core"}

Amounts = Mapping[str, Amount]
"""Amounts by resource; a name without a domain is Koordinator's."""


def a_koordinator(arguments: object = None, defaults: Defaults | None = None) -> Koordinator:
    """With these DeviceShare arguments in koord-scheduler's configuration."""
    return Koordinator.configured(with_arguments(arguments), defaults or Defaults())


def with_arguments(arguments: object) -> Documents:
    plugins: list[object] = [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": 1}},
        {"name": "DeviceShare", "args": arguments},
    ]
    return {SCHEDULER_CONFIG: {"profiles": [{}, {"pluginConfig": plugins}]}}


def a_container(
    limits: Amounts, name: str = "main", requests: Amounts | None = None, *, sidecar: bool = False
) -> Container:
    return Container(
        name=name,
        resources=Resources(limits=_named(limits), requests=_named(requests or {})),
        restart_policy="Always" if sidecar else None,
    )


def a_pod(
    *containers: Container | Amounts,
    init: Sequence[Container] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Pod:
    """Each mapping makes a container with these limits."""
    made = [
        each if isinstance(each, Container) else a_container(each, f"c{place}")
        for place, each in enumerate(containers)
    ]
    return pods.a_pod(made, annotations, init, labels=labels)


def an_info(minor: int | None = 0, memory: str | None = "80Gi", **changes: object) -> DeviceInfo:
    resources: dict[str, Amount] = {keys.CORE: "100", keys.RATIO: "100"}
    if memory is not None:
        resources[keys.MEMORY] = memory
    fields = {
        "type": "gpu",
        "id": f"GPU-{minor}",
        "minor": minor,
        "health": True,
        "resources": resources,
        **changes,
    }
    return DeviceInfo(**fields)  # type: ignore[arg-type]


def plugged(minor: int, numa: int, pcie: str) -> DeviceInfo:
    topology = DeviceTopology(node_id=numa, pcie_id=pcie, bus_id=f"0000:{minor:02x}:00.0")
    return an_info(minor, topology=topology)


def a_device(
    *infos: DeviceInfo,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> DeviceObject:
    return DeviceObject(
        metadata=Metadata(
            name="gpu-a", labels=dict(labels or {}), annotations=dict(annotations or {})
        ),
        spec=DeviceSpec(devices=infos),
    )


def a_kube_node(labels: Mapping[str, str] | None = None, name: str = "gpu-a") -> KubeNode:
    return KubeNode(metadata=Metadata(name=name, labels=dict(labels or {})))


def described(
    device: DeviceObject, kube: KubeNode | None = None, koordinator: Koordinator = KOORDINATOR
) -> NodeDescription:
    return koordinator.read_node(kube or a_kube_node(), device)


def the_node(
    device: DeviceObject, kube: KubeNode | None = None, koordinator: Koordinator = KOORDINATOR
) -> Node:
    """The node as the core sees it, where only this dialect describes it."""
    kube = kube or a_kube_node()
    description = koordinator.read_node(kube, device)
    return Node(
        kube.metadata.name,
        description.cards,
        isolation=description.isolation,
        partitions=description.partitions,
        partitions_bind=description.partitions_bind,
    )


def cards(number: int, memory: str = "80Gi", vendor: str = "nvidia") -> Node:
    """A node with equal cards and unknown topology."""
    labels = {keys.VENDOR: vendor}
    infos = [an_info(minor, memory) for minor in range(number)]
    return the_node(a_device(*infos, labels=labels), a_kube_node(HAMI_CORE))


def eight() -> Node:
    """Topology A of the examples: two NUMA nodes, each of two root complexes of two cards."""
    return the_node(a_device(*(plugged(m, m // 4, f"pci{m // 2}") for m in range(8))))


def hopper(policy: str = "", model: str = "H100-80GB-HBM3") -> Node:
    """Eight cards on NVSwitch, without a table of their own."""
    infos = [plugged(m, m // 4, f"pci{m}") for m in range(8)]
    labels = {keys.PARTITION_POLICY: policy}
    return the_node(a_device(*infos, labels={keys.MODEL: model}), a_kube_node(labels))


def the_request(
    *containers: Container | Amounts, koordinator: Koordinator = KOORDINATOR
) -> Request:
    return koordinator.read_request(a_pod(*containers))


def only_request(requested: Amounts) -> ContainerRequest:
    (wanted,) = the_request(requested).containers
    return wanted


def used(node: Node, *full: int, half: Sequence[int] = ()) -> NodeLedger:
    """The node with some cards fully and some half allocated, each to its own pod."""
    ledger = NodeLedger.of(node)
    by_index = {card.index: card for card in node.cards}
    for index in (*full, *half):
        card = by_index[index]
        share = Grant("c", card.uuid, card.memory // 2, 50)
        if index in full:
            share = Grant("c", card.uuid, card.memory, 100, exclusive=True)
        uid = f"on-{index}"
        ledger = ledger.reserve(Allocation(uid, uid, keys.NAME, node.name, (share,)))
    return ledger


def place(pod: Pod, ledger: NodeLedger, koordinator: Koordinator = KOORDINATOR) -> Placement:
    """The placement of the pod, which must fit."""
    found = fit(koordinator.read_request(pod), ledger)
    assert isinstance(found, Placement), found.text()
    return found


def rejection(pod: Pod, ledger: NodeLedger, koordinator: Koordinator = KOORDINATOR) -> Reason:
    """The reason why the pod does not fit; it must not fit."""
    found = fit(koordinator.read_request(pod), ledger)
    assert isinstance(found, Reason), found
    return found


def run(ledger: NodeLedger, *pods: Pod) -> NodeLedger:
    """The ledger after the pods were placed in sequence."""
    for pod in pods:
        placement = place(pod, ledger)
        ledger = ledger.reserve(Allocation.of(KOORDINATOR.read_request(pod), placement))
    return ledger


def indexes(ledger: NodeLedger, placement: Placement) -> list[int]:
    """The cards of a placement, by index, in the order of the grants."""
    index = {card.uuid: card.index for card in ledger.node.cards}
    return [index[grant.card] for grant in placement.grants]


def bound(pod: Pod, written: Mapping[str, str]) -> Pod:
    """The pod with these annotations in addition to its own."""
    metadata = pod.metadata
    annotations = {**(metadata.annotations or {}), **written}
    return Pod(
        Metadata(metadata.name, metadata.namespace, metadata.uid, metadata.labels, annotations),
        pod.spec,
        pod.status,
    )


def gib(amount: int) -> int:
    return amount * GIB


def without_health(node: Node, index: int) -> Node:
    return replace(
        node,
        cards=tuple(
            replace(card, healthy=False) if card.index == index else card for card in node.cards
        ),
    )


def _named(requested: Amounts) -> dict[str, Amount]:
    return {name if "/" in name else f"koordinator.sh/{name}": n for name, n in requested.items()}
