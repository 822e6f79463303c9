"""Reads single ResourceClaims, and the rules that taint devices."""

from collections.abc import Sequence

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import FORBIDDEN, ClusterError, read
from adapters.cluster.api.paths import DEVICE_TAINT_RULES, RESOURCE_CLAIMS
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.dra import (
    DeviceTaintRule,
    DeviceTaintRules,
    ResourceClaim,
    TaintRuleSpec,
    TaintSelector,
)
from core.requests.pod_ref import PodRef

_CLAIM = PartialDecoder(ResourceClaim)
_RULES = PartialDecoder(DeviceTaintRules)


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

    async def taint_rules(self) -> Sequence[DeviceTaintRule]:
        """Return the rules that taint devices; none where the API has no such kind.

        Where the service may not read them, one that taints all devices.

        Raises:
            ClusterError: the server did not answer.
        """
        try:
            body = await self._client.find(DEVICE_TAINT_RULES.collection())
        except ClusterError as error:
            if error.status != FORBIDDEN:
                raise
            return (DeviceTaintRule(TaintRuleSpec(TaintSelector())),)
        return () if body is None else read(_RULES, body).items
