"""Fills in the shares that the library of a claim's scheduler left out."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from adapters.dialects.dra.claims import Claim
from adapters.dialects.dra.consumption import check_share, consumed, share_id
from adapters.wire import admission
from adapters.wire.admission import AdmissionRequest, Patch
from adapters.wire.decode import body
from adapters.wire.decode.decoder import Decoder
from adapters.wire.dra import (
    DeviceResult,
    RequestedClaim,
    ResourceSlice,
    SliceDevice,
    StatusOfClaim,
)

Pool = Callable[[str, str], Sequence[ResourceSlice]]
"""Returns the slices of a pool, by driver and name."""

_REQUESTED = Decoder(RequestedClaim)
_STATUS = Decoder(StatusOfClaim)


def with_shares(review: AdmissionRequest, claim: Claim, pool: Pool) -> tuple[Claim, Patch]:
    """The claim with the share of each device of which it requests a part, and their patch.

    Args:
        review: of its status.
        claim: as its scheduler allocated it.
        pool: of the cluster's slices.

    Raises:
        ConsumptionError: a device cannot give what its request states, or a share is less.
    """
    if claim.unread is not None:
        return claim, []
    content = admission.object_of(review)
    requested = body.read(content, _REQUESTED)
    patch: Patch = []
    results: list[DeviceResult] = []
    for number, result in enumerate(all_results(review)):
        if result.admin_access:
            continue
        device = _device(result, pool)
        if device is not None and result.share_id is not None:
            check_share(requested, result, device)
        amounts = None if device is None else consumed(requested, result, device)
        if amounts is None:
            results.append(result)
            continue
        share = share_id(f"{review.uid}/{number}")
        results.append(
            msgspec.structs.replace(result, share_id=share, consumed_capacity=dict(amounts))
        )
        path = f"/status/allocation/devices/results/{number}"
        patch += [
            {"op": "add", "path": f"{path}/shareID", "value": share},
            {"op": "add", "path": f"{path}/consumedCapacity", "value": amounts},
        ]
    return replace(claim, results=tuple(results)), patch


def all_results(review: AdmissionRequest) -> tuple[DeviceResult, ...]:
    """The devices of a claim in the order of its status, those for administration too."""
    allocation = body.read(admission.object_of(review), _STATUS).status.allocation
    return () if allocation is None else allocation.devices.results or ()


def _device(result: DeviceResult, pool: Pool) -> SliceDevice | None:
    return next(
        (
            device
            for each in pool(result.driver, result.pool)
            for device in each.spec.devices or ()
            if device.name == result.device
        ),
        None,
    )
