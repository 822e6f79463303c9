"""Reads and annotates single ResourceClaims, and writes shadow claims."""

import msgspec

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, NOT_FOUND, ClusterError, read
from adapters.cluster.api.paths import RESOURCE_CLAIMS
from adapters.cluster.objects.annotations import annotate
from adapters.dialects.dra.claims import SHADOW
from adapters.dialects.dra.shadows import ShadowClaim
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.dra import ResourceClaim
from adapters.wire.kube import Changes, Metadata, Wire
from core.requests.request import PodRef

_CLAIM = PartialDecoder(ResourceClaim)


class ClaimClient:
    """The server's claims, without a cache; every method may raise ``ClusterError``."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, claim: PodRef) -> ResourceClaim | None:
        """Return the claim with this namespace and name, of any uid; None where there is none."""
        body = await self._client.find(RESOURCE_CLAIMS.path(claim.name, claim.namespace))
        return None if body is None else read(_CLAIM, body)

    async def annotate(
        self, claim: PodRef, annotations: Changes, labels: Changes | None = None
    ) -> ResourceClaim:
        """Annotate the claim with this uid, and return it; see ``annotate``."""
        path = RESOURCE_CLAIMS.path(claim.name, claim.namespace)
        return read(_CLAIM, await annotate(self._client, path, claim.uid, annotations, labels))


class _StoredStatus(Wire, frozen=True, gc=False):
    """Status of a claim; only the presence of an allocation is read."""

    allocation: dict[str, msgspec.Raw] | None = None


class _StoredClaim(Wire, frozen=True, gc=False):
    """A claim of which only labels and the presence of an allocation are read."""

    metadata: Metadata = Metadata()
    status: _StoredStatus = _StoredStatus()


_SHADOW = PartialDecoder(_StoredClaim)
_OBJECT = PartialDecoder(dict[str, msgspec.Raw])


class ShadowClaimClient:
    """The server's shadow claims, of one namespace; errors as of ``ClaimClient``."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def create(self, claim: ShadowClaim) -> None:
        """Create a claim with its allocation; one that is there already gets the allocation.

        Raises:
            ClusterError: the server rejected it, did not answer, or has another object of the name.
        """
        try:
            body = await self._client.create(
                RESOURCE_CLAIMS.collection(self._namespace), claim.manifest
            )
        except ClusterError as error:
            if error.status != CONFLICT:
                raise
            body = await self._client.get(self._path(claim.name))
        found = read(_SHADOW, body)
        if SHADOW not in (found.metadata.labels or {}):
            problem = f"ResourceClaim {self._namespace}/{claim.name} is not a shadow claim"
            raise ClusterError(CONFLICT, "AlreadyExists", problem)
        if not found.status.allocation:
            stored = read(_OBJECT, body)
            replaced: dict[str, object] = {**stored, "status": claim.status}
            await self._client.replace(self._path(claim.name, "status"), replaced)

    async def delete(self, name: str, uid: str) -> None:
        """Delete a claim; one of another uid stays."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        try:
            await self._client.delete(self._path(name), options)
        except ClusterError as error:
            if error.status not in {NOT_FOUND, CONFLICT}:
                raise

    def _path(self, name: str, part: str = "") -> str:
        return RESOURCE_CLAIMS.path(name, self._namespace, part)
