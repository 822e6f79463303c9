"""The pods of the guides, placed, and the ledgers that hold them."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from adapters.cli.fleet.fleet import configured_dialects
from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import sources
from adapters.dialects.dialect import Defaults
from adapters.dialects.matching import dialect_of
from adapters.dialects.merge import read_node
from adapters.wire.kube import annotations, full_name
from core.feasibility.cache import FeasibilityCache
from core.feasibility.inventory import Inventory, NodeNames
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from e2e.harness.processes.run import REPOSITORY

EXAMPLES = REPOSITORY / "configs" / "examples"


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod with a share.

    Attributes:
        name: ``namespace/name``.
        annotations: its own, and those of the result.
        containers: names of those that asked.
    """

    name: str
    uid: str
    node: str
    annotations: Mapping[str, str]
    containers: tuple[str, ...]


def placed(file: str) -> tuple[dict[str, Placed], dict[str, NodeLedger]]:
    """The pending pods of one of the examples, by name, and the ledgers, by node."""
    found = manifests(sources([str(Path(EXAMPLES, file))], BytesIO()))
    dialects = configured_dialects(found.config_maps, Defaults())
    nodes = {}
    for name, (kube, _) in found.nodes.items():
        device, _ = found.devices.get(name, (None, None))
        nodes[name], _ = read_node(kube, device, dialects)
    inventory = Inventory([NodeLedger.of(node) for node in nodes.values()])
    pods: dict[str, Placed] = {}
    for pod, _ in found.pods.values():
        dialect = dialect_of(pod, dialects)
        if dialect is None or pod.spec.node_name:
            continue
        request = dialect.read_request(pod)
        placement = (
            FeasibilityCache().evaluate(request, inventory).decide(NodeNames(nodes)).placement
        )
        if placement is None:
            continue
        node = placement.node
        uid = f"uid-{pod.metadata.name}"
        result = dialect.write_result(pod, request, placement, nodes[node], 1)
        allocation = Allocation.of(request, placement)
        allocation = Allocation(uid, allocation.pod, allocation.dialect, node, allocation.grants)
        inventory.put(inventory.ledger(node).reserve(allocation).commit(uid))
        pods[pod.metadata.name] = Placed(
            full_name(pod),
            uid,
            node,
            {**annotations(pod), **result.annotations},
            tuple(dict.fromkeys(grant.container for grant in placement.grants)),
        )
    return pods, {name: inventory.ledger(name) for name in nodes}
