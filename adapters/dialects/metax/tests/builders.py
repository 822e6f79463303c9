"""Pods, nodes and pods that already run, as their users and HAMi write them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from adapters.dialects.dialect import Defaults, DialectError, Documents
from adapters.dialects.formats import hami_policies
from adapters.dialects.metax import keys
from adapters.dialects.metax.dialect import Metax
from adapters.dialects.tests import pods
from adapters.wire.kube import Amount, Container, KubeNode, Metadata, NodeStatus, Pod
from core.feasibility.fit import fit
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.reason import Reason
from core.requests.request import Request

GOLDEN = Path(__file__).parent / "golden"
METAX = Metax.configured({}, Defaults())


def constant(name: str) -> str:
    """An annotation, by the name of its constant."""
    module = keys if hasattr(keys, name) else hami_policies
    return str(getattr(module, name))


def a_metax(settings: Documents | None = None, defaults: Defaults | None = None) -> Metax:
    return Metax.configured(settings or {}, defaults or Defaults())


def a_container(
    limits: Mapping[str, Amount] | None = None,
    name: str = "main",
    requests: Mapping[str, Amount] | None = None,
    *,
    sidecar: bool = False,
) -> Container:
    """Resources have names without ``metax-tech.com/``."""
    return pods.a_container("metax-tech.com/", limits, requests, name, sidecar=sidecar)


def a_pod(
    *containers: Container | Mapping[str, Amount],
    annotations: Mapping[str, str] | None = None,
    init: Sequence[Container] = (),
    priority: int | None = None,
    name: str = "",
) -> Pod:
    """A mapping makes the one container with these limits."""
    made = [each if isinstance(each, Container) else a_container(each) for each in containers]
    return pods.a_pod(made, annotations, init, priority=priority, name=name)


def a_device(number: int, **changes: object) -> dict[str, object]:
    """One entry of a node's record, as on the golden node."""
    return {
        "uuid": f"GPU-{number}",
        "bdf": f"0000:{number:x}8:00.0",
        "model": "sgpu",
        "totalDevCount": 16,
        "totalCompute": 100,
        "totalVRam": 65536,
        "healthy": True,
        **changes,
    }


def a_kube_node(
    devices: object = None,
    name: str = "node-a",
    capacity: Mapping[str, Amount] | None = None,
    allocatable: Mapping[str, Amount] | None = None,
    losses: str | None = None,
    scores: str | None = None,
) -> KubeNode:
    """Devices are entries of the record, or its text."""
    tables = {"losses": losses, "scores": scores}
    texts = {
        f"metax-tech.com/gpu.topology.{key}": table
        for key, table in tables.items()
        if table is not None
    }
    if devices is not None:
        text = devices if isinstance(devices, str) else msgspec.json.encode(devices).decode()
        texts["metax-tech.com/node-gpu-devices"] = text
    return KubeNode(
        metadata=Metadata(name=name, annotations=texts),
        status=NodeStatus(
            capacity=None if capacity is None else dict(capacity),
            allocatable=None if allocatable is None else dict(allocatable),
        ),
    )


def the_node(kube: KubeNode, metax: Metax = METAX) -> Node:
    """The node as the core sees it, where only this dialect describes it."""
    description = metax.read_node(kube, None)
    return Node(
        kube.metadata.name, description.cards, losses=description.losses, gains=description.gains
    )


def zones(*sizes: int, name: str = "node-a") -> Node:
    """A node with shared cards, of which the first are linked in zones of these sizes."""
    places = [zone for zone, size in enumerate(sizes, start=1) for _ in range(size)]
    return the_node(
        a_kube_node([a_device(n, linkZone=zone) for n, zone in enumerate(places)], name)
    )


def golden_node() -> Node:
    return the_node(a_kube_node((GOLDEN / "node_8_cards.json").read_text().strip()))


def whole_node(
    cards: int = 8,
    name: str = "node-a",
    losses: str | None = None,
    scores: str | None = None,
) -> Node:
    capacity = {"metax-tech.com/gpu": str(cards)}
    return the_node(a_kube_node(name=name, capacity=capacity, losses=losses, scores=scores))


def place(pod: Pod, ledger: NodeLedger, metax: Metax = METAX) -> Placement:
    """The placement of the pod, which must fit."""
    found = fit(metax.read_request(pod), ledger)
    assert isinstance(found, Placement), found.text()
    return found


def rejection(pod: Pod, ledger: NodeLedger, metax: Metax = METAX) -> Reason:
    """The reason why the pod does not fit; it must not fit."""
    found = fit(metax.read_request(pod), ledger)
    assert isinstance(found, Reason), found
    return found


def run(ledger: NodeLedger, *pods: Pod, metax: Metax = METAX) -> NodeLedger:
    """The ledger after the pods were placed in sequence."""
    for pod in pods:
        request = metax.read_request(pod)
        ledger = ledger.reserve(Allocation.of(request, place(pod, ledger, metax)))
    return ledger


def indexes(ledger: NodeLedger, placement: Placement) -> list[int]:
    """The cards of a placement, by index, in the order of the grants."""
    index = {card.uuid: card.index for card in ledger.node.cards}
    return [index[grant.card] for grant in placement.grants]


def read(pod: Pod, metax: Metax = METAX) -> Request:
    return metax.read_request(pod)


def request_or_error(pod: Pod) -> Request | DialectError:
    """The request, or the error."""
    try:
        return METAX.read_request(pod)
    except DialectError as error:
        return error
