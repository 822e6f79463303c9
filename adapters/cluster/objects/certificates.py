"""What the API server has of a managed certificate: its Secret, and the caBundle of webhooks.

Entries of a Secret change by compare-and-swap. A caBundle has the authorities that the API server
trusts for us.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import NOT_FOUND, ClusterError, read
from adapters.cluster.api.paths import MUTATING_WEBHOOKS, SECRETS
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import Changes, Secret

_SECRET = PartialDecoder(Secret)


class SecretContent(NamedTuple):
    """Contents of a Secret.

    Attributes:
        data: its entries that are UTF-8.
        version: its resourceVersion.
    """

    data: Mapping[str, str]
    version: str
    annotations: Mapping[str, str]


class SecretClient:
    """The server's Secrets, without a cache."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, namespace: str, name: str) -> SecretContent:
        """Return a Secret as it is now.

        Raises:
            ClusterError: the server did not answer; status 404 where there is none. It is not
                created here, because RBAC cannot limit the creation of Secrets to one name.
        """
        try:
            body = await self._client.get(SECRETS.path(name, namespace))
        except ClusterError as error:
            if error.status != NOT_FOUND:
                raise
            problem = f"there is no Secret {namespace}/{name}: the chart creates it, empty"
            raise ClusterError(NOT_FOUND, "NotFound", problem) from error
        secret = read(_SECRET, body)
        meta = secret.metadata
        return SecretContent(texts(secret), meta.resource_version, meta.annotations or {})

    async def change(
        self, namespace: str, name: str, version: str, data: Changes, annotations: Changes
    ) -> None:
        """Set entries; None removes one.

        Raises:
            ClusterError: status 409 where the version has changed.
        """
        encoded = {
            key: None if value is None else b64encode(value.encode()).decode()
            for key, value in data.items()
        }
        metadata = {"resourceVersion": version, "annotations": dict(annotations)}
        body = {"metadata": metadata, "data": encoded}
        await self._client.patch(SECRETS.path(name, namespace), body)


def texts(secret: Secret) -> dict[str, str]:
    """Return the entries of a Secret that are UTF-8."""
    entries: dict[str, str] = {}
    for key, value in (secret.data or {}).items():
        try:
            entries[key] = b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
    return entries


_CONFIGURATION = Decoder(dict[str, Any])


class WebhookClient:
    """Mutating webhook configurations, by name."""

    def __init__(self, client: KubeClient, names: Sequence[str]) -> None:
        self._client = client
        self._names = names

    async def publish(self, bundle: str) -> bool:
        """Set the caBundle (PEM) of all their webhooks; return whether all of them had it already.

        A configuration that does not exist is skipped: the API server calls no webhook for it.

        Raises:
            ClusterError: one could not be read or written; status 409 where it has changed.
        """
        wanted = b64encode(bundle.encode()).decode()
        unchanged = True
        for path in map(MUTATING_WEBHOOKS.path, self._names):
            body = await self._client.find(path)
            if body is None:
                continue
            try:
                configuration = _CONFIGURATION.decode(body)
                clients = [hook["clientConfig"] for hook in configuration.get("webhooks") or ()]
            except (UnreadableError, KeyError, TypeError) as error:
                raise ClusterError(0, "Garbage", f"{path}: cannot be read: {error!r}") from error
            if any(client.get("caBundle") != wanted for client in clients):
                for client in clients:
                    client["caBundle"] = wanted
                await self._client.replace(path, configuration)
                unchanged = False
        return unchanged
