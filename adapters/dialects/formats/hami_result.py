"""Writes the record by which HAMi's device plugin knows the NVIDIA cards and MIG slices of a pod.

Source: HAMi v2.10 pkg/device/nvidia/device.go, PatchAnnotations; the plugin takes the lists by
position, init containers first (pkg/device-plugin/nvidiadevice/nvinternal/plugin/util.go,
popNextContainerDevices). HAMi's own scheduler omits the empty lists of containers without a card
(pkg/scheduler/score.go compares types with vendors), so its plugin then finds the wrong container.

The record of slices stands beside that of the cards: ``[{"containerIndex":0,"deviceIndex":0,
"gpuUUID":"...","profile":"2g.10gb","placement":{"start":0,"size":2}},...]``; the device plugin adds
the instances that it made. Source: HAMi v2.10 pkg/device/nvidia/mig_allocations.go.

Before v2.10 the record of the cards named the slice in brackets after the card's uuid, by numbers
in the tables of HAMi's configuration: ``GPU-...[1-0]``. Source: HAMi v2.9.0
pkg/device/devices.go, ExtractMigTemplatesFromUUID.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from adapters.dialects.containers import PodContainer, pod_containers
from adapters.dialects.dialect import DialectError, Result, UnclearRecord
from adapters.dialects.formats import hami_record
from adapters.dialects.formats.annotation_values import annotation_path
from adapters.dialects.formats.device_list import list_owners, listed_grant, read_device_lists
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Pod, Text, annotations
from core.hardware.card import Card, Mode
from core.hardware.mig import Slice
from core.hardware.node import Node
from core.hardware.quantity import MIB
from core.requests.grant import Grant, Placement
from core.requests.request import Phase


def write_nvidia(pod: Pod, placement: Placement, now: int) -> Result:
    """Write the record of a placement.

    Args:
        pod: the pod.
        placement: the cards that it gets.
        now: nanoseconds since 1970.
    """
    containers = [
        [grant for grant in placement.grants if grant.container == member.container.name]
        for member in pod_containers(pod)
    ]
    devices = hami_record.encode_devices(hami_record.NVIDIA_KIND, containers)
    slices = encode_mig_allocations(containers)
    written = {hami_record.NVIDIA_TO_ALLOCATE: devices, hami_record.NVIDIA_ALLOCATED: devices}
    if slices is not None:
        written[hami_record.MIG_ALLOCATIONS] = slices
    return Result(
        hami_record.bind_annotations(placement.node, written, now),
        hami_record.bind_labels(placement.node),
    )


_Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class _Place(msgspec.Struct, frozen=True):
    start: _Number
    size: _Number


class _Allocation(msgspec.Struct, frozen=True, rename="camel"):
    container_index: _Number
    device_index: _Number
    gpu_uuid: str = msgspec.field(name="gpuUUID")
    profile: str
    placement: _Place


_decoder = Decoder(list[_Allocation])

_BRACKET = re.compile(r"[\[\]]")


@dataclass(frozen=True, slots=True)
class MigPlaces:
    """The slices of a pod's devices.

    Attributes:
        text: the record, for errors; None where the pod has none.
        places: by index of the container, and of the device in its list.
    """

    text: str | None
    places: Mapping[tuple[int, int], _Allocation]

    def slice(self, container: int, device: int, card: Card) -> Slice:
        """Return the slice of a device.

        Raises:
            DialectError: the record has none, one of another card, or one that the card's layouts
                do not have.
        """
        place = self.places.get((container, device))
        if place is None or place.gpu_uuid != card.uuid:
            raise self._invalid(f"must name a slice of {card.uuid} for device {device}")
        for layout in card.geometry.layouts:
            for part in layout.slices:
                if (part.profile, part.start) == (place.profile, place.placement.start):
                    return part
        raise self._invalid(f"must name a slice of {card.uuid} that its layouts have")

    def _invalid(self, problem: str) -> DialectError:
        return DialectError(annotation_path(hami_record.MIG_ALLOCATIONS), self.text, problem)


def read_mig_allocations(texts: Text) -> MigPlaces:
    """Read the record of a pod's slices.

    Raises:
        DialectError: it cannot be parsed, or has two slices for one device.
    """
    text = texts.get(hami_record.MIG_ALLOCATIONS)
    if text is None:
        return MigPlaces(None, {})
    field = annotation_path(hami_record.MIG_ALLOCATIONS)
    try:
        found = _decoder.decode(text)
    except UnreadableError as error:
        raise DialectError(field, text, f"cannot be parsed: {error}") from None
    places = {(each.container_index, each.device_index): each for each in found}
    if len(places) < len(found):
        raise DialectError(field, text, "must have one slice for each device")
    return MigPlaces(text, places)


def check_slices(texts: Text, listed: Iterable[str], node: Node) -> None:
    """Verify that the cards of a record can have the slices that it names.

    Where they cannot, HAMi gives no part of these cards to other pods: a shared card has a slice,
    or one is of a card that is not in the list. If the node does not have that card either, HAMi
    closes all partitioned ones. The same holds here for a card with more slices than the list has
    devices of it, and for one that any device names with brackets. Source: HAMi v2.10.0
    pkg/scheduler/scheduler.go, getNodesUsage; the numbers of records before v2.10 are not resolved
    here.

    Args:
        texts: annotations of the pod.
        listed: the uuids of its record of cards, with brackets where they have them.
        node: where it runs.

    Raises:
        DialectError: the record of slices cannot be parsed.
        UnclearRecord: nothing says what the pod has of its cards.
    """
    bare = [(_BRACKET.split(uuid, maxsplit=1)[0], uuid) for uuid in listed]
    named = Counter(uuid for uuid, _ in bare)
    numbered = {uuid for uuid, written in bare if uuid != written}
    sliced = Counter(each.gpu_uuid for each in read_mig_allocations(texts).places.values())
    modes = {card.uuid: card.mode for card in node.cards}
    unclear = {
        uuid
        for uuid, slices in sliced.items()
        if slices > named[uuid] or modes.get(uuid) in (Mode.SHARED, Mode.MPS)
    }
    if not numbered and not unclear:
        return
    cards = {*named, *sliced}
    if any(uuid not in named and uuid not in modes for uuid in sliced):
        cards |= {uuid for uuid, mode in modes.items() if mode is Mode.MIG}
    key = hami_record.NVIDIA_ALLOCATED if numbered else hami_record.MIG_ALLOCATIONS
    problem = f"does not say which slices the pod has of {', '.join(sorted(numbered or unclear))}"
    raise UnclearRecord(annotation_path(key), texts.get(key), problem, cards)


def read_hami(pod: Pod, node: Node, requesting: Sequence[PodContainer] = ()) -> tuple[Grant, ...]:
    """Return grants by HAMi's record, as its own scheduler means it.

    The record of slices is not resolved here: the grant of a partitioned card has no slice.

    Args:
        pod: the pod.
        node: where it runs.
        requesting: its containers that request cards, where that is known: HAMi v2.10 omits the
            lists of the others.

    Raises:
        DialectError: the record cannot be parsed, or is for another node.
        UnclearRecord: it names slices that are not known.
    """
    hami_record.check_node(annotations(pod), node)
    field = annotation_path(hami_record.NVIDIA_ALLOCATED)
    lists = read_device_lists(field, annotations(pod).get(hami_record.NVIDIA_ALLOCATED, ""))
    check_slices(annotations(pod), (each.name for devices in lists for each in devices), node)
    containers = tuple(pod_containers(pod))
    main = [one for one in containers if one.phase is Phase.MAIN]
    owners = list_owners(lists, containers, requesting, main)
    return tuple(
        listed_grant(field, listed, owner, node, MIB)
        for owner, devices in zip(owners, lists, strict=True)
        for listed in devices
    )


def encode_mig_allocations(containers: Sequence[Sequence[Grant]]) -> str | None:
    """Write the record of a pod's slices; None where it has none.

    Args:
        containers: the grants of every container of the pod, in start order.
    """
    found = [
        _Allocation(index, position, grant.card, part.profile, _Place(part.start, part.size))
        for index, grants in enumerate(containers)
        for position, grant in enumerate(grants)
        if (part := grant.slice) is not None
    ]
    return msgspec.json.encode(found).decode() if found else None
