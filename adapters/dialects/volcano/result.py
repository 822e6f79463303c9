"""The record of an allocation, as the device plugin reads it and the scheduler restores it.

``devices := (uuid "," type "," memory "," cores ":")+``, one for each requesting container, joined
by ``;``. Memory is in units; for a MIG slice it is the requested memory, not the slice's. The uuid
of a slice is ``uuid[group-position]``.
Source: volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/utils.go:102-168, mig.go:209-245.

Of a pod that vc-scheduler's own plugin bound, the record counts, not the request.
Source: pkg/scheduler/api/devices/util.go:210-281 and vgpu/utils.go:102-218.

A mirror is what a pod of another dialect has, as vc-scheduler's own plugin ``deviceshare`` counts
it. The plugin adds up the record of each pod of a node, whatever the pod requests: each device of
the record takes one place of its card, its memory and its compute. The other annotations of a
result are those by which the device plugin finds the pod that it serves, so a mirror has none.

Two rules keep its sums right when it counts a pod again, as at each change of the pod. A pod's
memory on a card must not be 0 before its last device is subtracted, or the plugin forgets the pod
and keeps the rest; and the first device must have all amounts, because 1.15 counts no further one.
Source: volcano-sh/volcano v1.14.1 pkg/scheduler/api/devices/nvidia/vgpu/device_info.go
``addResource``, hamicore.go ``AddPod`` and ``SubPod``, metrics.go ``SubPodMetrics``; v1.15.0
hamicore.go ``AddPod``.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from adapters.dialects import allocation_record
from adapters.dialects.containers import PodContainer, pod_containers, requests_any, stated_amount
from adapters.dialects.dialect import (
    NO_ALLOCATION,
    AdoptedAllocation,
    DialectError,
    HeldShare,
    Result,
    UnclearRecord,
)
from adapters.dialects.formats.device_list import (
    ListedDevice,
    list_owners,
    listed_grant,
    read_device_lists,
)
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.pod import VolcanoPodReader, group
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
    """Return whether a pod has a record."""
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
    """Return whether the plugin, which takes the nth list for the nth main container, is right."""
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
    """Return the slice that a record names; None for a card that is not partitioned, or is unknown.

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


_FIELD = f"metadata.annotations[{keys.ASSIGNED}]"


def read_adopted(pod: Pod, node: Node, reader: VolcanoPodReader) -> AdoptedAllocation | None:
    """Read the allocation of a pod; see ``Dialect``.

    Volcano's record covers main containers that name a number of cards or an amount of memory,
    even if it is 0. Volcano allocates no card for a number of 0.

    Args:
        pod: the pod.
        node: where it runs.
        reader: has the settings.

    Raises:
        DialectError: the record cannot be parsed.
        UnclearRecord: it names a slice that a card does not have.
    """
    containers = tuple(pod_containers(pod))
    text = annotations(pod).get(keys.ASSIGNED, "")
    lists = read_device_lists(_FIELD, text)
    if not any(lists) or any(requests_any(one, keys.LEGACY) for one in containers):
        return (
            None if any(_requests_cards(member, reader) for member in containers) else NO_ALLOCATION
        )
    covered = [one for one in containers if one.phase is Phase.MAIN and _covered(one, reader)]
    try:
        grants = tuple(
            _adopted_grant(text, listed, owner, node, reader.config.unit)
            for owner, devices in zip(list_owners(lists, covered), lists, strict=True)
            for listed in devices
        )
    except UnclearRecord as error:
        cards = {listed.uuid for devices in lists for listed in devices}
        raise UnclearRecord(error.field, error.value, error.problem, cards) from None
    return AdoptedAllocation(grants, reader.terms(pod, _group(pod)))


def _covered(member: PodContainer, reader: VolcanoPodReader) -> bool:
    limits = member.container.resources.limits or {}
    return reader.config.count in limits or reader.config.memory in limits


def _requests_cards(member: PodContainer, reader: VolcanoPodReader) -> bool:
    """Return whether a container requests cards: by their number, or else by memory.

    The older device plugin has resources of its own, and its record has numbers only.
    """
    if stated_amount(member, reader.config.count) is None and stated_amount(
        member, reader.config.memory
    ):
        return True
    return requests_any(member, (reader.config.count, *keys.LEGACY))


def _adopted_grant(
    text: str, listed: ListedDevice, owner: tuple[str, Phase], node: Node, unit: int
) -> Grant:
    card = next((card for card in node.cards if card.uuid == listed.uuid), None)
    slice_ = listed_slice(text, listed.slice_name, card)
    if slice_ is None:
        return listed_grant(_FIELD, listed, owner, node, unit)
    container, phase = owner
    exclusive = listed.compute == FULL
    return Grant(container, listed.uuid, slice_.memory, slice_.compute, exclusive, phase, slice_)


def _group(pod: Pod) -> str | None:
    """Return the group whose pods share no card with it; None where Volcano ignores the policy."""
    try:
        return group(pod)
    except DialectError:
        return None


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
    devices = "".join(
        _mirror_devices(share, unit) for share in shares if keys.NAME in share.card.dialects
    )
    return {keys.ASSIGNED: devices} if devices else {}


def _mirror_devices(share: HeldShare, unit: int) -> str:
    uuid = share.card.uuid
    if share.card.mode is Mode.MIG:
        return _mirror_device(f"{uuid}[{_NO_GROUP}]", 0, FULL)
    all_amounts = _mirror_device(uuid, -(-share.memory // unit), share.compute)
    return (
        all_amounts if share.whole else all_amounts + _mirror_device(uuid, 1, 0) * (share.slots - 1)
    )


def _mirror_device(identity: str, memory: int, compute: int) -> str:
    return f"{identity},{keys.VENDOR_TYPE},{memory},{compute}:"
