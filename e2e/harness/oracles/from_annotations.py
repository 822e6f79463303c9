"""What pods were given, read from what each ecosystem's own node components read.

Written from the ecosystems' sources and not with the product's readers, so that a test can find
out whether the product wrote it right.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2e.harness.cluster.api import Object
from e2e.harness.names import ALLOCATED, CORE

# volcano pkg/scheduler/api/devices/nvidia/vgpu/type.go
VOLCANO = "volcano.sh/vgpu-ids-new"
# HAMi v2.10.0 pkg/device/metax/sdevice.go, device.go
METAX, METAX_WHOLE = "hami.io/metax-sgpu-devices-allocated", "hami.io/metax-gpu-devices-allocated"
# HAMi v2.10 pkg/device/nvidia/device.go, InitNvidiaDevice: what its device plugin takes
HAMI = "hami.io/vgpu-devices-to-allocate"
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 1000, "M": 1000**2, "": 1}
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """A part of one card.

    Attributes:
        card: its uuid; with Volcano's group and position in brackets for a MIG slice.
        memory: MiB.
        compute: percent.
    """

    card: str
    memory: int
    compute: int


def shares_of_pod(pod: Object, minors: Sequence[str] = ()) -> list[Share]:
    """All shares of a pod, ordered; none where nothing is written on it.

    Args:
        pod: as the API server has it.
        minors: uuids of the cards of its node by the number that Koordinator calls them.
    """
    written = pod["metadata"].get("annotations") or {}
    if ALLOCATED in written:
        return sorted(_koordinator(written[ALLOCATED], minors))
    for key in (VOLCANO, METAX, METAX_WHOLE, HAMI):
        if key in written:
            return sorted(_hami(written[key]))
    return []


def sums(shares: Iterable[Share]) -> tuple[Counter[str], Counter[str]]:
    """MiB and percent that are given of each card."""
    memory: Counter[str] = Counter()
    compute: Counter[str] = Counter()
    for share in shares:
        memory[share.card] += share.memory
        compute[share.card] += share.compute
    return memory, compute


def _hami(text: str) -> Iterable[Share]:
    """Devices end with a colon, containers with a semicolon."""
    for row in re.split("[;:]", text):
        if row:
            card, _, memory, compute = row.split(",")
            yield Share(card, int(memory), int(compute))


def _koordinator(text: str, minors: Sequence[str]) -> Iterable[Share]:
    """Source: koordinator apis/extension/device_share.go, DeviceAllocations."""
    for row in json.loads(text)["gpu"]:
        resources = row["resources"]
        memory = bytes_of(resources["koordinator.sh/gpu-memory"]) // _MIB
        minor = int(row["minor"])
        yield Share(minors[minor], memory, int(resources.get(CORE, 0)))


def bytes_of(quantity: str) -> int:
    """A quantity of memory in bytes, where it is a whole number.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch("([0-9]+)(Ki|Mi|Gi|k|M|)", quantity)
    if found is None:
        raise ValueError(f"{quantity} is no amount of memory")
    return int(found[1]) * _UNITS[found[2]]
