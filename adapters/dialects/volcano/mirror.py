"""What a pod of another dialect has, as vc-scheduler's own plugin ``deviceshare`` counts it.

The plugin adds up the record of each pod of a node, whatever the pod requests: each device of the
record takes one place of its card, its memory and its compute. The other annotations of a result
are those by which the device plugin finds the pod that it serves, so a mirror has none of them.

Two rules keep its sums right when it counts a pod again, as at each change of the pod. A pod's
memory on a card must not be 0 before its last device is subtracted, or the plugin forgets the pod
and keeps the rest; and the first device must have all amounts, because 1.15 counts no further one.
Source: volcano-sh/volcano v1.14.1 pkg/scheduler/api/devices/nvidia/vgpu/device_info.go
``addResource``, hamicore.go ``AddPod`` and ``SubPod``, metrics.go ``SubPodMetrics``; v1.15.0
hamicore.go ``AddPod``.
"""

from collections.abc import Sequence

from adapters.dialects.dialect import HeldShare
from adapters.dialects.volcano import keys
from core.hardware.card import Mode
from core.hardware.quantity import FULL

_NO_GROUP = "dragoman-0"
"""A slice of no group. In MIG mode the plugin counts only the first slice that a pod has of a card,
and takes its memory from the table of groups. One that it does not find adds no memory, so the
compute must say that the card is full, and the memory must be 0, because that is what it subtracts.
A position that a known group does not have would end the scheduler.
Source: mig.go ``AddPod``, ``SubPod``, ``addMigUsed``."""


def write_mirror(shares: Sequence[HeldShare], unit: int) -> dict[str, str]:
    """Write the mirror; empty where Volcano describes none of the cards.

    Args:
        shares: of cards of one node, each once.
        unit: bytes of one unit of memory.
    """
    devices = "".join(_devices(share, unit) for share in shares if keys.NAME in share.card.dialects)
    return {keys.ASSIGNED: devices} if devices else {}


def _devices(share: HeldShare, unit: int) -> str:
    uuid = share.card.uuid
    if share.card.mode is Mode.MIG:
        return _device(f"{uuid}[{_NO_GROUP}]", 0, FULL)
    all_amounts = _device(uuid, -(-share.memory // unit), share.compute)
    return all_amounts if share.whole else all_amounts + _device(uuid, 1, 0) * (share.slots - 1)


def _device(identity: str, memory: int, compute: int) -> str:
    return f"{identity},{keys.VENDOR_TYPE},{memory},{compute}:"
