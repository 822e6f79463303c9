"""The record of one node, as every store keeps it: its cards and their allocations.

It is JSON that a person can read: bytes and percent as whole numbers, ordered lists. The encoder
leaves out fields that have their default, and the decoder ignores unknown ones, so that an older
or a newer program reads the same record.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated

import msgspec

from adapters.wire.decode.decoder import Decoder, Int64, UnreadableError
from adapters.wire.kube import Metadata, Wire
from adapters.wire.records.allocation import (
    AllocationRecord,
    Compute,
    Count,
    Memory,
    Number,
    SliceRecord,
    allocation_record,
    read_allocation,
)
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig import NO_GEOMETRY, Geometry
from core.hardware.node import Node, Partition
from core.hardware.quantity import FULL, GIB, MAX_NUMBER
from core.ledger.hold import Hold
from core.ledger.meter import UNMETERED, Amounts, Consumer, Meter
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, AllocationState


class ScopeRecord(Wire, frozen=True, gc=False):
    """A ``core.hardware.card.Scope``; ``level`` is in lower case."""

    level: str
    name: str


class LayoutRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A ``core.hardware.mig.MigLayout``."""

    name: str
    slices: tuple[SliceRecord, ...]
    configured: tuple[Memory, ...] = ()


class GeometryRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A ``core.hardware.mig.Geometry``."""

    layouts: tuple[LayoutRecord, ...]
    mixed: bool = False


class CardRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A ``core.hardware.card.Card``; ``geometry`` is a position in the record's ``geometries``.

    A card in mode ``mps`` has the mode ``shared`` and ``mps``: an earlier program, which knows no
    such mode, then reads it as a shared card.
    """

    uuid: str
    index: Number
    vendor: str
    model: str
    memory: Memory
    slots: Number
    healthy: bool = True
    mode: Mode = Mode.SHARED
    numa: Annotated[int, msgspec.Meta(ge=-1, le=MAX_NUMBER)] | None = None
    links: tuple[ScopeRecord, ...] = ()
    dialects: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    geometry: Number | None = None
    compute: Compute = FULL
    mps: bool = False
    problem: str = ""


class PartitionRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A ``core.hardware.node.Partition``."""

    indexes: tuple[Int64, ...]
    bandwidth: Int64 = 0
    score: Int64 = 1


class CardCountRecord(Wire, frozen=True, gc=False):
    """A loss or gain of ``core.hardware.node.Node``, for a number of whole cards."""

    cards: Int64
    value: Int64


class KeptPlaceRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A ``core.ledger.hold.Hold``; its uid is that of the allocation."""

    plan: str
    allocation: AllocationRecord
    recipient: str = ""
    by_name: bool = False
    taken_by: str = ""


class TotalRecord(Wire, frozen=True, gc=False):
    """A total of ``core.ledger.meter.Meter``, in decimal digits.

    Milliseconds multiplied by the bytes of a card pass 64 bits within years.
    """

    namespace: str
    dialect: str
    model: str
    shares: str
    memory: str
    compute: str


class MeterRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A ``core.ledger.meter.Meter``."""

    until: Count = 0
    totals: tuple[TotalRecord, ...] = ()


class SummaryRecord(Wire, frozen=True, gc=False):
    """A node in words for people; ``memory`` is what is allocated, such as ``40 of 320 GiB``."""

    cards: Int64 = 0
    healthy: Int64 = 0
    pods: Int64 = 0
    memory: str = ""


class LedgerRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A ``core.ledger.node_ledger.NodeLedger``; ``changes`` is its version."""

    node: str
    changes: Count = 0
    summary: SummaryRecord = SummaryRecord()
    isolation: str | None = None
    cards: tuple[CardRecord, ...] = ()
    geometries: tuple[GeometryRecord, ...] = ()
    partitions: tuple[PartitionRecord, ...] = ()
    partitions_bind: bool = False
    losses: tuple[CardCountRecord, ...] = ()
    gains: tuple[CardCountRecord, ...] = ()
    scores: tuple[tuple[Int64, ...], ...] = ()
    allocations: tuple[AllocationRecord, ...] = ()
    fences: dict[str, Count] = msgspec.field(default_factory=dict)
    meter: MeterRecord | None = None
    holds: tuple[KeptPlaceRecord, ...] = ()


class LedgerObject(Wire, frozen=True, gc=False):
    """A NodeLedger with record and status still encoded."""

    metadata: Metadata
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw()


class LedgerRecordError(ValueError):
    """A record that cannot be read, or contradicts itself."""


_GEOMETRIES = 64
"""Geometries of which all cards have the same object: a cluster has as many as models of cards."""

_DIALECTS = 256
"""Sets of dialects of which all cards have the same object."""

_dialects = lru_cache(_DIALECTS)(frozenset[str])

_encoder = msgspec.json.Encoder()
_decoder = Decoder(LedgerRecord)


def encode(ledger: NodeLedger) -> bytes:
    """Return the record of a ledger, without reservations, which only one service process knows."""
    return _encoder.encode(_record(ledger))


def decode(record: bytes | msgspec.Raw) -> NodeLedger:
    """Return the ledger of a record.

    Raises:
        LedgerRecordError: it cannot be read, or contradicts itself.
    """
    try:
        return _ledger(_decoder.decode(record))
    except (UnreadableError, KeyError, IndexError) as error:
        raise LedgerRecordError(f"the ledger's record cannot be read: {error}") from error


def _record(ledger: NodeLedger) -> LedgerRecord:
    node = ledger.node
    geometries = list(dict.fromkeys(card.geometry for card in node.cards if card.geometry.layouts))
    committed = [a for a in ledger.allocations.values() if a.state is AllocationState.COMMITTED]
    return LedgerRecord(
        node=node.name,
        changes=ledger.version,
        summary=_summary(ledger, len(committed)),
        isolation=node.isolation,
        cards=tuple(card_record(card, geometries) for card in node.cards),
        geometries=tuple(
            msgspec.convert(g, GeometryRecord, from_attributes=True) for g in geometries
        ),
        partitions=tuple(PartitionRecord(p.indexes, p.bandwidth, p.score) for p in node.partitions),
        partitions_bind=node.partitions_bind,
        losses=tuple(CardCountRecord(cards, value) for cards, value in node.losses),
        gains=tuple(CardCountRecord(cards, value) for cards, value in node.gains),
        scores=node.scores,
        allocations=tuple(allocation_record(allocation) for allocation in committed),
        fences=dict(sorted(ledger.fences.items())),
        meter=_meter_record(ledger.meter) if ledger.meter.until else None,
        holds=tuple(
            KeptPlaceRecord(
                hold.plan,
                allocation_record(hold.allocation),
                hold.recipient,
                hold.by_name,
                hold.taken_by,
            )
            for hold in ledger.holds
        ),
    )


def _meter_record(meter: Meter) -> MeterRecord:
    totals = (
        TotalRecord(*consumer, str(sums.shares), str(sums.memory), str(sums.compute))
        for consumer, sums in meter.totals.items()
    )
    return MeterRecord(meter.until, tuple(totals))


def _summary(ledger: NodeLedger, pods: int) -> SummaryRecord:
    cards = ledger.node.cards
    used = sum(use.memory for use in ledger.usages) // GIB
    total = sum(card.memory for card in cards) // GIB
    healthy = sum(card.healthy for card in cards)
    return SummaryRecord(len(cards), healthy, pods, f"{used} of {total} GiB")


def card_record(card: Card, geometries: list[Geometry]) -> CardRecord:
    """Return the record of a card whose geometry is one of these, or ``NO_GEOMETRY``."""
    return CardRecord(
        card.uuid,
        card.index,
        card.vendor,
        card.model,
        card.memory,
        card.slots,
        card.healthy,
        Mode.SHARED if card.mode is Mode.MPS else card.mode,
        card.numa,
        tuple(ScopeRecord(scope.level.name.lower(), scope.name) for scope in card.links),
        tuple(sorted(card.dialects)),
        card.names,
        geometries.index(card.geometry) if card.geometry.layouts else None,
        card.compute,
        card.mode is Mode.MPS,
        card.problem,
    )


def _ledger(record: LedgerRecord) -> NodeLedger:
    geometries = [*map(_geometry, record.geometries)]
    node = Node(
        name=record.node,
        cards=tuple([card_of(card, record.node, geometries) for card in record.cards]),
        isolation=record.isolation,
        partitions=tuple(Partition(p.indexes, p.bandwidth, p.score) for p in record.partitions),
        partitions_bind=record.partitions_bind,
        losses=tuple((entry.cards, entry.value) for entry in record.losses),
        gains=tuple((entry.cards, entry.value) for entry in record.gains),
        scores=_scores(record),
    )
    allocations = [read_allocation(allocation, node.name) for allocation in record.allocations]
    check_unique("card", [card.uuid for card in node.cards])
    check_unique("pod", [allocation.uid for allocation in allocations])
    holds = read_holds(record.holds, node.name, allocations)
    ledger = NodeLedger.restored(node, allocations, record.changes, record.fences, holds)
    return ledger if record.meter is None else replace(ledger, meter=read_meter(record.meter))


def _scores(record: LedgerRecord) -> tuple[tuple[int, ...], ...]:
    """Return the scores of pairs; none where they are not those of the record's cards."""
    cards = len(record.cards)
    is_square = len(record.scores) == cards and all(len(row) == cards for row in record.scores)
    return record.scores if is_square else ()


@lru_cache(_GEOMETRIES)
def _geometry(record: GeometryRecord) -> Geometry:
    return msgspec.convert(record, Geometry, from_attributes=True)


def read_meter(record: MeterRecord) -> Meter:
    """Return the meter of a record.

    One that cannot be read begins again, as no decision depends on it.
    """
    try:
        totals = {
            Consumer(each.namespace, each.dialect, each.model): Amounts(
                int(each.shares), int(each.memory), int(each.compute)
            )
            for each in record.totals
        }
    except ValueError:
        return UNMETERED
    return Meter(record.until, MappingProxyType(totals))


def check_unique(what: str, keys: list[str]) -> None:
    """Check that each card and each pod is named once.

    Raises:
        LedgerRecordError: one of the keys comes twice.
    """
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise LedgerRecordError(f"the ledger's record names {what} {twice} twice")


def card_of(card: CardRecord, node: str, geometries: list[Geometry]) -> Card:
    """Return the card of a record.

    Raises:
        KeyError: it names an unknown level.
        IndexError: it names a geometry that the record does not have.
    """
    return Card(
        card.uuid,
        node,
        card.index,
        card.vendor,
        card.model,
        card.memory,
        card.slots,
        card.healthy,
        Mode.MPS if card.mps and card.mode is Mode.SHARED else card.mode,
        card.numa if card.numa is not None and card.numa >= 0 else None,
        tuple(Scope(Level[scope.level.upper()], scope.name) for scope in card.links),
        _dialects(card.dialects),
        card.names,
        NO_GEOMETRY if card.geometry is None else geometries[card.geometry],
        card.compute,
        card.problem,
    )


def read_holds(
    records: tuple[KeptPlaceRecord, ...], node: str, allocations: Sequence[Allocation]
) -> tuple[Hold, ...]:
    """Return the holds of a record, on a node.

    Raises:
        LedgerRecordError: two have the same uid, or one has that of an allocation.
    """
    if not records:
        return ()
    uids = [record.allocation.uid for record in records]
    check_unique("uid", [*uids, *(allocation.uid for allocation in allocations)])
    return tuple(
        Hold(
            each.plan,
            each.recipient,
            each.by_name,
            read_allocation(each.allocation, node),
            each.taken_by,
        )
        for each in records
    )
