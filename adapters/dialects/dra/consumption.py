"""The share that a request for a part of a device means.

A scheduler with an older library of Dynamic Resource Allocation does not look at the capacity that
a request states and allocates the whole device: koord-scheduler 1.8.0 (k8s.io v0.35.2). The amounts
are computed here as newer ones do.

Source: k8s.io/dynamic-resource-allocation v0.37.1
structured/internal/incubating/consumable_capacity.go, calculateConsumedCapacity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

import msgspec

from adapters.dialects.dra.claims import Claim
from adapters.dialects.dra.share_id import share_id
from adapters.wire.decode.decoder import UnreadableError, convert
from adapters.wire.dra import (
    DeviceCapacity,
    DeviceResult,
    ExactRequest,
    RequestedClaim,
    RequestPolicy,
    ResourceSlice,
    SliceDevice,
)
from adapters.wire.kube import Amount
from adapters.wire.quantity import QuantityError, parse


class ConsumptionError(ValueError):
    """A request for a part of a device that the device cannot give."""


PoolName = tuple[str, str]
"""Driver and name of a pool."""


def with_shares(
    claim: Claim,
    requested: RequestedClaim,
    pools: Mapping[PoolName, Sequence[ResourceSlice]],
    seed: str,
) -> Claim:
    """The claim with a share of each device of which it requests a part, where it has none.

    Args:
        claim: as its scheduler allocated it.
        requested: what it requests.
        pools: the slices of the newest generation of its devices' pools.
        seed: a text from which the ids of the shares follow.

    Raises:
        ConsumptionError: a device cannot give what its request states, or a share is less.
    """
    results: list[DeviceResult] = []
    for number, result in enumerate(claim.all_results):
        slices = pools.get((result.driver, result.pool), ())
        device = None if result.admin_access else _device(result.device, slices)
        if device is None:
            results.append(result)
            continue
        if result.share_id is not None:
            check_share(requested, result, device)
        amounts = consumed(requested, result, device)
        if amounts is not None:
            share = share_id(f"{seed}/{number}")
            result = msgspec.structs.replace(
                result, share_id=share, consumed_capacity=dict(amounts)
            )
        results.append(result)
    return replace(claim, all_results=tuple(results))


def _device(name: str, slices: Sequence[ResourceSlice]) -> SliceDevice | None:
    devices = (device for each in slices for device in each.spec.devices or ())
    return next((each for each in devices if each.name == name), None)


def check_share(claim: RequestedClaim, result: DeviceResult, device: SliceDevice) -> None:
    """Compare the share that a scheduler computed with the request: it may be more, never less.

    Raises:
        ConsumptionError: it is less, or the device cannot give what the request states.
    """
    least = _least(claim, result, device)
    stated = result.consumed_capacity or {}
    for name, amount in (least or {}).items():
        try:
            is_less = parse(str(stated.get(name, 0))) < parse(amount)
        except QuantityError as error:
            raise ConsumptionError(f"consumedCapacity of {result.device}: {error}") from error
        if is_less:
            raise ConsumptionError(
                f"the share of {result.device} has {stated.get(name, 0)} of {name}, less than its"
                f" request {result.request} of {amount}"
            )


def consumed(
    claim: RequestedClaim, result: DeviceResult, device: SliceDevice
) -> dict[str, str] | None:
    """What an allocation of all of a device should consume of it.

    Returns:
        None where all of it is what was requested: the request states no part, or claims cannot
        share the device.

    Raises:
        ConsumptionError: the device has less, or lacks a capacity that the request states.
    """
    return None if result.share_id is not None else _least(claim, result, device)


def _least(
    claim: RequestedClaim, result: DeviceResult, device: SliceDevice
) -> dict[str, str] | None:
    """What a claim has to consume of a device; None where the request states no part."""
    if not device.allow_multiple_allocations:
        return None
    request = _request(claim, result.request)
    requested = request and request.capacity and request.capacity.requests
    if not requested:
        return None
    capacities = device.capacity or {}
    for name in requested.keys() - capacities.keys():
        raise ConsumptionError(f"device {result.device} has no capacity {name}")
    try:
        return {name: _amount(name, requested.get(name), each) for name, each in capacities.items()}
    except QuantityError as error:
        raise ConsumptionError(f"device {result.device}: {error}") from error


def _request(claim: RequestedClaim, name: str) -> ExactRequest | None:
    """The request of a result, which names an alternative as ``REQUEST/ALTERNATIVE``."""
    main, _, alternative = name.partition("/")
    for each in claim.spec.devices.requests or ():
        if each.name == main and not alternative:
            return each.exactly
        if each.name == main:
            return next(
                (one for one in each.first_available or () if one.name == alternative), None
            )
    return None


def _amount(name: str, requested: Amount | None, capacity: DeviceCapacity) -> str:
    """What a request consumes of one capacity.

    Raises:
        ConsumptionError: it is more than the device has, or than its policy allows.
    """
    policy = _policy(capacity.request_policy)
    if requested is None:
        return str(capacity.value if policy.default is None else policy.default)
    amount = _rounded(parse(str(requested)), policy)
    most = parse(str(capacity.value))
    if policy.valid_range is not None and policy.valid_range.max is not None:
        most = min(most, parse(str(policy.valid_range.max)))
    if policy.valid_values:
        most = min(most, parse(str(policy.valid_values[-1])))
    if not 0 <= amount <= most:
        raise ConsumptionError(
            f"a request of {requested} of {name} is more than a claim can have, {_text(most)}"
        )
    return _text(amount)


def _policy(stated: Mapping[str, object] | None) -> RequestPolicy:
    try:
        return RequestPolicy() if stated is None else convert(stated, RequestPolicy)
    except UnreadableError as error:
        raise ConsumptionError(f"its requestPolicy cannot be read: {error}") from error


def _rounded(amount: Fraction, policy: RequestPolicy) -> Fraction:
    """The next amount that a policy allows; above all of them the amount itself."""
    valid = policy.valid_range
    if valid is not None and valid.min is not None:
        least = parse(str(valid.min))
        step = Fraction(0) if valid.step is None else parse(str(valid.step))
        if amount <= least:
            return least
        return amount if step <= 0 else least + ceil((amount - least) / step) * step
    values = (parse(str(each)) for each in policy.valid_values or ())
    return next((value for value in values if value >= amount), amount)


def _text(amount: Fraction) -> str:
    """An amount as a quantity: whole, or in thousandths, rounded up."""
    return str(amount.numerator) if amount.denominator == 1 else f"{ceil(amount * 1000)}m"
