"""What the node agents of a cluster report, as far as they could be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from adapters.wire.agent_report import UNKNOWN, NodeReport, Use, short, total


@dataclass(frozen=True, slots=True)
class AgentReports:
    """All nodes whose agent was read.

    Attributes:
        nodes: by name.
        unread: why others were not, as sentences.
    """

    nodes: Mapping[str, NodeReport] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def card(self, node: str, uuid: str) -> Use:
        """What a card has in use."""
        report = self.nodes.get(node)
        return UNKNOWN if report is None else report.cards.get(short(uuid), UNKNOWN)

    def pod(self, node: str, pod: str) -> Use:
        """What the containers of a pod use of all cards."""
        report = self.nodes.get(node, NodeReport())
        return total(Use(each.used, each.compute) for each in report.containers if each.pod == pod)


NO_REPORTS = AgentReports()
