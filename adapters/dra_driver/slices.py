"""The ResourceSlices of a node: its shared cards in one pool, its partitionable ones in another.

While the slices of a pool are of several generations, nothing is allocated from it. So shared
cards, one slice for all, have a pool of their own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from adapters.dialects.dra import DRIVER
from adapters.dra_driver.devices import CardDevices, Json

MAX_DEVICES = 64
"""Devices of a slice where any has taints or counters (types.go, ResourceSlice)."""

MAX_COUNTER_SETS = 8
"""Counter sets of a slice; such a slice has no devices."""

API_VERSION, KIND = "resource.k8s.io/v1", "ResourceSlice"


@dataclass(frozen=True, slots=True)
class DevicePool:
    """A pool, and the contents of its slices.

    Attributes:
        name: of the pool.
        slices: what each slice has besides driver, node and pool, by the slice's name.
    """

    name: str
    slices: dict[str, Json]


def pools(node: str, cards: Iterable[CardDevices]) -> tuple[DevicePool, ...]:
    """The pools of a node; a pool without devices is left out."""
    shared: list[Json] = []
    partitioned: list[CardDevices] = []
    for each in cards:
        if each.counters is None:
            shared += each.devices
        else:
            partitioned.append(each)
    found: list[DevicePool] = []
    if shared:
        contents: list[Json] = [{"devices": part} for part in _parts(shared, MAX_DEVICES)]
        found.append(_pool(node, f"{node}-{DRIVER}", contents))
    if partitioned:
        counters = [each.counters for each in partitioned]
        devices = [device for each in partitioned for device in each.devices]
        contents = [{"sharedCounters": part} for part in _parts(counters, MAX_COUNTER_SETS)]
        contents += [{"devices": part} for part in _parts(devices, MAX_DEVICES)]
        found.append(_pool(f"{node}/mig", f"{node}-mig-{DRIVER}", contents))
    return tuple(found)


def slice_object(node: str, owner: str, pool: DevicePool, name: str, generation: int) -> Json:
    """A whole slice.

    Args:
        node: its name.
        owner: uid of the node; the slice is deleted with it.
        pool: of the slice.
        name: of the slice.
        generation: of the pool.
    """
    reference = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner}
    place = {
        "name": pool.name,
        "generation": generation,
        "resourceSliceCount": len(pool.slices),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "ownerReferences": [reference]},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": place, **pool.slices[name]},
    }


def _pool(name: str, prefix: str, contents: Sequence[Json]) -> DevicePool:
    return DevicePool(name, {f"{prefix}-{number}": each for number, each in enumerate(contents)})


def _parts(items: Sequence[Any], size: int) -> list[list[Any]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]
