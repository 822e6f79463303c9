"""Writes and reads ``device-allocated``: which cards a pod has, and how much of each.

It does not distinguish the containers of the pod; Dragoman's own record beside it does.
Source: koordinator-sh/koordinator apis/extension/device_share.go:119-137,265-279.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NoReturn

import msgspec

from adapters.dialects import allocation_record
from adapters.dialects.containers import PodContainer
from adapters.dialects.dialect import DialectError, Result, UnclearRecord
from adapters.dialects.formats import koordinator_settings as words
from adapters.dialects.formats.annotation_values import annotation_path, decode
from adapters.dialects.formats.hami_record import HAMI
from adapters.dialects.formats.hami_result import write_nvidia
from adapters.wire.kube import Amount, Pod, Text, annotations
from adapters.wire.quantity import QuantityError, format_binary, format_decimal, parse_int
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL, bytes_of_percent, percent
from core.ledger.usage import shares_by_card
from core.requests.grant import Grant, Placement
from core.requests.request import Phase, Request


@dataclass(frozen=True, slots=True)
class AllocatedCard:
    """A pod's share of one card.

    Attributes:
        minor: the card's number on its node.
        memory: bytes.
        ratio: percent of the card's memory.
        compute: percent; 0 where the pod requests none.
    """

    minor: int
    uuid: str
    memory: int
    ratio: int
    compute: int = 0


class _AllocatedDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    minor: Annotated[int, msgspec.Meta(ge=0)]
    resources: dict[str, Amount] | None
    id: str = ""


_GPU = "gpu"


class _AllocatedDevices(msgspec.Struct, frozen=True):
    gpu: tuple[_AllocatedDevice, ...] | None = None


def encode_allocated(
    entries: Sequence[AllocatedCard], beside: Mapping[str, msgspec.Raw] | None = None
) -> str:
    """Write the annotation, byte for byte as koord-scheduler writes it.

    Args:
        entries: in the order in which the containers see the cards.
        beside: as ``read_beside`` returns it.
    """
    devices: list[_AllocatedDevice] = []
    for entry in entries:
        resources: dict[str, Amount] = {}
        if entry.compute:
            resources[words.CORE] = format_decimal(entry.compute)
        resources[words.MEMORY] = format_binary(entry.memory)
        resources[words.RATIO] = format_decimal(entry.ratio)
        devices.append(_AllocatedDevice(entry.minor, resources, entry.uuid))
    return msgspec.json.encode(dict(sorted({_GPU: devices, **(beside or {})}.items()))).decode()


def read_beside(annotations: Text) -> dict[str, msgspec.Raw]:
    """Return what the annotation states of devices that are no GPUs, still encoded, by their kind.

    koord-scheduler writes it before the pod is bound; a text that cannot be parsed states none.
    """
    try:
        found = decode(annotations, words.ALLOCATED, dict[str, msgspec.Raw])
    except DialectError:
        return {}
    return {kind: devices for kind, devices in (found or {}).items() if kind != _GPU}


def read_allocated(annotations: Text, node: Node) -> tuple[AllocatedCard, ...]:
    """Read the annotation, in its order; the function ignores devices other than GPUs.

    Args:
        annotations: of the pod.
        node: where the pod runs. It resolves cards that the text names by minor only, and amounts
            that the text states in percent only.

    Raises:
        DialectError: the text is invalid.
    """
    found = decode(annotations, words.ALLOCATED, _AllocatedDevices)
    cards = [card for card in node.cards if words.NAME in card.dialects]
    devices = (found.gpu if found else None) or ()
    _check_minors(annotations.get(words.ALLOCATED, ""), devices, cards)
    entries = tuple(_entry(device, cards) for device in devices)
    if not entries:
        raise DialectError(
            annotation_path(words.ALLOCATED), annotations.get(words.ALLOCATED), "names no GPU"
        )
    if len({entry.uuid for entry in entries}) < len(entries):
        _reject("gpu", annotations[words.ALLOCATED], "names a card twice")
    return entries


def _entry(device: _AllocatedDevice, cards: Sequence[Card]) -> AllocatedCard:
    """Return the share of a device; a device without an id is the card with its number."""
    identity, minor = device.id, device.minor
    named = (c for c in cards if (c.uuid == identity if identity else c.index == minor))
    card = next(named, None)
    if card is None and not identity:
        _reject("gpu[].minor", device.minor, "is not a card of this node")
    compute = _amount(device, words.CORE, FULL)
    memory = _amount(device, words.MEMORY, None)
    ratio = _amount(device, words.RATIO, FULL)
    if memory is None and ratio and card is not None:
        memory = bytes_of_percent(card.memory, ratio)
    if not memory:
        _reject(f"gpu[minor {device.minor}].resources", device.resources, "states no memory")
    if ratio is None:
        ratio = FULL if card is None else min(percent(memory, card.memory), FULL)
    uuid = device.id if card is None else card.uuid
    return AllocatedCard(device.minor, uuid, memory, ratio, compute or 0)


def _check_minors(text: str, devices: Sequence[_AllocatedDevice], cards: Sequence[Card]) -> None:
    """Check that minor and id of each device are of the same card.

    koord-scheduler books by minor and koordlet injects by minor, our ledger names the id: where a
    card was replaced, or the numbers have changed, the pod may use either.
    Source: koordinator-sh/koordinator pkg/scheduler/plugins/deviceshare/device_cache.go and
    pkg/koordlet/runtimehooks/hooks/gpu/gpu.go.

    Raises:
        UnclearRecord: they are of two cards.
    """
    named = [
        card for card in cards if any(card.uuid == d.id or card.index == d.minor for d in devices)
    ]
    for device in devices:
        found = {card.uuid for card in named if card.uuid == device.id}
        numbered = {card.uuid for card in named if card.index == device.minor}
        if device.id and (found or numbered) and found != numbered:
            problem = f"minor {device.minor} is not the number of card {device.id!r} on this node"
            raise UnclearRecord(
                annotation_path(words.ALLOCATED), text, problem, {card.uuid for card in named}
            )


def _amount(device: _AllocatedDevice, name: str, high: int | None) -> int | None:
    resources = device.resources or {}
    stated = resources.get(name, resources.get(words.DEPRECATED[name]))
    if stated is None:
        return None
    place = f"gpu[minor {device.minor}].resources[{name}]"
    try:
        amount = parse_int(str(stated))
    except QuantityError:
        _reject(place, stated, "must be a whole number")
    if amount < 0 or (high is not None and amount > high):
        _reject(place, stated, "must be 0 or more" if high is None else f"must be 0 to {high}")
    return amount


def _reject(place: str, value: object, problem: str) -> NoReturn:
    raise DialectError(f"{annotation_path(words.ALLOCATED)}.{place}", value, problem)


def write_record(pod: Pod, request: Request, placement: Placement, node: Node) -> dict[str, str]:
    """Return the annotations of a placement.

    If several containers request cards, Dragoman's own record distinguishes them, and
    ``device-allocated`` states the pod's peak use of each card. A share requested in percent keeps
    its percentage. What koord-scheduler stated there of other devices stays.
    """
    cards = {card.uuid: card for card in node.cards}
    percents = {wanted.name: wanted.memory_percent for wanted in request.containers}
    entries: list[AllocatedCard] = []
    for uuid, here in _by_card(placement.grants).items():
        card, share = cards[uuid], shares_by_card(request, here)
        ratio = percent(share.memory, card.memory)
        stated = [(g, percents.get(g.container)) for g in here]
        in_percent = [replace(g, memory=part) for g, part in stated if part is not None]
        if len(in_percent) == len(here):
            ratio = shares_by_card(request, in_percent).memory
        entries.append(
            AllocatedCard(card.index, uuid, share.memory, min(ratio, FULL), share.compute)
        )
    written = {words.ALLOCATED: encode_allocated(entries, read_beside(annotations(pod)))}
    if len(request.containers) > 1:
        written[allocation_record.KEY] = allocation_record.encode(placement.grants)
    return written


def write_whole_nvidia(
    pod: Pod, request: Request, placement: Placement, node: Node, now: int
) -> Result:
    """Write the record of whole NVIDIA cards, for the components that describe them.

    Cards that HAMi describes get HAMi's record, for its device plugin; Koordinator's too where it
    describes all of them as well. Other cards get only Koordinator's.

    Args:
        pod: the pod.
        request: what it requests.
        placement: the cards that it gets.
        node: the node of the placement.
        now: nanoseconds since 1970.
    """
    chosen = {grant.card for grant in placement.grants}
    cards = [card for card in node.cards if card.uuid in chosen]
    if not any(HAMI in card.dialects for card in cards):
        return Result(write_record(pod, request, placement, node), {})
    of_hami = write_nvidia(pod, placement, now)
    if not all(words.NAME in card.dialects for card in cards):
        return of_hami
    own = write_record(pod, request, placement, node)
    return Result({**own, **of_hami.annotations}, of_hami.labels)


def read_record(pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
    """Read the record of an allocation.

    Without Dragoman's own record, and if several containers request cards, the grants are the
    pod's and name no container.

    Raises:
        DialectError: the record cannot be parsed, or differs from Dragoman's own record.
    """
    entries = read_allocated(annotations(pod), node)
    own = annotations(pod).get(allocation_record.KEY)
    if own is not None:
        grants = allocation_record.read(own, request, node)
        shares = {uuid: shares_by_card(request, here) for uuid, here in _by_card(grants).items()}
        peaks = {uuid: (share.memory, share.compute) for uuid, share in shares.items()}
        if peaks != {e.uuid: (e.memory, e.compute) for e in entries}:
            raise DialectError(
                annotation_path(allocation_record.KEY), own, f"must agree with {words.ALLOCATED}"
            )
        return grants
    wanted, *others = request.containers
    if others:
        return tuple(
            Grant("", e.uuid, e.memory, e.compute, exclusive=FULL in (e.ratio, e.compute))
            for e in entries
        )
    return tuple(
        Grant(wanted.name, e.uuid, e.memory, e.compute, wanted.exclusive, wanted.phase)
        for e in entries
    )


def read_koordinator(pod: Pod, node: Node, requesting: Sequence[PodContainer]) -> tuple[Grant, ...]:
    """Return grants by Koordinator's record, as its own scheduler means it.

    They name no container, unless only one requests cards: then they are this one's.

    Args:
        pod: the pod; it has the record.
        node: where it runs.
        requesting: its containers that request cards.

    Raises:
        DialectError: the record cannot be parsed.
    """
    name, phase = ("", Phase.MAIN)
    if len(requesting) == 1:
        name, phase = requesting[0].container.name, requesting[0].phase
    return tuple(
        Grant(name, e.uuid, e.memory, e.compute, FULL in (e.ratio, e.compute), phase)
        for e in read_allocated(annotations(pod), node)
    )


def _by_card(grants: Sequence[Grant]) -> dict[str, list[Grant]]:
    cards: dict[str, list[Grant]] = {}
    for grant in grants:
        cards.setdefault(grant.card, []).append(grant)
    return cards
