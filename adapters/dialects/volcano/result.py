"""The record of an allocation, as the device plugin reads it and the scheduler restores it.

``devices := (uuid "," type "," memory "," cores ":")+``, one for each requesting container, joined
by ``;``. Memory is in units; for a MIG slice it is the requested memory, not the slice's. The uuid
of a slice is ``uuid[group-position]``.
Source: volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/utils.go:102-168, mig.go:209-245.
"""

import re
from collections.abc import Iterator
from itertools import islice

from adapters.dialects import allocation_record
from adapters.dialects.dialect import DialectError, Result, UnclearRecord
from adapters.dialects.volcano import keys
from adapters.wire.kube import Pod, annotations
from core.durations import SECOND
from core.hardware.card import Card, Mode
from core.hardware.mig import Slice
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant, Placement
from core.requests.request import ContainerRequest, Phase, Request

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_ID = re.compile(r"(?P<uuid>[^\s\[\]]+)(?:\[(?P<slice>[^\s\[\]-]+-[0-9]{1,3})\])?", re.ASCII)


def has_result(pod: Pod) -> bool:
    """Whether a pod has a record."""
    return keys.ASSIGNED in annotations(pod) or allocation_record.KEY in annotations(pod)


def write_result(
    pod: Pod, request: Request, placement: Placement, node: Node, unit: int, now: int
) -> Result:
    """Write the record of a placement.

    The result also has Dragoman's own record where the device plugin would attribute the first
    list of devices to the wrong container.

    Args:
        pod: the pod.
        request: what it requests.
        placement: the cards that it gets.
        node: the node of the placement.
        unit: bytes of one unit of memory.
        now: nanoseconds since 1970.
    """
    cards = {card.uuid: card for card in node.cards}
    left = iter(placement.grants)
    assigned = ";".join(
        "".join(
            _device(wanted, grant, cards[grant.card], unit) for grant in islice(left, wanted.count)
        )
        for wanted in request.containers
    )
    seconds = str(now // SECOND)
    written = {
        keys.NODE: placement.node,
        keys.TIME: seconds,
        keys.ASSIGNED: assigned,
        keys.TO_ALLOCATE: assigned,
        keys.PHASE: keys.ALLOCATING,
        keys.BIND_TIME: seconds,
    }
    if not _positional(pod, request):
        written[allocation_record.KEY] = allocation_record.encode(placement.grants)
    return Result(annotations=written, labels={})


def read_result(pod: Pod, request: Request, node: Node, unit: int) -> tuple[Grant, ...]:
    """Read the grants of a pod, in start order of its containers.

    Args:
        pod: a pod that has a record.
        request: what it requests.
        node: the node that it runs on.
        unit: bytes of one unit of memory.

    Raises:
        DialectError: the record cannot be parsed.
    """
    written = annotations(pod)
    if allocation_record.KEY in written:
        return allocation_record.read(written[allocation_record.KEY], request, node)
    text = written[keys.ASSIGNED]
    cards = {card.uuid: card for card in node.cards}
    lists = text.split(";")
    if len(lists) != len(request.containers):
        raise _invalid(
            text, f"must have {len(request.containers)} lists of devices, one for each container"
        )
    return tuple(
        grant
        for wanted, devices in zip(request.containers, lists, strict=True)
        for grant in _grants(text, wanted, devices, cards, unit)
    )


def _positional(pod: Pod, request: Request) -> bool:
    """Whether the plugin, which takes the nth list for the nth main container, is right."""
    first = [(one.name, Phase.MAIN) for one in pod.spec.containers[: len(request.containers)]]
    return first == [(wanted.name, wanted.phase) for wanted in request.containers]


def _device(wanted: ContainerRequest, grant: Grant, card: Card, unit: int) -> str:
    part = grant.slice
    if part is None:
        return f"{grant.card},{keys.VENDOR_TYPE},{grant.memory // unit},{grant.compute}:"
    requested = wanted.memory_on(card.memory) // unit
    name = f"{part.layout}-{part.position}"
    return f"{grant.card}[{name}],{keys.VENDOR_TYPE},{requested},{wanted.compute}:"


def _grants(
    text: str, wanted: ContainerRequest, devices: str, cards: dict[str, Card], unit: int
) -> Iterator[Grant]:
    *entries, rest = devices.split(":")
    if rest:
        raise _invalid(text, "must end every device with a colon")
    if len(entries) != wanted.count:
        raise _invalid(text, f"must list {wanted.count} devices for container {wanted.name}")
    seen: set[str] = set()
    for entry in entries:
        grant = _grant(text, wanted, entry, cards, unit)
        if grant.card in seen:
            raise _invalid(text, f"must not list {grant.card} twice for {wanted.name}")
        seen.add(grant.card)
        yield grant


def _grant(
    text: str, wanted: ContainerRequest, entry: str, cards: dict[str, Card], unit: int
) -> Grant:
    fields = entry.split(",")
    if len(fields) != 4 or fields[1] != keys.VENDOR_TYPE:
        raise _invalid(text, f"must list devices as uuid,{keys.VENDOR_TYPE},memory,cores")
    identity, _, memory, cores = fields
    match = _ID.fullmatch(identity)
    if match is None:
        raise _invalid(text, "must name devices as uuid or uuid[group-position]")
    if not _NUMBER.fullmatch(memory) or not int(memory):
        raise _invalid(text, "must state memory in units, 1 or more")
    if not _NUMBER.fullmatch(cores) or int(cores) > FULL:
        raise _invalid(text, "must state cores in percent, 0 to 100")
    uuid, compute = match["uuid"], int(cores)
    part = listed_slice(text, match["slice"], cards.get(uuid))
    return Grant(
        container=wanted.name,
        card=uuid,
        memory=int(memory) * unit if part is None else part.memory,
        compute=compute if part is None else part.compute,
        exclusive=compute == FULL,
        phase=wanted.phase,
        slice=part,
    )


def listed_slice(text: str, name: str | None, card: Card | None) -> Slice | None:
    """The slice that a record names; None for a card that is not partitioned, or is unknown.

    Args:
        text: the record, for the error.
        name: ``group-position``; None where the record names no slice.
        card: as the node has it; None where the node does not have it.

    Raises:
        UnclearRecord: the record names a slice that the card does not have, or needs one.
    """
    if card is None:
        return None
    if card.mode is not Mode.MIG:
        if name is not None:
            raise _unclear(text, card, "must not name a slice of {}, which is not partitioned")
        return None
    for layout in card.geometry.layouts:
        for part in layout.slices:
            if name == f"{layout.name}-{part.position}":
                return part
    raise _unclear(text, card, "must name a slice of {} that its layouts have")


def _unclear(text: str, card: Card, problem: str) -> UnclearRecord:
    field = f"metadata.annotations[{keys.ASSIGNED}]"
    return UnclearRecord(field, text, problem.format(card.uuid), (card.uuid,))


def _invalid(text: str, problem: str) -> DialectError:
    return DialectError(f"metadata.annotations[{keys.ASSIGNED}]", text, problem)
