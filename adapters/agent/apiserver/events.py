"""Events on pods, with the service's recorder and the agent's own small client."""

import asyncio
from dataclasses import dataclass
from functools import partial

import msgspec

from adapters.agent.apiserver.api import send
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.log import log_event
from adapters.agent.nri.model import PodSandbox
from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.events import EventRecorder, EventSubject

CONTROLLER = "dragoman.dev/node"

MAX_SERIES = 512
"""Series of Events that the recorder keeps; a node has no more pods than that."""

MAX_WRITES_PER_SECOND = 5.0
"""So that a node full of rejected pods does not overload the API server."""

_MERGE = "application/merge-patch+json"
_TIMEOUT = 15.0


@dataclass(frozen=True, slots=True)
class AgentEventApi:
    """The API server's operations that Events need.

    Attributes:
        credentials: of the agent.
    """

    credentials: AgentCredentials

    async def create(self, path: str, body: object) -> bytes:
        """Create an object in its collection.

        Raises:
            ClusterError: the server rejected it, or did not answer.
        """
        return await self._send("POST", path, body, "application/json")

    async def patch(self, path: str, body: object) -> bytes:
        """Merge a part into an object.

        Raises:
            ClusterError: the server rejected it, or did not answer.
        """
        return await self._send("PATCH", path, body, _MERGE)

    async def _send(self, method: str, path: str, body: object, kind: str) -> bytes:
        try:
            async with asyncio.timeout(_TIMEOUT):
                data = msgspec.json.encode(body)
                return await send(self.credentials, method, path, data, kind)
        except OSError as error:
            log_event("event.write_failed", path=path, reason=str(error) or type(error).__name__)
            raise ClusterError(0, "Broken", str(error) or type(error).__name__) from error


class PodEvents:
    """Writes Events; any thread may emit them."""

    def __init__(self, credentials: AgentCredentials, node: str) -> None:
        """Write nothing until ``run`` runs, on the event loop of this call.

        Args:
            credentials: of the agent.
            node: its name.
        """
        server = AgentEventApi(credentials)
        self._events = EventRecorder(
            server, node, controller=CONTROLLER, maximum=MAX_SERIES, rate=MAX_WRITES_PER_SECOND
        )
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Write until cancelled."""
        await self._events.run()

    def emit(self, pod: PodSandbox, reason: str, note: str, action: str) -> None:
        """Record a warning about a pod; never waits, never raises."""
        about = EventSubject("Pod", pod.name, pod.namespace or "default", pod.uid)
        emit = partial(self._events.emit, about, reason, note, kind="Warning", action=action)
        self._loop.call_soon_threadsafe(emit)
