"""Reads the cards of a node.

A node lists them in an annotation (shares), or states only a number of whole cards. Where it does
both, they are the same cards, and the annotation counts, unless the node states 0 shares: a node
that was switched to whole cards keeps the annotation. Source: HAMi v2.10.0
pkg/device/metax/protocol.go:50-127 and device.go:67-89.
"""

from dataclasses import replace
from typing import Annotated

import msgspec

from adapters.dialects.containers import is_zero
from adapters.dialects.dialect import NodeDescription
from adapters.dialects.formats.hami_record import is_card_uuid
from adapters.dialects.metax import keys
from adapters.dialects.metax.keys import MetaxConfig
from adapters.dialects.metax.pod import MAX_AMOUNT
from adapters.wire.decode.decoder import Decoder, Int64, UnreadableError, convert
from adapters.wire.kube import Amount, KubeNode, annotations
from adapters.wire.quantity import QuantityError, parse_int
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.quantity import FULL, GIB, MIB

WHOLE_CARD = 64 * GIB
"""Memory of a card that the node only counts. HAMi v2.10.0 pkg/device/metax/device.go:80"""

MAX_CARDS = 1024
"""A larger number of whole cards of a node is invalid."""


_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_AMOUNT)]
_Score = Annotated[int, msgspec.Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT)]


class _MetaxDevice(msgspec.Struct, frozen=True, rename="camel"):
    uuid: str
    total_dev_count: _Count
    total_compute: _Count
    total_v_ram: _Count
    model: str = ""
    numa: Int64 = 0
    healthy: bool = False
    link_zone: Int64 = 0


_ENTRIES = Decoder(list[object])
_TABLE = Decoder(dict[Annotated[int, msgspec.Meta(ge=0, le=MAX_CARDS)], _Score])


def read_node(node: KubeNode, config: MetaxConfig) -> NodeDescription:
    """Read the cards of a node; an invalid entry becomes a problem."""
    texts = annotations(node)
    entries: list[object] = []
    problems: list[str] = []
    try:
        entries = _ENTRIES.decode(texts.get(keys.NODE_DEVICES, "[]"))
    except UnreadableError as error:
        problems.append(f"{keys.NODE_DEVICES} is not a list of cards: {error}")
    cards: dict[str, Card] = {}
    for index, entry in enumerate(entries):
        card = _card(node.metadata.name, index, entry)
        if isinstance(card, Card) and card.uuid not in cards:
            cards[card.uuid] = card
        else:
            problem = f"card {card.uuid} is listed twice" if isinstance(card, Card) else card
            problems.append(f"{keys.NODE_DEVICES}, entry {index}: {problem}; ignored")
    switched = is_zero((node.status.allocatable or {}).get(config.sgpu, ""))
    whole, ignored = _whole_cards(node, config, shared=bool(entries or problems) and not switched)
    if cards and switched:
        zero = f"allocatable {config.sgpu} is 0: MetaX's device plugin serves no shares"
        problems.append(zero)
        left = () if whole else cards.values()
        cards = {card.uuid: replace(card, dialects=frozenset(), problem=zero) for card in left}
        whole = [replace(card, problem=zero) for card in whole]
    losses, unread_losses = _table(texts.get(keys.LOSSES), keys.LOSSES)
    gains, unread_gains = _table(texts.get(keys.GAINS), keys.GAINS)
    return NodeDescription(
        cards=(*cards.values(), *whole),
        precision=MIB,
        losses=losses,
        gains=gains,
        problems=(*problems, *ignored, *unread_losses, *unread_gains),
    )


def _card(node: str, index: int, entry: object) -> Card | str:
    try:
        device = convert(entry, _MetaxDevice)
    except UnreadableError as error:
        return str(error)
    if not is_card_uuid(device.uuid):
        return f"{device.uuid!r} is not a valid card uuid"
    if device.total_compute != FULL:
        return f"totalCompute of card {device.uuid} is {device.total_compute}, must be {FULL}"
    zone = device.link_zone
    return Card(
        uuid=device.uuid,
        node=node,
        index=index,
        vendor=keys.NAME,
        model=device.model,
        memory=device.total_v_ram * MIB,
        slots=device.total_dev_count,
        healthy=device.healthy,
        numa=device.numa if device.numa >= 0 else None,
        links=(Scope(Level.LINK, str(zone)),) if zone > 0 else (),
        dialects=frozenset({keys.NAME}),
        names=(device.model,),
    )


def _whole_cards(
    node: KubeNode, config: MetaxConfig, *, shared: bool
) -> tuple[list[Card], list[str]]:
    capacity = (node.status.capacity or {}).get(config.gpu, 0)
    allocatable = (node.status.allocatable or {}).get(config.gpu, capacity)
    total, usable = _number(capacity), _number(allocatable)
    if total is None or usable is None:
        return [], [f"{config.gpu}: {capacity!r}, {allocatable!r} are not numbers of cards"]
    if total and shared:
        return [], [f"{config.gpu}: ignored, {keys.NODE_DEVICES} lists the same cards"]
    return [
        Card(
            uuid=f"{node.metadata.name}-metax-{index}",
            node=node.metadata.name,
            index=index,
            vendor=keys.NAME,
            model=keys.GPU_KIND,
            memory=WHOLE_CARD,
            slots=1,
            healthy=index >= total - usable,
            mode=Mode.WHOLE,
            dialects=frozenset({keys.NAME}),
            names=(keys.GPU_KIND,),
        )
        for index in range(total)
    ], []


def _number(amount: Amount) -> int | None:
    try:
        number = parse_int(str(amount))
    except QuantityError:
        return None
    return number if 0 <= number <= MAX_CARDS else None


def _table(text: str | None, key: str) -> tuple[tuple[tuple[int, int], ...], list[str]]:
    if text is None:
        return (), []
    try:
        return tuple(sorted(_TABLE.decode(text).items())), []
    except UnreadableError as error:
        return (), [f"{key} is not a table of numbers: {error}"]
