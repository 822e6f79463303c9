"""The device lists that HAMi and Volcano write on a pod, parsed as their own programs parse them.

``list := (uuid "," type "," memory "," cores ["," more] ":")*``, one for each container; HAMi
ends every list with ``;``, Volcano separates lists by ``;``. The uuid of a partitioned card is
followed by the name of the slice in brackets.

HAMi and Volcano ignore what they cannot parse, so that the card counts as free; here it is an
error.
Sources: HAMi v2.10.0 pkg/device/devices.go:451-556, the same since v2.4 (there in
pkg/util/util.go); volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/utils.go:102-168.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from adapters.dialects.containers import PodContainer
from adapters.dialects.dialect import DialectError
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant
from core.requests.request import Phase

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_ID = re.compile(r"(?P<uuid>[^\s\[\]]+)(?:\[(?P<slice>[^\s\[\]]*)\])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """One device of a list.

    Attributes:
        slice_name: the text in brackets; None where there are no brackets.
        memory: in the unit of the record; 0 for no limit, as HAMi-core reads it.
        compute: percent, 0 to 100.
    """

    uuid: str
    slice_name: str | None
    memory: int
    compute: int

    @property
    def name(self) -> str:
        """The uuid with the brackets, as the record has it."""
        return self.uuid if self.slice_name is None else f"{self.uuid}[{self.slice_name}]"


DeviceLists = tuple[tuple[ListedDevice, ...], ...]


def read_device_lists(field: str, text: str) -> DeviceLists:
    """Parse the lists of a text, one for each container that the text covers.

    Raises:
        DialectError: an entry is not a device.
    """
    lists = text.split(";")
    if not lists[-1].strip():
        lists.pop()
    found: list[tuple[ListedDevice, ...]] = []
    for devices in lists:
        listed: list[ListedDevice] = []
        for device in filter(str.strip, devices.split(":")):
            fields = device.strip().split(",")
            match, numbers = _ID.fullmatch(fields[0]), fields[2:4]
            if match is None or len(numbers) < 2 or not all(map(_NUMBER.fullmatch, numbers)):
                raise DialectError(field, text, "every device must read uuid,type,memory,cores")
            memory, compute = map(int, numbers)
            if compute > FULL:
                problem = f"card {match['uuid']} has less than this record states"
                raise DialectError(field, text, problem)
            listed.append(ListedDevice(match["uuid"], match["slice"], memory, compute))
        found.append(tuple(listed))
    return tuple(found)


def list_owners(lists: DeviceLists, *candidates: Iterable[PodContainer]) -> list[tuple[str, Phase]]:
    """Return the container and phase of each list: from the first candidate of the same length.

    Where no candidate has this length, all containers of the pod see the cards (name ``""``).
    """
    for candidate in candidates:
        members = list(candidate)
        if len(members) == len(lists):
            return [(member.container.name, member.phase) for member in members]
    return [("", Phase.MAIN)] * len(lists)


def listed_grant(
    field: str, listed: ListedDevice, owner: tuple[str, Phase], node: Node, unit: int
) -> Grant:
    """Return the grant for a listed device of a card that is not partitioned.

    A share of all compute is exclusive for HAMi and Volcano too, except that HAMi's shares a card
    of which pods may have more than that. No limit means all memory.

    Args:
        field: path of the record, for the error.
        listed: the device.
        owner: name and phase of its container.
        node: where the pod runs.
        unit: bytes of one unit of memory.

    Raises:
        DialectError: there is no limit, and the node does not have the card.
    """
    card = next((card for card in node.cards if card.uuid == listed.uuid), None)
    memory = listed.memory * unit
    if not memory and card is not None:
        memory = card.memory
    if not memory:
        raise DialectError(
            field, listed.uuid, f"is not a card of {node.name}, and has no memory limit"
        )
    container, phase = owner
    exclusive = listed.compute == FULL and (card is None or card.compute <= FULL)
    return Grant(container, listed.uuid, memory, listed.compute, exclusive, phase)
