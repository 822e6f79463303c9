"""What claims were given, read from their status and not with the product's readers.

Source: k8s.io/api v0.37.1 resource/v1/types.go, DeviceRequestAllocationResult.
"""

from collections.abc import Mapping

from e2e.harness.cluster.api import Object
from e2e.harness.oracles.from_annotations import Share, bytes_of
from e2e.harness.workloads.inventory import Gpu

FULL = 100
_MIB = 1 << 20

Devices = Mapping[tuple[str, str, str], Gpu]
"""Cards by driver, pool and device."""


def shares_of_claim(claim: Object, devices: Devices) -> list[Share]:
    """All shares of a claim, ordered; none where it has no allocation.

    A result without ``shareID`` is the whole device, and so is all memory where none is stated.
    Compute is what HAMi's driver calls cores.

    Raises:
        KeyError: it has a device that is none of these.
    """
    allocation = claim.get("status", {}).get("allocation") or {}
    found = []
    for result in allocation.get("devices", {}).get("results", ()):
        card = devices[result["driver"], result["pool"], result["device"]]
        if "shareID" not in result:
            found.append(Share(card.uuid, card.memory, FULL))
            continue
        consumed = result.get("consumedCapacity", {})
        memory = bytes_of(consumed["memory"]) // _MIB if "memory" in consumed else card.memory
        found.append(Share(card.uuid, memory, int(consumed.get("cores", 0))))
    return sorted(found)
