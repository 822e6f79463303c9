"""The sections of the settings: limits of the HTTP ports, certificates, and claims."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

_PORT = (
    "([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"  # 0-65535
)

ADDRESS = rf"^(\[[0-9a-fA-F:]+\]|[^:\s]*):{_PORT}$"
"""``HOST:PORT``, with an IPv6 address in brackets; without a host: every address."""

STORE = r"^(memory|sqlite:.+|kubernetes)$"
GRPC = rf"^(auto|off|unix:.+|\S+:{_PORT})$"

FORMS = {
    ADDRESS: "must be HOST:PORT with a port up to 65535, such as 127.0.0.1:9595",
    STORE: "must be memory, sqlite:PATH or kubernetes",
    GRPC: "must be auto, off, unix:PATH or HOST:PORT",
}
"""What a value of each pattern must be, in words for people."""

SPLIT_AT_COMMAS = BeforeValidator(
    lambda value: [part.strip() for part in value.split(",")] if isinstance(value, str) else value
)
"""Reads a list from the environment, where it is a text with commas."""


class Section(BaseModel):
    """A part of the settings; its keys are camelCase, and an unknown key is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class LimitSettings(Section):
    """What the clients of a port may occupy.

    Attributes:
        connections: open connections of one port. Beyond it the one that has waited longest for
            a client is closed, and where all wait for us, health probes only are answered.
        head_seconds: for the header fields of a request, from its first byte, and for a TLS
            handshake.
        body_seconds: for the body of a request, after these.
        response_seconds: until a client has read a response.
        body_mib: MiB of all request bodies in memory; no body may be longer. The process needs
            about twice as much while it reads them.
    """

    connections: Annotated[int, Field(ge=16, le=65_536)] = 1024
    head_seconds: Annotated[int, Field(ge=1, le=60)] = 10
    body_seconds: Annotated[int, Field(ge=1, le=600)] = 30
    response_seconds: Annotated[int, Field(ge=1, le=600)] = 30
    body_mib: Annotated[int, Field(ge=16, le=16_384, alias="bodyMiB")] = 256

    @property
    def body_bytes(self) -> int:
        """The bytes of ``body_mib``."""
        return self.body_mib << 20


DAY = 24 * 3600


class Managed(Section):
    """A certificate that the service makes and renews itself, kept in a Secret of its namespace.

    Attributes:
        secret: name of the Secret; it must exist, and may be empty.
        names: DNS names and addresses under which the API server calls the service.
        webhooks: mutating webhook configurations whose caBundle the service writes.
        leaf_seconds: validity of a certificate, in seconds; the service renews it after two thirds.
        authority_seconds: the same for the authority that signs it.
        overlap_seconds: seconds between two steps of the change from one authority to the next.
    """

    secret: Annotated[str, Field(min_length=1)]
    names: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1), SPLIT_AT_COMMAS
    ]
    webhooks: Annotated[tuple[str, ...], SPLIT_AT_COMMAS] = ()
    leaf_seconds: Annotated[int, Field(ge=6)] = 90 * DAY
    authority_seconds: Annotated[int, Field(ge=12)] = 365 * DAY
    overlap_seconds: Annotated[int, Field(ge=1)] = 300

    @model_validator(mode="after")
    def _overlaps(self) -> "Managed":
        """Check that the last third of each validity is long enough for all steps of a renewal."""
        if self.leaf_seconds < 6 * self.overlap_seconds:
            raise ValueError("leafSeconds must be at least 6 times overlapSeconds")
        if self.authority_seconds < 2 * self.leaf_seconds:
            raise ValueError("authoritySeconds must be at least 2 times leafSeconds")
        return self


class Tls(Section):
    """The port's certificate: from files, or made by the service itself.

    Attributes:
        listen: ``HOST:PORT`` of a second port with TLS beside the plaintext one; where None, the
            one port has TLS.
        certificate: file with the chain, PEM; read again when it changes.
        key: file with its key, PEM.
        managed: in the place of both files.
        client_authorities: file with the authorities of clients, PEM; the port rejects a client
            without a certificate from one of them.
    """

    certificate: Path | None = None
    key: Path | None = None
    managed: Managed | None = None
    listen: Annotated[str, Field(pattern=ADDRESS)] | None = None
    client_authorities: Path | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "Tls":
        """Check that a certificate comes from one place."""
        if self.managed is not None:
            if self.certificate is not None or self.key is not None:
                raise ValueError("tls.managed makes the certificate: leave certificate and key out")
        elif self.certificate is None or self.key is None:
            raise ValueError("tls.certificate and tls.key are needed, or tls.managed")
        return self


class GrpcTls(Section):
    """The gRPC port's certificate and the authorities of its clients; read again on a change.

    Attributes:
        certificate: file with the chain, PEM.
        key: file with its key, PEM.
        client_authorities: file with the authorities of clients, PEM; the port rejects a client
            without a certificate from one of them.
    """

    certificate: Path
    key: Path
    client_authorities: Path


class PreemptionSettings(Section):
    """Evictions by the service, for pods that kube-scheduler evicts none for.

    Attributes:
        enabled: whether a pod of higher priority gets cards by the eviction of others, where its
            scheduler's own sums are not short.
    """

    enabled: bool = False


class MovesSettings(Section):
    """Plans of moves, which the mover evicts pods for.

    Attributes:
        enabled: whether plans are carried out; else what an earlier one keeps is released.
    """

    enabled: bool = False


class WebSettings(Section):
    """What people ask for.

    Attributes:
        authorize: whether each request below ``/api/`` needs a token of a user who may list the
            pods of which it asks; needs ``store: kubernetes``.
    """

    authorize: bool = False


class DraSettings(Section):
    """Dynamic Resource Allocation.

    Attributes:
        claims: whether cards that ResourceClaims have count as in use, and ResourceSlices describe
            cards.
        arbiter: whether each new allocation of a claim is committed to the ledger before the API
            server writes it, or rejected; needs ``claims``.
        shadows: whether shadow claims show schedulers what others have; needs ``claims``.
    """

    claims: bool = False
    arbiter: bool = False
    shadows: bool = False

    @model_validator(mode="after")
    def _others_read_claims(self) -> "DraSettings":
        """Check that an arbiter sees claims: else it would release them."""
        needing = {"arbiter": self.arbiter, "shadows": self.shadows}
        for name in (name for name, value in needing.items() if value and not self.claims):
            raise ValueError(f"dra.{name}: needs dra.claims: true")
        return self
