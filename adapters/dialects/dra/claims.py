"""Reads what a scheduler allocated to a claim."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.dra import ClaimAllocation, ClaimStatus, DeviceResult, ResourceClaim
from adapters.wire.kube import Container, Metadata, Pod, RequiredNodeSelector, Resources, Wire
from core.requests.request import PodRef

NAME_FIELD = "metadata.name"
"""The only field of a node that a selector can match."""

SHADOW = "dragoman.dev/shadow"
"""The requirement of a shadow claim's node selector, which no node meets; and its label."""

_DIGITS = 16
"""Characters of the text that identifies an allocation."""

_STATUS = PartialDecoder(ClaimStatus)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim with an allocation.

    Attributes:
        name: ``namespace/name``.
        all_results: its devices in the order of its status, with those for administration only.
        nodes: where its devices can be; None where the allocation does not say.
        pods: for which it is reserved.
        is_reserved: for a pod, or for another consumer; where nothing is known, it is.
        unread: why its status cannot be decoded; None where it can.
        allocated_at: when a scheduler allocated the devices, as it writes it; empty where it does
            not.
    """

    uid: str
    name: str
    all_results: tuple[DeviceResult, ...] = ()
    nodes: frozenset[str] | None = None
    pods: tuple[PodRef, ...] = ()
    is_reserved: bool = True
    unread: str | None = None
    allocated_at: str = ""

    @property
    def results(self) -> tuple[DeviceResult, ...]:
        """The devices that it holds: a device for administration only is no part of a card."""
        return tuple(each for each in self.all_results if not each.admin_access)

    @property
    def devices(self) -> str:
        """Identifies the allocation: the claim can get another one only after a deallocation.

        Without the amounts, which the API server writes in another form than a scheduler.
        """
        rows = ((each.driver, each.pool, each.device, each.share_id) for each in self.results)
        return hashlib.sha256(msgspec.json.encode((self.allocated_at, *rows))).hexdigest()[:_DIGITS]

    @property
    def ref(self) -> PodRef:
        """Name and identity, as requests to the API server name it."""
        return PodRef.parse(self.name, self.uid)


def claims_of(pod: Pod) -> Iterator[str | None]:
    """Yield the names of a pod's claims, own and made for it; None for one without a name yet."""
    extended = pod.status.extended_resource_claim_status
    yield None if extended is None else extended.resource_claim_name
    yield from (each.resource_claim_name for each in pod.spec.resource_claims or ())
    yield from (each.resource_claim_name for each in pod.status.resource_claim_statuses or ())


def without_claimed(pod: Pod) -> Pod:
    """Return a pod without the extended resources of which a claim has the devices.

    Where a DeviceClass names an extended resource, kube-scheduler makes a claim of a pod's request
    for it and says so in the pod's status, before it binds the pod. The kubelet then asks no device
    plugin for these resources. Source: KEP-5004, on by default since Kubernetes 1.36.
    """
    extended = pod.status.extended_resource_claim_status
    if extended is None or not extended.request_mappings:
        return pod
    claimed = {(each.container_name, each.resource_name) for each in extended.request_mappings}

    def own(container: Container) -> Container:
        amounts = (container.resources.requests or {}, container.resources.limits or {})
        requests, limits = (
            {key: amount for key, amount in stated.items() if (container.name, key) not in claimed}
            for stated in amounts
        )
        return msgspec.structs.replace(container, resources=Resources(limits, requests))

    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(own, pod.spec.containers)),
        init_containers=tuple(map(own, pod.spec.init_containers or ())),
    )
    return msgspec.structs.replace(pod, spec=spec)


def allocated(claim: ResourceClaim) -> Claim | None:
    """Return the devices of a claim; None where it has none.

    A claim whose status cannot be decoded may have any device, of the nodes that it names.
    """
    uid = claim.metadata.uid
    namespace = claim.metadata.namespace or "default"
    name = f"{namespace}/{claim.metadata.name}"
    raw = bytes(claim.status)
    try:
        status = _STATUS.decode(raw) if raw else ClaimStatus()
    except UnreadableError as error:
        problem = f"the status of the claim cannot be decoded: {error}"
        return Claim(uid, name, nodes=_placed(_PLACED_STATUS, raw), unread=problem)
    if status.allocation is None or (is_shadow(status.allocation) and not status.reserved_for):
        return None
    return Claim(
        uid,
        name,
        status.allocation.devices.results or (),
        _nodes(status.allocation.node_selector),
        tuple(
            PodRef(namespace, each.name, each.uid)
            for each in status.reserved_for or ()
            if each.resource == "pods"
        ),
        is_reserved=bool(status.reserved_for),
        allocated_at=status.allocation.allocation_timestamp or "",
    )


def unread_claim(metadata: Metadata, raw: bytes, problem: str) -> Claim:
    """Return a claim that cannot be decoded: it may have any device, of the nodes that it names."""
    name = f"{metadata.namespace or 'default'}/{metadata.name}"
    nodes = _placed(_PLACED_CLAIM, raw)
    return Claim(metadata.uid, name, nodes=nodes, unread=f"the claim cannot be decoded: {problem}")


def is_shadow(allocation: ClaimAllocation) -> bool:
    """Return whether an allocation stands for what others have of the devices.

    It is known by its node selector, which no pod's author can write: schedulers copy it from the
    driver's slices. A claim that is reserved for a pod is none, whatever its selector.
    """
    terms = allocation.node_selector and allocation.node_selector.node_selector_terms
    return any(each.key == SHADOW for term in terms or () for each in term.match_expressions or ())


class _Place(Wire, frozen=True, gc=False):
    node_selector: RequiredNodeSelector | None = None


class _PlacedStatus(Wire, frozen=True, gc=False):
    allocation: _Place | None = None


class _PlacedClaim(Wire, frozen=True, gc=False):
    status: _PlacedStatus | None = None


_PLACED_STATUS: Decoder[_PlacedStatus | None] = PartialDecoder(_PlacedStatus | None)
_PLACED_CLAIM = PartialDecoder(_PlacedClaim)


def _placed(
    decoder: Decoder[_PlacedStatus | None] | Decoder[_PlacedClaim], raw: bytes
) -> frozenset[str] | None:
    try:
        found = decoder.decode(raw)
    except UnreadableError:
        return None
    status = found.status if isinstance(found, _PlacedClaim) else found
    place = None if status is None else status.allocation
    return None if place is None else _nodes(place.node_selector)


def _nodes(selector: RequiredNodeSelector | None) -> frozenset[str] | None:
    """Return the nodes that a selector names; None where it does not name them."""
    if selector is None or not selector.node_selector_terms:
        return None
    # The label with a node's host name need not be the node's name, and says nothing here.
    named = [
        {
            name
            for each in term.match_fields or ()
            if each.key == NAME_FIELD and each.operator == "In"
            for name in each.values or ()
        }
        for term in selector.node_selector_terms
    ]
    return frozenset[str]().union(*named) if all(named) else None
