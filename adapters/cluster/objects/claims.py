"""Reads, creates and deallocates single ResourceClaims, and answers their schedulers."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from adapters.cluster.api import timestamps
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, FORBIDDEN, NOT_FOUND, ClusterError, read
from adapters.cluster.api.paths import DEVICE_TAINT_RULES, RESOURCE_CLAIMS
from adapters.dialects.dra.claims import allocated
from adapters.dialects.dra.conditions import reported
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.dra import (
    DeviceResult,
    DeviceTaintRule,
    DeviceTaintRules,
    ResourceClaim,
    TaintRuleSpec,
    TaintSelector,
)
from core.requests.pod_ref import PodRef


class _StoredDevices(msgspec.Struct):
    """``status.devices`` as it is stored, whatever its entries have."""

    devices: list[dict[str, Any]] | None = None


class _Owner(msgspec.Struct):
    """An owner of a claim."""

    uid: str = ""


class _OwnedMetadata(msgspec.Struct, rename="camel"):
    """Metadata of a claim; only its owners are read."""

    owner_references: list[_Owner] | None = None


class _OwnedClaim(msgspec.Struct):
    """A claim of which only the owners are read."""

    metadata: _OwnedMetadata


_STORED = PartialDecoder(_StoredDevices)
_OWNED = PartialDecoder(_OwnedClaim)
_CLAIM = PartialDecoder(ResourceClaim)
_RULES = PartialDecoder(DeviceTaintRules)
_OBJECT = PartialDecoder(dict[str, msgspec.Raw])


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

    async def create(self, pod: PodRef, name: str, spec: Mapping[str, object]) -> bool:
        """Create a claim that a pod owns; no effect where it is there.

        kube-controller-manager deletes a claim that a pod controls when the pod has ended, and the
        garbage collector when it is deleted.

        Returns:
            whether the claim of this name is the pod's.

        Raises:
            ClusterError: the server rejected it, or did not answer.
        """
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "ownerReferences": [{**owner, "controller": True}]},
            "spec": spec,
        }
        try:
            await self._client.create(RESOURCE_CLAIMS.collection(pod.namespace), claim)
        except ClusterError as error:
            if error.status != CONFLICT:
                raise
            body = await self._client.get(RESOURCE_CLAIMS.path(name, pod.namespace))
            owners = read(_OWNED, body).metadata.owner_references or ()
            return any(each.uid == pod.uid for each in owners)
        return True

    async def deallocate(self, claim: PodRef) -> bool:
        """Remove the allocation of a claim that nothing uses; whether it had one.

        No effect where the claim was deleted, is another one, or is reserved meanwhile.

        Raises:
            ClusterError: the server rejected it, or did not answer.
        """
        body = await self._client.find(RESOURCE_CLAIMS.path(claim.name, claim.namespace))
        if body is None:
            return False
        live = allocated(read(_CLAIM, body))
        if live is None or live.uid != claim.uid or live.is_reserved:
            return False
        # With its resourceVersion: a scheduler that reserves the claim now makes this a conflict.
        stored = read(_OBJECT, body)
        replaced: dict[str, object] = {**stored, "status": {}}
        try:
            path = RESOURCE_CLAIMS.path(claim.name, claim.namespace, "status")
            await self._client.replace(path, replaced)
        except ClusterError as error:
            if error.status not in {NOT_FOUND, CONFLICT}:
                raise
            return False
        return True

    async def report(
        self, claim: ResourceClaim, devices: Sequence[DeviceResult], problem: str | None
    ) -> None:
        """Write whether the ledger has a claim into the conditions of its devices.

        Args:
            claim: as it was read; one that was changed since is not written.
            devices: of its allocation.
            problem: why the ledger cannot have it; None where it has it.

        Raises:
            ClusterError: the server rejected it, or did not answer.
        """
        metadata = claim.metadata
        stored = read(_STORED, claim.status).devices or []
        body = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": {
                "devices": reported(stored, devices, problem, timestamps.seconds(timestamps.now()))
            },
        }
        path = RESOURCE_CLAIMS.path(metadata.name, metadata.namespace, "status")
        await self._client.patch(path, body)
