"""Reads all PodDisruptionBudgets."""

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import read
from adapters.cluster.api.paths import DISRUPTION_BUDGETS
from adapters.wire.api import Page
from adapters.wire.budget import Budget
from adapters.wire.decode.partial_decoder import PartialDecoder

PAGE = 500
"""Budgets in a page."""


_PAGE = PartialDecoder(Page)
_BUDGET = PartialDecoder(Budget)


class BudgetClient:
    """The server's PodDisruptionBudgets; implements ``sidecar.decide.ports.BudgetReader``."""

    def __init__(self, client: KubeClient) -> None:
        """Send no request yet."""
        self._client = client

    async def all(self) -> list[Budget]:
        """Return all budgets as they are now.

        Raises:
            ClusterError: the server did not answer, or a budget cannot be decoded.
        """
        budgets: list[Budget] = []
        query = {"limit": str(PAGE)}
        while True:
            body = await self._client.get(DISRUPTION_BUDGETS.collection(), query)
            page = read(_PAGE, body)
            budgets += [read(_BUDGET, item) for item in page.items or ()]
            if not page.metadata.token:
                return budgets
            query = {"limit": str(PAGE), "continue": page.metadata.token}
