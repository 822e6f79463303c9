"""Settings of the certificates of the HTTP and gRPC ports."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from adapters.service.settings.section import ADDRESS, SPLIT_AT_COMMAS, Section

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
        """The last third of each validity must be long enough for all steps of a renewal."""
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
        """A certificate comes from one place."""
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
