"""PortLimits of the HTTP ports: what one client may occupy, and what all may occupy together."""

from dataclasses import dataclass

from adapters.service.settings.limits import LimitSettings

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


@dataclass(frozen=True, slots=True)
class PortLimits:
    """What an operator may change.

    Attributes:
        connections: open connections of one port.
        head_seconds: from the begin of a connection, or of a further request on it, until all
            header fields have arrived; the TLS handshake has the same time of its own.
        body_seconds: from there until the whole body has arrived.
        response_seconds: how long a client may leave a response unread.
        body_bytes: sum of all request bodies in memory, over all connections of all ports; also
            the longest single body.
    """

    connections: int = 1024
    head_seconds: float = 10
    body_seconds: float = 30
    response_seconds: float = 30
    body_bytes: int = 256 * MIB

    @classmethod
    def of(cls, settings: LimitSettings) -> "PortLimits":
        """Return the limits that the settings have."""
        return cls(
            settings.connections,
            settings.head_seconds,
            settings.body_seconds,
            settings.response_seconds,
            settings.body_mib * MIB,
        )
