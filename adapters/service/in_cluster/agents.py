"""The node agents of a cluster: the watch of their pods, and the questions to their metrics."""

from collections.abc import Coroutine, Sequence
from typing import Any

from adapters.cluster.api.plain import PlainReader
from adapters.service.cluster_state.agent_pods import AgentPods
from adapters.service.in_cluster.agent_metrics import AgentMetrics
from adapters.service.in_cluster.watches import Watches
from adapters.service.web.dashboard.agents import AgentReader, NoAgents


class AgentQuestions:
    """Asks agents for their metrics, for the dashboard; without a port it watches and asks none.

    Attributes:
        reader: for the dashboard.
    """

    def __init__(self, port: int | None) -> None:
        """Ask nothing yet.

        Args:
            port: of the agents' metrics; None where agents are not asked.
        """
        self.reader: AgentReader = NoAgents()
        self._pods = AgentPods()
        self._http = PlainReader()
        self._metrics: AgentMetrics | None = None
        if port is not None:
            self._metrics = AgentMetrics(
                self._pods.address, lambda host: self._http.get(host, port, "/metrics")
            )
            self.reader = self._metrics

    def tasks(self, watches: Watches, namespace: str) -> Sequence[Coroutine[Any, Any, Any]]:
        """The watch of the agents' pods, which have the namespace of the service."""
        return [] if self._metrics is None else [watches.agents(self._pods, namespace).run()]

    async def close(self) -> None:
        """Ask nothing any more, and close the connections."""
        if self._metrics is not None:
            await self._metrics.close()
        await self._http.close()
