"""Volcano's dialect, and its record of an allocation.

The device plugin reads the record, and the scheduler restores its own state from it:
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

from adapters.dialects import allocation_record, dialect
from adapters.dialects.containers import PodContainer, pod_containers, requests_any, stated_amount
from adapters.dialects.formats.device_list import list_owners, listed_grant, read_device_lists
from adapters.dialects.volcano import keys
from adapters.dialects.volcano import node as nodes
from adapters.dialects.volcano.keys import ranking, read_device_config, read_scheduling
from adapters.dialects.volcano.pod import VolcanoPodReader, group
from adapters.wire.kube import DeviceObject, KubeNode, Pod, annotations
from core.durations import SECOND
from core.hardware.card import Card, Mode
from core.hardware.mig import Slice
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant, Placement
from core.requests.request import ContainerRequest, Phase, Request

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_ID = re.compile(r"(?P<uuid>[^\s\[\]]+)(?:\[(?P<slice>[^\s\[\]-]+-[0-9]{1,3})\])?", re.ASCII)
_FIELD = f"metadata.annotations[{keys.ASSIGNED}]"

_NO_GROUP = "dragoman-0"
"""A slice of no group. In MIG mode the plugin counts only the first slice that a pod has of a card,
and takes its memory from the table of groups. One that it does not find adds no memory, so the
compute must say that the card is full, and the memory must be 0, because that is what it subtracts.
A position that a known group does not have would end the scheduler.
Source: mig.go ``AddPod``, ``SubPod``, ``addMigUsed``."""


@dataclass(frozen=True, slots=True)
class Volcano(dialect.Dialect):
    """The dialect under one cluster's settings.

    It has no ``quota_units``: Volcano limits by its queues, which its scheduler still counts. Its
    webhook adds nothing that matters here. The lock of its device plugin, off by default, names
    no pod, so that no pod needs it.

    Attributes:
        pods: reads pods; it has the settings.
    """

    name = keys.NAME
    result_keys = keys.RESULT_KEYS

    pods: VolcanoPodReader

    @classmethod
    def configured(cls, settings: dialect.Documents, defaults: dialect.Defaults) -> Self:
        """Create the dialect with a cluster's settings; see ``Dialect``."""
        scheduling, document = read_scheduling(settings)
        config = read_device_config(settings, document)
        return cls(VolcanoPodReader(config, scheduling, ranking(scheduling, defaults)))

    def matches(self, pod: Pod) -> bool:
        """Return whether the pod names a resource of this dialect, even with an amount of 0."""
        return self.pods.matches(pod)

    def read_request(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests; see ``Dialect``."""
        return self.pods.read(pod)

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> dialect.NodeDescription:
        """Read the cards of a node, only from the node object."""
        return nodes.read_node(node, self.pods.config)

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return amounts as the device plugin registers them: sharers, percent, units of memory.

        Its limit of 60,000 ids for a message does not apply to a node's status.
        Source: volcano-vgpu-device-plugin pkg/plugin/server.go:649-716.
        """
        config = self.pods.config
        described = [card for card in cards if keys.NAME in card.dialects]
        if not described:
            return {}
        healthy = [card for card in described if card.healthy]
        return {
            config.count: sum(card.slots for card in healthy),
            config.cores: FULL * len(healthy),
            config.memory: sum(card.memory // config.unit for card in healthy),
        }

    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has a record of an allocation."""
        return keys.ASSIGNED in annotations(pod) or allocation_record.KEY in annotations(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the grants of a pod that has a record, in start order of its containers.

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
            count = len(request.containers)
            raise _invalid(text, f"must have {count} lists of devices, one for each container")
        return tuple(
            grant
            for wanted, devices in zip(request.containers, lists, strict=True)
            for grant in _grants(text, wanted, devices, cards, self.pods.config.unit)
        )

    def read_adopted(self, pod: Pod, node: Node) -> dialect.AdoptedAllocation | None:
        """Read what vc-scheduler's own plugin allocated to a pod; see ``Dialect``.

        Its record covers main containers that name a number of cards or an amount of memory, even
        if it is 0. Volcano allocates no card for a number of 0. The older device plugin has
        resources of its own, and its record has numbers only.

        Raises:
            DialectError: the record cannot be parsed.
            UnclearRecord: it names a slice that a card does not have.
        """
        config = self.pods.config

        def requests_cards(member: PodContainer) -> bool:
            counted = stated_amount(member, config.count) is not None
            by_memory = not counted and stated_amount(member, config.memory)
            return bool(by_memory) or requests_any(member, (config.count, *keys.LEGACY))

        containers = tuple(pod_containers(pod))
        text = annotations(pod).get(keys.ASSIGNED, "")
        lists = read_device_lists(_FIELD, text)
        if not any(lists) or any(requests_any(one, keys.LEGACY) for one in containers):
            return None if any(map(requests_cards, containers)) else dialect.NO_ALLOCATION
        covered = [
            one
            for one in containers
            if one.phase is Phase.MAIN
            and not {config.count, config.memory}.isdisjoint(one.container.resources.limits or ())
        ]
        cards = {card.uuid: card for card in node.cards}
        grants: list[Grant] = []
        for owner, devices in zip(list_owners(lists, covered), lists, strict=True):
            for listed in devices:
                try:
                    part = _listed_slice(text, listed.slice_name, cards.get(listed.uuid))
                except dialect.UnclearRecord as error:
                    named = {each.uuid for every in lists for each in every}
                    raise dialect.UnclearRecord(
                        error.field, error.value, error.problem, named
                    ) from None
                if part is None:
                    grants.append(listed_grant(_FIELD, listed, owner, node, config.unit))
                    continue
                alone = listed.compute == FULL
                container, phase = owner
                grants.append(
                    Grant(container, listed.uuid, part.memory, part.compute, alone, phase, part)
                )
        try:
            apart = group(pod)
        except dialect.DialectError:  # Volcano ignores a policy that it does not know
            apart = None
        return dialect.AdoptedAllocation(tuple(grants), self.pods.terms(pod, apart))

    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> dialect.Result:
        """Write the record of a placement.

        The device plugin takes the nth list of devices for the nth main container. Where that is
        wrong, the result has Dragoman's own record too.
        """
        unit = self.pods.config.unit
        cards = {card.uuid: card for card in node.cards}
        left = iter(placement.grants)
        lists: list[str] = []
        for wanted in request.containers:
            devices = ""
            for grant in islice(left, wanted.count):
                part, memory, compute = grant.slice, grant.memory, grant.compute
                identity = grant.card
                if part is not None:
                    identity += f"[{part.layout}-{part.position}]"
                    memory, compute = wanted.memory_on(cards[grant.card].memory), wanted.compute
                devices += _listed(identity, memory // unit, compute)
            lists.append(devices)
        assigned = ";".join(lists)
        seconds = str(now // SECOND)
        written = {
            keys.NODE: placement.node,
            keys.TIME: seconds,
            keys.ASSIGNED: assigned,
            keys.TO_ALLOCATE: assigned,
            keys.PHASE: keys.ALLOCATING,
            keys.BIND_TIME: seconds,
        }
        first = [(one.name, Phase.MAIN) for one in pod.spec.containers[: len(request.containers)]]
        if first != [(wanted.name, wanted.phase) for wanted in request.containers]:
            written[allocation_record.KEY] = allocation_record.encode(placement.grants)
        return dialect.Result(annotations=written, labels={})

    def write_mirror(self, pod: Pod, shares: Sequence[dialect.HeldShare]) -> Mapping[str, str]:
        """Write what a pod of another dialect has, for vc-scheduler's own plugin."""
        devices = ""
        for share in shares:
            uuid = share.card.uuid
            if keys.NAME not in share.card.dialects:
                continue
            if share.card.mode is Mode.MIG:
                devices += _listed(f"{uuid}[{_NO_GROUP}]", 0, FULL)
                continue
            devices += _listed(uuid, -(-share.memory // self.pods.config.unit), share.compute)
            if not share.whole:
                devices += _listed(uuid, 1, 0) * (share.slots - 1)
        return {keys.ASSIGNED: devices} if devices else {}


def _listed(identity: str, memory: int, compute: int) -> str:
    return f"{identity},{keys.VENDOR_TYPE},{memory},{compute}:"


def _grants(
    text: str, wanted: ContainerRequest, devices: str, cards: Mapping[str, Card], unit: int
) -> Iterator[Grant]:
    """Yield the grants of one container from its list of devices."""
    *entries, rest = devices.split(":")
    if rest:
        raise _invalid(text, "must end every device with a colon")
    if len(entries) != wanted.count:
        raise _invalid(text, f"must list {wanted.count} devices for container {wanted.name}")
    seen: set[str] = set()
    for entry in entries:
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
        part = _listed_slice(text, match["slice"], cards.get(uuid))
        if uuid in seen:
            raise _invalid(text, f"must not list {uuid} twice for {wanted.name}")
        seen.add(uuid)
        yield Grant(
            container=wanted.name,
            card=uuid,
            memory=int(memory) * unit if part is None else part.memory,
            compute=compute if part is None else part.compute,
            exclusive=compute == FULL,
            phase=wanted.phase,
            slice=part,
        )


def _listed_slice(text: str, name: str | None, card: Card | None) -> Slice | None:
    """Return the slice that a record names; None for a card that is not partitioned, or is unknown.

    Args:
        text: the record, for the error.
        name: ``group-position``; None where the record names no slice.
        card: as the node has it; None where the node does not have it.

    Raises:
        UnclearRecord: the record names a slice that the card does not have, or needs one.
    """
    if card is None or (card.mode is not Mode.MIG and name is None):
        return None
    if card.mode is not Mode.MIG:
        problem = f"must not name a slice of {card.uuid}, which is not partitioned"
        raise dialect.UnclearRecord(_FIELD, text, problem, (card.uuid,))
    for layout in card.geometry.layouts:
        for part in layout.slices:
            if name == f"{layout.name}-{part.position}":
                return part
    problem = f"must name a slice of {card.uuid} that its layouts have"
    raise dialect.UnclearRecord(_FIELD, text, problem, (card.uuid,))


def _invalid(text: str, problem: str) -> dialect.DialectError:
    return dialect.DialectError(_FIELD, text, problem)
