"""Which devices could stand in for one that a scheduler chose, so that the claim stays valid.

A scheduler chooses a device by expressions of the Common Expression Language, which are not
evaluated here. Two devices of one pool give the same answer to an expression if they differ in
nothing that it names. Where that is not sure, a device has no other.
"""

import re
from collections.abc import Iterable, Mapping

from adapters.wire.dra import (
    DeviceClass,
    DeviceResult,
    DeviceSelector,
    ExactRequest,
    RequestedClaim,
    ResourceSlice,
    SliceDevice,
)

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
    """The names of the devices that are as good as the only one of a claim, for its scheduler.

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
    """The words of all expressions of a claim; None where it is not sure what they read."""
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
