"""The port by which the dashboard asks the node agents what is used."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from adapters.wire.agent_report import NodeReport


class AgentReader(Protocol):
    """Asks node agents."""

    @property
    def asks(self) -> bool:
        """Whether it asks at all."""
        ...

    async def reports(self, nodes: Sequence[str]) -> Mapping[str, NodeReport]:
        """What the agents of these nodes report; without those that do not answer in time."""
        ...


class NoAgents:
    """Where agents are not asked."""

    asks = False

    async def reports(self, nodes: Sequence[str]) -> Mapping[str, NodeReport]:  # noqa: ARG002 - the port's
        """Return no report."""
        return {}
