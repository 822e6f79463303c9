"""The open connections of one port: which gives way to a new one, and which has waited too long."""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from adapters.service.web.limits import SPARE_CONNECTIONS, PortLimits


class ConnectionPhase(Enum):
    """What a connection does."""

    HEAD = auto()
    """A request begins: the TLS handshake, or header fields, are not complete."""
    BODY = auto()
    """The body arrives."""
    HANDLING = auto()
    """The request is complete, its response is not."""
    IDLE = auto()
    """Responses were sent; the client may send a further request."""
    CLOSING = auto()
    """The rest of a response is sent, or is not read by the client."""


class ClientConnection(Protocol):
    """A connection, as its port sees it."""

    def drop(self) -> None:
        """Close it at once."""
        ...

    def expire(self, phase: ConnectionPhase) -> None:
        """Close it, because a phase took too long; with a response where there can be one."""
        ...


_EVICTED = (
    ConnectionPhase.HEAD,
    ConnectionPhase.IDLE,
    ConnectionPhase.CLOSING,
    ConnectionPhase.BODY,
)
"""The order in which connections give way; of one phase the oldest does."""


class Connections:
    """Each connection in its phase, in the order in which they entered it."""

    def __init__(self, limits: PortLimits, evicted: Callable[[], None]) -> None:
        """Begin without a connection.

        Args:
            limits: of the port.
            evicted: called when a connection gives way to a new one.
        """
        self._evicted = evicted
        self._limit = limits.connections
        self._seconds = {
            ConnectionPhase.HEAD: limits.head_seconds,
            ConnectionPhase.BODY: limits.body_seconds,
            ConnectionPhase.CLOSING: limits.response_seconds,
        }
        self._by_phase: dict[ConnectionPhase, dict[ClientConnection, float]] = {
            phase: {} for phase in ConnectionPhase
        }
        self._phases: dict[ClientConnection, ConnectionPhase] = {}
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._phases)

    @property
    def is_full(self) -> bool:
        """Whether a further connection is only for health probes."""
        return len(self) >= self._limit

    def enter(self, connection: ClientConnection, phase: ConnectionPhase, now: float) -> None:
        """Put a connection in a phase.

        Args:
            connection: new, or in another phase, or in this one, which then begins again.
            phase: the phase that begins.
            now: seconds, of the same clock each time.
        """
        self._leave(connection)
        self._phases[connection] = phase
        self._by_phase[phase][connection] = now

    def phase(self, connection: ClientConnection) -> ConnectionPhase | None:
        """Return the phase of a connection; None after its end."""
        return self._phases.get(connection)

    def remove(self, connection: ClientConnection) -> None:
        """Forget a connection that was closed."""
        self._leave(connection)
        self._phases.pop(connection, None)
        self._closed.set()

    async def make_room(self) -> bool:
        """Close the connection that matters least if the port is full.

        Where every connection waits for its response, some more are admitted for health probes;
        beyond these, this waits until a connection ends.

        Returns:
            whether the new connection is for health probes only.
        """
        while self.is_full:
            if self.evict():
                continue
            if len(self) < self._limit + SPARE_CONNECTIONS:
                return True
            self._closed.clear()
            await self._closed.wait()
        return False

    def evict(self) -> bool:
        """Close the connection that matters least; return whether there was one."""
        oldest = next((each for phase in _EVICTED for each in self._by_phase[phase]), None)
        if oldest is None:
            return False
        self.remove(oldest)
        oldest.drop()
        self._evicted()
        return True

    def expire(self, now: float) -> None:
        """End every connection whose phase took too long."""
        for phase, seconds in self._seconds.items():
            before = now - seconds
            for connection, since in [*self._by_phase[phase].items()]:
                if since > before:  # the rest entered it later
                    break
                connection.expire(phase)

    def _leave(self, connection: ClientConnection) -> None:
        phase = self._phases.get(connection)
        if phase is not None:
            del self._by_phase[phase][connection]
