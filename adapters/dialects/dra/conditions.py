"""Conditions of a claim's devices, for which a scheduler waits before it binds the pod.

A device that is published with binding conditions is allocated first and used later: the scheduler
binds the pod when all of them are true, and gives the device up when a failure condition is. Ours
say whether the ledger has the claim.

Source: Kubernetes enhancement 5007; k8s.io/api v0.37.1 resource/v1/types.go (BindingConditions,
AllocatedDeviceStatus).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from adapters.wire.dra import AllocatedDeviceStatus, ClaimStatus, DeviceResult

COMMITTED = "gpu.dragoman.dev/committed"
"""True when the ledger has the claim."""

REJECTED = "gpu.dragoman.dev/rejected"
"""True when the ledger cannot have it: the cards are in use."""

_OURS = frozenset({COMMITTED, REJECTED})

_MAX_MESSAGE = 32768
"""Characters of a condition's message (k8s.io/apimachinery meta/v1, Condition)."""

Json = dict[str, Any]


def awaiting(status: ClaimStatus) -> tuple[DeviceResult, ...]:
    """The allocated devices whose scheduler waits for the ledger, or was refused by it."""
    results = () if status.allocation is None else status.allocation.devices.results or ()
    waiting = [each for each in results if COMMITTED in (each.binding_conditions or ())]
    if not waiting:
        return ()
    done = _with(status, COMMITTED)
    return tuple(each for each in waiting if _key(each) not in done)


def is_rejected(status: ClaimStatus, waiting: Sequence[DeviceResult]) -> bool:
    """Whether the scheduler of a claim was refused one of the devices that it waits for."""
    return bool(waiting) and not _with(status, REJECTED).isdisjoint(map(_key, waiting))


def reported(
    stored: Sequence[Json], devices: Sequence[DeviceResult], problem: str | None, time: str
) -> list[Json]:
    """``status.devices`` of a claim with the ledger's answer; all else in it stays as it is.

    Args:
        stored: as the API server has it.
        devices: about which the answer is.
        problem: why the ledger cannot have the claim; None where it has it.
        time: now, in the form of RFC 3339.
    """
    condition = {
        "type": COMMITTED if problem is None else REJECTED,
        "status": "True",
        "reason": "Committed" if problem is None else "CardsInUse",
        "message": ("the ledger has the claim" if problem is None else problem)[:_MAX_MESSAGE],
        "lastTransitionTime": time,
    }
    entries = {_place(each): each for each in stored}
    for device in devices:
        bare = _of_result(device)
        entry = entries.get(_place(bare), bare)
        others = [each for each in entry.get("conditions") or () if each["type"] not in _OURS]
        entries[_place(bare)] = {**entry, "conditions": [*others, condition]}
    return list(entries.values())


def _with(status: ClaimStatus, kind: str) -> frozenset[tuple[str, ...]]:
    """The devices of which a condition is true."""
    return frozenset(
        _key(each)
        for each in status.devices or ()
        if any((found.type, found.status) == (kind, "True") for found in each.conditions or ())
    )


def _key(device: DeviceResult | AllocatedDeviceStatus) -> tuple[str, ...]:
    return device.driver, device.pool, device.device, device.share_id or ""


def _of_result(device: DeviceResult) -> Json:
    names: Iterable[tuple[str, str | None]] = (
        ("driver", device.driver),
        ("pool", device.pool),
        ("device", device.device),
        ("shareID", device.share_id),
    )
    return {name: value for name, value in names if value is not None}


def _place(entry: Json) -> tuple[str, ...]:
    return tuple(entry.get(name) or "" for name in ("driver", "pool", "device", "shareID"))
