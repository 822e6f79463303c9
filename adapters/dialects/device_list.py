"""The list of devices that HAMi and Volcano write on a pod, read as their own programs read it.

``list := (uuid "," type "," memory "," cores ["," more] ":")*``, one for each container; HAMi
closes every list with ``;``, Volcano puts ``;`` between them. A device of a cut card has a place
in brackets behind its uuid.

The peers pass over what they cannot read, which makes the card look free; here it is an error.
Sources: HAMi v2.10.0 pkg/device/devices.go:451-556, the same since v2.4 (there in
pkg/util/util.go); volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/utils.go:102-168.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adapters.dialects.containers import PodContainer
from adapters.dialects.dialect import DialectError
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant
from core.requests.request import Phase

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_ID = re.compile(r"(?P<uuid>[^\s\[\]]+)(?:\[(?P<place>[^\s\[\]]*)\])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """One device of a list.

    Attributes:
        uuid: of the card.
        place: what stands in brackets; None where nothing does.
        memory: in the record's unit; 0 for no bound, as HAMi-core reads it.
        compute: percent, 0 to 100.
    """

    uuid: str
    slice_name: str | None
    memory: int
    compute: int


DeviceLists = tuple[tuple[ListedDevice, ...], ...]


def read_device_lists(field: str, text: str) -> DeviceLists:
    """The lists of a text, one for each container that it tells of.

    Raises:
        DialectError: something stands there that is no device.
    """
    lists = text.split(";")
    if not lists[-1].strip():
        lists.pop()
    return tuple(
        tuple(_listed(field, text, device) for device in devices.split(":") if device.strip())
        for devices in lists
    )


def list_owners(lists: DeviceLists, *candidates: Iterable[PodContainer]) -> list[tuple[str, Phase]]:
    """Whose each list is: the first of some sequences of containers that is as long.

    Where none is, and where the record gives nothing, all containers of the pod see the cards.
    """
    for candidate in candidates:
        members = list(candidate)
        if len(members) == len(lists):
            return [(member.container.name, member.phase) for member in members]
    return [("", Phase.MAIN)] * len(lists)


def listed_grant(
    field: str, listed: ListedDevice, owner: tuple[str, Phase], node: Node, unit: int
) -> Grant:
    """A device of a card that is not cut as the grant that it is.

    All compute makes a holder exclusive for the peers too. No bound on memory is all of it.

    Args:
        field: where the record stands, for the error.
        listed: the device.
        owner: whose it is.
        node: where the pod runs.
        unit: bytes of one unit of memory.

    Raises:
        DialectError: there is no bound, and the node does not have the card.
    """
    memory = listed.memory * unit
    if not memory:
        memory = next((card.memory for card in node.cards if card.uuid == listed.uuid), 0)
    if not memory:
        raise DialectError(field, listed.uuid, f"is no card of {node.name}, and has no bound")
    container, phase = owner
    return Grant(container, listed.uuid, memory, listed.compute, listed.compute == FULL, phase)


def _listed(field: str, text: str, device: str) -> ListedDevice:
    fields: Sequence[str] = device.strip().split(",")
    match = _ID.fullmatch(fields[0])
    numbers = fields[2:4]
    if match is None or len(numbers) < 2 or not all(map(_NUMBER.fullmatch, numbers)):
        raise DialectError(field, text, "every device must read uuid,type,memory,cores")
    memory, compute = map(int, numbers)
    if compute > FULL:
        raise DialectError(field, text, f"card {match['uuid']} cannot give so much")
    return ListedDevice(match["uuid"], match["place"], memory, compute)
