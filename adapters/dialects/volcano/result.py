"""The record of what a pod was given, as the device plugin reads it and the scheduler restores it.

``devices := (uuid "," type "," memory "," cores ":")+``, one for each asking container, joined by
``;``. Memory is in units, and for a hardware slice what was asked, not what the slice has; the
uuid of a slice is ``uuid[group-position]``.
Source: volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/utils.go:102-168, mig.go:209-245.
"""

import re
from collections.abc import Iterator
from itertools import islice

from adapters.dialects import record
from adapters.dialects.dialect import DialectError, Result
from adapters.dialects.volcano import keys
from adapters.wire.kube import Pod, annotations
from core.hardware.card import Card, Mode
from core.hardware.mig import Slice
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant, Placement
from core.requests.request import ContainerRequest, Phase, Request

_SECOND = 1_000_000_000
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_ID = re.compile(r"(?P<uuid>[^\s\[\]]+)(?:\[(?P<place>[^\s\[\]-]+-[0-9]{1,3})\])?", re.ASCII)


def has_result(pod: Pod) -> bool:
    """Whether a pod carries a record."""
    return keys.ASSIGNED in annotations(pod) or record.KEY in annotations(pod)


def write_result(
    pod: Pod, request: Request, placement: Placement, node: Node, unit: int, now: int
) -> Result:
    """The record of a placement.

    Our own record stands beside it where the device plugin would take the first list of devices
    for another container's than it is.

    Args:
        pod: the pod.
        request: what was read from it.
        placement: what it gets.
        node: the node of the placement.
        unit: bytes.
        now: nanoseconds since 1970.
    """
    cards = {card.uuid: card for card in node.cards}
    left = iter(placement.grants)
    assigned = ";".join(
        "".join(_device(ask, grant, cards[grant.card], unit) for grant in islice(left, ask.count))
        for ask in request.containers
    )
    seconds = str(now // _SECOND)
    written = {
        keys.NODE: placement.node,
        keys.TIME: seconds,
        keys.ASSIGNED: assigned,
        keys.TO_ALLOCATE: assigned,
        keys.PHASE: keys.ALLOCATING,
        keys.BIND_TIME: seconds,
    }
    if not _positional(pod, request):
        written[record.KEY] = record.encode(placement.grants)
    return Result(annotations=written, labels={})


def read_result(pod: Pod, request: Request, node: Node, unit: int) -> tuple[Grant, ...]:
    """What a pod was given, in start order of its containers.

    Args:
        pod: a pod that has a record.
        request: what was read from it.
        node: the node that it is on.
        unit: bytes.

    Raises:
        DialectError: the record cannot be understood.
    """
    written = annotations(pod)
    if record.KEY in written:
        return record.decode(written[record.KEY])
    text = written[keys.ASSIGNED]
    cards = {card.uuid: card for card in node.cards}
    lists = text.split(";")
    if len(lists) != len(request.containers):
        raise _unreadable(
            text, f"must have {len(request.containers)} lists of devices, one a container"
        )
    return tuple(
        grant
        for ask, devices in zip(request.containers, lists, strict=True)
        for grant in _grants(text, ask, devices, cards, unit)
    )


def _positional(pod: Pod, request: Request) -> bool:
    """Whether the plugin, which counts lists as main containers, finds the right ones."""
    first = [(one.name, Phase.MAIN) for one in pod.spec.containers[: len(request.containers)]]
    return first == [(ask.container, ask.phase) for ask in request.containers]


def _device(ask: ContainerRequest, grant: Grant, card: Card, unit: int) -> str:
    held = grant.slice
    if held is None:
        return f"{grant.card},{keys.VENDOR_TYPE},{grant.memory // unit},{grant.compute}:"
    asked = ask.memory_on(card.memory) // unit
    return f"{grant.card}[{held.layout}-{held.position}],{keys.VENDOR_TYPE},{asked},{ask.compute}:"


def _grants(
    text: str, ask: ContainerRequest, devices: str, cards: dict[str, Card], unit: int
) -> Iterator[Grant]:
    *entries, rest = devices.split(":")
    if rest:
        raise _unreadable(text, "must close every device with a colon")
    if len(entries) != ask.count:
        raise _unreadable(text, f"must list {ask.count} devices for container {ask.container}")
    seen: set[str] = set()
    for entry in entries:
        grant = _grant(text, ask, entry, cards, unit)
        if grant.card in seen:
            raise _unreadable(text, f"must not list {grant.card} twice for {ask.container}")
        seen.add(grant.card)
        yield grant


def _grant(
    text: str, ask: ContainerRequest, entry: str, cards: dict[str, Card], unit: int
) -> Grant:
    fields = entry.split(",")
    if len(fields) != 4 or fields[1] != keys.VENDOR_TYPE:
        raise _unreadable(text, f"must list devices as uuid,{keys.VENDOR_TYPE},memory,cores")
    identity, _, memory, cores = fields
    match = _ID.fullmatch(identity)
    if match is None:
        raise _unreadable(text, "must name devices as uuid or uuid[group-position]")
    if not _NUMBER.fullmatch(memory) or not int(memory):
        raise _unreadable(text, "must give memory in units, 1 or more")
    if not _NUMBER.fullmatch(cores) or int(cores) > FULL:
        raise _unreadable(text, "must give cores in percent, 0 to 100")
    uuid, compute = match["uuid"], int(cores)
    held = listed_slice(text, match["place"], cards.get(uuid))
    return Grant(
        container=ask.container,
        card=uuid,
        memory=int(memory) * unit if held is None else held.memory,
        compute=compute if held is None else held.compute,
        exclusive=compute == FULL,
        phase=ask.phase,
        slice=held,
    )


def listed_slice(text: str, place: str | None, card: Card | None) -> Slice | None:
    """The slice that a record means; None for a card that is not cut, or that nobody knows.

    Args:
        text: the record, for the error.
        place: ``group-position``, or None where no slice is named.
        card: as the node has it, or None.

    Raises:
        DialectError: the card is cut, and not so.
    """
    if card is None:
        return None
    if card.mode is not Mode.MIG:
        if place is not None:
            raise _unreadable(text, f"must not name a slice of {card.uuid}, which is not cut")
        return None
    for layout in card.geometry.layouts:
        for held in layout.slices:
            if place == f"{layout.name}-{held.position}":
                return held
    raise _unreadable(text, f"must name a slice of {card.uuid} as its layouts have it")


def _unreadable(text: str, problem: str) -> DialectError:
    return DialectError(f"metadata.annotations[{keys.ASSIGNED}]", text, problem)
