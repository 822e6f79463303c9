"""Settings of the limits of the HTTP ports."""

from typing import Annotated

from pydantic import Field

from adapters.service.settings.section import Section


class LimitSettings(Section):
    """What the clients of a port may occupy.

    Attributes:
        connections: open connections of one port. Beyond it the one that has waited longest for
            a client is closed, and where all wait for us, health probes only are answered.
        head_seconds: for the header fields of a request, and for a TLS handshake.
        body_seconds: for the body of a request.
        response_seconds: until a client has read a response.
        body_mib: MiB of all request bodies in memory; no body may be longer. The process needs
            about twice as much while it reads them.
    """

    connections: Annotated[int, Field(ge=16, le=65_536)] = 1024
    head_seconds: Annotated[int, Field(ge=1, le=60)] = 10
    body_seconds: Annotated[int, Field(ge=1, le=600)] = 30
    response_seconds: Annotated[int, Field(ge=1, le=600)] = 30
    body_mib: Annotated[int, Field(ge=16, le=16_384, alias="bodyMiB")] = 256
