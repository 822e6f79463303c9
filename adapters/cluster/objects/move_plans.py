"""Reads and creates MovePlans, and writes their status."""

from adapters.cluster.api.client import KubeClient, list_all
from adapters.cluster.api.error import read
from adapters.cluster.api.paths import MOVE_PLANS, Selection
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.records.move_plan import MovePlanObject, MovePlanStatus, status_patch

_PLAN = PartialDecoder(MovePlanObject)
_PAGE = 50
"""Plans in a page; the largest that are valid have about 1 MiB."""


class MovePlanClient:
    """The server's plans, without a cache; every method may raise ``ClusterError``."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def list(self) -> list[MovePlanObject]:
        """All plans; none where the kind is not installed."""
        selection = Selection(MOVE_PLANS, optional=True)
        return await list_all(self._client, selection, MovePlanObject, page=_PAGE)

    async def get(self, name: str) -> MovePlanObject | None:
        """Return a plan as it is now; None where there is none."""
        body = await self._client.find(MOVE_PLANS.path(name))
        return None if body is None else read(_PLAN, body)

    async def create(self, manifest: object) -> MovePlanObject:
        """Create a plan and return it as the server has it.

        Raises:
            ClusterError: status 409 where there is one of that name; 422 where it is not valid.
        """
        return read(_PLAN, await self._client.create(MOVE_PLANS.collection(), manifest))

    async def write_status(self, plan: MovePlanObject, status: MovePlanStatus) -> MovePlanObject:
        """Replace the status of a plan that is still as it was read, and return the plan.

        A request without an answer is repeated, and the first may have written: a conflict says
        only that the plan must be read again.

        Raises:
            ClusterError: status 409 where it has changed meanwhile; 404 where it is gone.
        """
        path = MOVE_PLANS.path(plan.metadata.name, part="status")
        return read(_PLAN, await self._client.patch(path, status_patch(plan, status)))
