"""Reads single ResourceClaims."""

import msgspec

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import read
from adapters.cluster.api.paths import RESOURCE_CLAIMS
from adapters.wire.dra import ResourceClaim
from core.requests.pod_ref import PodRef

_CLAIM: msgspec.json.Decoder[ResourceClaim] = msgspec.json.Decoder(ResourceClaim)


class ClaimClient:
    """The server's claims, without a cache."""

    def __init__(self, client: KubeClient) -> None:
        """Send no request yet."""
        self._client = client

    async def get(self, claim: PodRef) -> ResourceClaim | None:
        """Return the claim with this namespace and name, of any uid; None where there is none.

        Raises:
            ClusterError: the server did not answer.
        """
        body = await self._client.find(RESOURCE_CLAIMS.path(claim.name, claim.namespace))
        return None if body is None else read(_CLAIM, body)
