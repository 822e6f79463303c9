"""Disruption budgets, when they are asked for."""

import msgspec

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import read
from adapters.cluster.api.paths import DISRUPTION_BUDGETS
from adapters.wire.budget import Budget
from adapters.wire.kube import Wire

PAGE = 500
"""Budgets on a page."""


class _ListMeta(Wire, frozen=True, gc=False, rename={"next": "continue"}):
    next: str = ""


class _Page(Wire, frozen=True, gc=False):
    metadata: _ListMeta = _ListMeta()
    items: tuple[Budget, ...] | None = None


_PAGE: msgspec.json.Decoder[_Page] = msgspec.json.Decoder(_Page)


class BudgetClient:
    """The server's PodDisruptionBudgets; implements ``sidecar.ports.Budgets``."""

    def __init__(self, client: KubeClient) -> None:
        """Nothing is asked yet."""
        self._client = client

    async def all(self) -> list[Budget]:
        """All of them as they are now.

        Raises:
            ClusterError: the server did not say.
        """
        found: list[Budget] = []
        query = {"limit": str(PAGE)}
        while True:
            body = await self._client.get(DISRUPTION_BUDGETS.collection(), query)
            page = read(_PAGE, body)
            found += page.items or ()
            if not page.metadata.next:
                return found
            query = {"limit": str(PAGE), "continue": page.metadata.next}
