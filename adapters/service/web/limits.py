"""Limits of the HTTP ports: what one client may occupy, and all together; which gives way."""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from types import TracebackType
from typing import Protocol

from adapters.service.settings.sections import LimitSettings

KIB = 1 << 10
MIB = 1 << 20

HEAD_BYTES = 64 * KIB
"""Bytes of a request line with all header fields, and of what surrounds a chunked body's data."""

FIELDS = 100
"""Header fields of a request, those after a chunked body included; Go's clients send about ten."""

PIPELINED = 8
"""Requests of one connection that wait for the response of an earlier one."""

SPARE_CONNECTIONS = 64
"""Connections beyond the limit, on which only health probes are answered."""

DROP = "dragoman.drop"
"""The extension of an ASGI scope that closes the connection."""

PROBES = frozenset({"/livez", "/readyz"})
"""Paths of health probes."""


SLOW = 1 << 20
"""Bytes per second; less is slow."""

SMALL = 64 << 10
"""Bytes of each body that are not counted: binds, admission and small filters always have room."""

YOUNG = 1.0
"""Seconds for which no body counts as slow."""


class BudgetError(Exception):
    """Other bodies have used up the budget, and none of them is slow."""


class BodyBudget:
    """Counts the bytes of long bodies; where there is no room, slow ones give way to others.

    A client that sends a body slowly would otherwise keep its part of the budget until the
    deadline. A body that has arrived stays until its response.
    """

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        """Begin with nothing in use, of a limit in bytes; the clock gives seconds."""
        self.limit = limit
        self.clock = clock
        self.used = 0
        self.arriving: dict[HeldBody, None] = {}  # the oldest first

    def hold(self, drop: Callable[[], None]) -> "HeldBody":
        """Return an empty body, counted between ``with`` and its end.

        ``drop`` closes the connection of the body, which then does not grow any more.
        """
        return HeldBody(self, drop)


class HeldBody:
    """One body that arrives."""

    def __init__(self, budget: BodyBudget, drop: Callable[[], None]) -> None:
        self._budget = budget
        self.drop = drop
        self._size = 0
        self._since = budget.clock()

    def __enter__(self) -> "HeldBody":
        self._budget.arriving[self] = None
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.release()

    def grow(self, size: int) -> None:
        """Count bytes that arrived.

        Raises:
            BudgetError: there is no room, and no other unfinished body is slow.
        """
        budget = self._budget
        before = self._counted
        self._size += size
        budget.used += self._counted - before
        while budget.used > budget.limit:
            now = budget.clock()
            slow = next((each for each in budget.arriving if each.is_slow(now)), self)
            slow.release()
            if slow is self:
                raise BudgetError
            slow.drop()

    def arrived(self) -> None:
        """End a body that is complete: no other one may displace it."""
        self._budget.arriving.pop(self, None)

    def is_slow(self, now: float) -> bool:
        """Return whether less arrives than a scheduler or the API server sends."""
        age = now - self._since
        return age >= YOUNG and self._size < age * SLOW

    def release(self) -> None:
        """Count the body no more."""
        self._budget.arriving.pop(self, None)
        self._budget.used -= self._counted
        self._size = 0

    @property
    def _counted(self) -> int:
        return max(0, self._size - SMALL)


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

    def expire(self, phase: ConnectionPhase) -> None:
        """Close it, because a phase took too long; with a response where there can be one."""


_EVICTED = (
    ConnectionPhase.HEAD,
    ConnectionPhase.IDLE,
    ConnectionPhase.CLOSING,
    ConnectionPhase.BODY,
)
"""The order in which connections give way; of one phase the oldest does."""


class Connections:
    """Each connection in its phase, in the order in which they entered it."""

    def __init__(self, limits: LimitSettings, evicted: Callable[[], None]) -> None:
        """Begin without a connection; ``evicted`` is called when one gives way to a new one."""
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
        """Put a connection in a phase, which begins again where it is in it already.

        ``now`` is in seconds, of the same clock each time.
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
