"""Which nodes have cards that a ledger can count, and as what device plugins state the others."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Raw

from adapters.cli.doctor.objects import ProgramNode
from adapters.cli.doctor.observed import Observed
from adapters.dialects import registry
from adapters.dialects.dialect import Defaults
from adapters.dialects.merge import read_node
from adapters.wire.kube import KubeNode, NodeStatus
from adapters.wire.records import hardware
from adapters.wire.records.hardware import HardwareRecordError, NodeHardware
from core.hardware.node import Node


@dataclass(frozen=True, slots=True)
class DescribedNode:
    """A node with cards.

    Attributes:
        node: with the cards that annotations, the Device object and the agent describe.
        by_agent: whether the agent reports cards.
    """

    node: Node
    by_agent: bool

    def has_dialect(self, name: str) -> bool:
        """Whether a dialect describes one of the cards."""
        return any(name in card.dialects for card in self.node.cards)


def nodes_with_cards(seen: Observed) -> Mapping[str, DescribedNode]:
    """The nodes whose cards an annotation, a Device or an agent describes, by name."""
    dialects = registry.dialects({}, Defaults())
    devices = {each.metadata.name: each for each in seen.devices}
    reports = {
        each.metadata.name: _report(each.metadata.name, each.status) for each in seen.ledgers
    }
    found: dict[str, DescribedNode] = {}
    for each in seen.nodes:
        name = each.metadata.name
        report = reports.get(name)
        node, _ = read_node(kube_node(each), devices.get(name), dialects, report)
        if node.cards:
            found[name] = DescribedNode(node, by_agent=bool(report and report.cards))
    return found


def kube_node(node: ProgramNode) -> KubeNode:
    """The node as the dialects read it."""
    status = NodeStatus(capacity=node.status.capacity, allocatable=node.status.allocatable)
    return KubeNode(node.metadata, status=status)


def _report(name: str, status: object) -> NodeHardware | None:
    try:
        return hardware.decode(status, name) if isinstance(status, Raw) else None
    except HardwareRecordError:
        return None
