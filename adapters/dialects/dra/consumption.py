"""The share that a request for a part of a device means; devices that could stand in for it.

A scheduler with an older library of Dynamic Resource Allocation does not look at the capacity that
a request states and allocates the whole device: koord-scheduler 1.8.0 (k8s.io v0.35.2). The amounts
are computed here as newer ones do.
Source: k8s.io/dynamic-resource-allocation v0.37.1
structured/internal/incubating/consumable_capacity.go, calculateConsumedCapacity.

A scheduler chooses a device by expressions of the Common Expression Language, which are not
evaluated here. Two devices of one pool give the same answer to an expression if they differ in
nothing that it names. Where that is not sure, a device has no other.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

import msgspec

from adapters.dialects.dra.claims import Claim
from adapters.wire.decode.decoder import UnreadableError, convert
from adapters.wire.dra import (
    DeviceCapacity,
    DeviceClass,
    DeviceResult,
    DeviceSelector,
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
    """Return the claim with a share of each device of which it requests a part, where it has none.

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
        devices = (device for each in slices for device in each.spec.devices or ())
        device = next((each for each in devices if each.name == result.device), None)
        if device is None or result.admin_access:
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


def check_share(claim: RequestedClaim, result: DeviceResult, device: SliceDevice) -> None:
    """Compare the share that a scheduler computed with the request: it may be more, never less.

    Raises:
        ConsumptionError: it is less, or the device cannot give what the request states.
    """
    least = consumed(claim, msgspec.structs.replace(result, share_id=None), device)
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
    """Return what an allocation of all of a device should consume of it.

    Returns:
        None where all of it is what was requested: the request states no part, or claims cannot
        share the device.

    Raises:
        ConsumptionError: the device has less, or lacks a capacity that the request states.
    """
    requested = _requested(claim, result)
    if result.share_id is not None or not device.allow_multiple_allocations or not requested:
        return None
    return _amounts(requested, result, device)


def as_allocated(claim: RequestedClaim, result: DeviceResult, device: SliceDevice) -> DeviceResult:
    """Return the result as kube-scheduler 1.37.1 would write it: with a share of a shared device.

    Raises:
        ConsumptionError: as ``consumed``, also where claims cannot share the device.
    """
    amounts = _amounts(_requested(claim, result), result, device)
    if not device.allow_multiple_allocations:
        return result
    share = share_id("/".join((result.driver, result.pool, result.device)))
    return msgspec.structs.replace(result, share_id=share, consumed_capacity=dict(amounts))


def _requested(claim: RequestedClaim, result: DeviceResult) -> Mapping[str, Amount]:
    request = _request(claim, result.request)
    return (request and request.capacity and request.capacity.requests) or {}


def _amounts(
    requested: Mapping[str, Amount], result: DeviceResult, device: SliceDevice
) -> dict[str, str]:
    """Return what a request consumes of each capacity of a shared device."""
    capacities = device.capacity or {}
    for name in requested.keys() - capacities.keys():
        raise ConsumptionError(f"device {result.device} has no capacity {name}")
    try:
        return {name: _amount(name, requested.get(name), each) for name, each in capacities.items()}
    except QuantityError as error:
        raise ConsumptionError(f"device {result.device}: {error}") from error


def _request(claim: RequestedClaim, name: str) -> ExactRequest | None:
    """Return the request of a result, which names an alternative as ``REQUEST/ALTERNATIVE``."""
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
    """Return what a request consumes of one capacity.

    Raises:
        ConsumptionError: it is more than the device has, or than its policy allows.
    """
    try:
        policy = convert(capacity.request_policy or {}, RequestPolicy)
    except UnreadableError as error:
        raise ConsumptionError(f"its requestPolicy cannot be read: {error}") from error
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


def _rounded(amount: Fraction, policy: RequestPolicy) -> Fraction:
    """Return the next amount that a policy allows; above all of them the amount itself."""
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
    """Return an amount as a quantity: whole, or in thousandths, rounded up."""
    return str(amount.numerator) if amount.denominator == 1 else f"{ceil(amount * 1000)}m"


def share_id(text: str) -> str:
    """Return the id that follows from a text: a UUID of version 8 (RFC 9562), as the API asks."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_UNKNOWN = frozenset({"all", "exists", "exists_one", "map", "filter", "size"})
"""Words of an expression that may read attributes without their names."""

_LITERALS = re.compile(
    r"""\[\s*(?:'[^'"\\]*'|"[^'"\\]*")(?:\s*,\s*(?:'[^'"\\]*'|"[^'"\\]*"))*\s*\]"""
)
"""An index or a list of plain texts: a name in it is one of the words of the expression."""


def others(
    claim: RequestedClaim,
    results: tuple[DeviceResult, ...],
    slices: Iterable[ResourceSlice],
    classes: Mapping[str, DeviceClass],
) -> list[str]:
    """Return the devices that are as good as the only one of a claim, for its scheduler.

    Args:
        claim: what it requests.
        results: what was allocated to it.
        slices: of the newest generation of the pool.
        classes: those that the claim names, by name.
    """
    words = None if len(results) != 1 else _words(claim, classes)
    if words is None:
        return []
    devices = {device.name: device for each in slices for device in each.spec.devices or ()}
    chosen = devices.get(results[0].device)
    if chosen is None:
        return []
    return [
        name
        for name, device in devices.items()
        if name != chosen.name and _is_like(device, chosen, words)
    ]


def _words(claim: RequestedClaim, classes: Mapping[str, DeviceClass]) -> frozenset[str] | None:
    """Return the words of all expressions of a claim; None where it is not sure what they read."""
    devices = claim.spec.devices
    requests = devices.requests or ()
    if len(requests) != 1 or requests[0].exactly is None or devices.constraints:
        return None
    exactly: ExactRequest = requests[0].exactly
    found = classes.get(exactly.device_class_name)
    if found is None or exactly.count not in (None, 1):
        return None
    if exactly.allocation_mode not in (None, "", "ExactCount"):
        return None
    selectors: tuple[DeviceSelector, ...] = (
        *(found.spec.selectors or ()),
        *(exactly.selectors or ()),
    )
    if any(each.cel is None for each in selectors):
        return None
    text = " ".join(each.cel.expression for each in selectors if each.cel is not None)
    words = frozenset(_WORD.findall(text))
    computed = "[" in _LITERALS.sub("", text)
    return None if computed or words & _UNKNOWN else words


def _is_like(device: SliceDevice, chosen: SliceDevice, words: frozenset[str]) -> bool:
    if any(each.taints or each.consumes_counters for each in (device, chosen)):
        return False
    if (device.binding_conditions, device.binding_failure_conditions) != (
        chosen.binding_conditions,
        chosen.binding_failure_conditions,
    ):
        return False  # the scheduler has copied those of the chosen one into the claim
    if device.capacity != chosen.capacity:
        return False
    if device.allow_multiple_allocations != chosen.allow_multiple_allocations:
        return False
    one, other = device.attributes or {}, chosen.attributes or {}
    differing = {
        name.rpartition("/")[2]  # the expression may look for it in any domain
        for name in one.keys() | other.keys()
        if one.get(name) != other.get(name)
    }
    return not differing & words
