"""One Secret, read and changed by its version; the rest of it is left as it is."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import NOT_FOUND, ClusterError, read
from adapters.cluster.api.paths import SECRETS
from adapters.wire.kube import Secret

_SECRET: msgspec.json.Decoder[Secret] = msgspec.json.Decoder(Secret)


class SecretContent(NamedTuple):
    """A Secret as it is.

    Attributes:
        data: its texts; what is no text is left out.
        version: of it.
        annotations: of it.
    """

    data: Mapping[str, str]
    version: str
    annotations: Mapping[str, str]


class SecretClient:
    """The server's Secrets, past every cache."""

    def __init__(self, client: KubeClient) -> None:
        """Nothing is asked yet."""
        self._client = client

    async def get(self, namespace: str, name: str) -> SecretContent:
        """A Secret as it is now.

        Raises:
            ClusterError: the server did not say; status 404 where there is none, which is not
                made here: to make Secrets is a right that cannot be had for one name.
        """
        try:
            body = await self._client.get(SECRETS.path(name, namespace))
        except ClusterError as error:
            if error.status != NOT_FOUND:
                raise
            told = f"there is no Secret {namespace}/{name}: the chart makes it, empty"
            raise ClusterError(NOT_FOUND, "NotFound", told) from error
        found = read(_SECRET, body)
        meta = found.metadata
        return SecretContent(texts(found), meta.resource_version, meta.annotations or {})

    async def change(
        self,
        namespace: str,
        name: str,
        version: str,
        data: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
    ) -> None:
        """Set entries; None takes one away.

        Raises:
            ClusterError: status 409 where the version is another one.
        """
        encoded = {key: None if value is None else _encoded(value) for key, value in data.items()}
        metadata = {"resourceVersion": version, "annotations": dict(annotations)}
        body = {"metadata": metadata, "data": encoded}
        await self._client.patch(SECRETS.path(name, namespace), body)


def texts(secret: Secret) -> dict[str, str]:
    """A Secret's data; what is no text is left out."""
    found: dict[str, str] = {}
    for key, value in (secret.data or {}).items():
        try:
            found[key] = b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
    return found


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
