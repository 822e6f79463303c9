"""The caBundle of webhook configurations: the authorities that the API server trusts for us."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import MUTATING_WEBHOOKS
from adapters.wire.decode.decoder import Decoder, UnreadableError

_CONFIGURATION = Decoder(dict[str, Any])


class WebhookClient:
    """Mutating webhook configurations, by name."""

    def __init__(self, client: KubeClient, names: Sequence[str]) -> None:
        """Send no request yet."""
        self._client = client
        self._names = names

    async def publish(self, bundle: str) -> bool:
        """Set the caBundle of all their webhooks.

        A configuration that does not exist is skipped: the API server calls no webhook for it.

        Args:
            bundle: the certificates of authorities, PEM.

        Returns:
            whether all of them had it already.

        Raises:
            ClusterError: one could not be read or written; status 409 where it has changed.
        """
        wanted = b64encode(bundle.encode()).decode()
        return all([await self._publish(name, wanted) for name in self._names])

    async def _publish(self, name: str, wanted: str) -> bool:
        path = MUTATING_WEBHOOKS.path(name)
        body = await self._client.find(path)
        if body is None:
            return True
        try:
            configuration = _CONFIGURATION.decode(body)
            clients = [hook["clientConfig"] for hook in configuration.get("webhooks") or ()]
        except (UnreadableError, KeyError, TypeError) as error:
            raise ClusterError(0, "Garbage", f"{path}: cannot be read: {error!r}") from error
        if all(client.get("caBundle") == wanted for client in clients):
            return True
        for client in clients:
            client["caBundle"] = wanted
        await self._client.replace(path, configuration)
        return False
