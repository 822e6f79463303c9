"""Events on pods: told as the service tells them, over the agent's own small client."""

import asyncio
from dataclasses import dataclass

import msgspec

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.node.apiserver.api import send
from adapters.node.apiserver.credentials import AgentCredentials
from adapters.node.log import log_event
from adapters.node.nri.model import PodSandbox

CONTROLLER = "dragoman.dev/node"

MAX_SERIES = 512
"""Series of events that are remembered; a node has no more pods than that."""

MAX_WRITES_PER_SECOND = 5.0
"""Writes a second, so that a node full of refused pods does not load the API server."""

_MERGE = "application/merge-patch+json"
_PATIENCE = 15.0


@dataclass(frozen=True, slots=True)
class AgentEventApi:
    """The API server, as far as events need it.

    Attributes:
        credentials: of the agent.
    """

    credentials: AgentCredentials

    async def create(self, path: str, body: object) -> bytes:
        """Post an object to its collection.

        Raises:
            ClusterError: it was refused, or nobody answered.
        """
        return await self._send("POST", path, body, "application/json")

    async def patch(self, path: str, body: object) -> bytes:
        """Merge a part into an object.

        Raises:
            ClusterError: it was refused, or nobody answered.
        """
        return await self._send("PATCH", path, body, _MERGE)

    async def _send(self, method: str, path: str, body: object, kind: str) -> bytes:
        try:
            async with asyncio.timeout(_PATIENCE):
                data = msgspec.json.encode(body)
                return await send(self.credentials, method, path, data, kind)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            log_event("event.write_failed", path=path, reason=str(error) or type(error).__name__)
            raise ClusterError(0, "Broken", str(error) or type(error).__name__) from error


class PodEvents:
    """Writes events from whichever thread they are told on."""

    def __init__(self, credentials: AgentCredentials, node: str) -> None:
        """Nothing is written until ``run`` runs, on the loop of which this is called.

        Args:
            credentials: of the agent.
            node: its name.
        """
        server = AgentEventApi(credentials)
        self._events = EventRecorder(
            server, node, controller=CONTROLLER, most=MAX_SERIES, rate=MAX_WRITES_PER_SECOND
        )
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Write until cancelled."""
        await self._events.run()

    def emit(self, pod: PodSandbox, reason: str, note: str, action: str) -> None:
        """Tell a warning of a pod; never waits, never raises."""
        about = EventSubject("Pod", pod.name, pod.namespace or "default", pod.uid)
        self._loop.call_soon_threadsafe(self._tell, about, reason, note, action)

    def _tell(self, about: EventSubject, reason: str, note: str, action: str) -> None:
        self._events.emit(about, reason, note, kind="Warning", action=action)
