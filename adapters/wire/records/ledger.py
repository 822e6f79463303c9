"""The record of one node, as every store keeps it: its cards and their allocations.

It is JSON that a person can read: bytes and percent as whole numbers, ordered lists. The encoder
leaves out fields that have their default, and the decoder ignores unknown ones, so that an older
or a newer program reads the same record.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import blake2b
from types import MappingProxyType
from typing import Annotated, Any

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
from core.ledger.node_ledger import UNMETERED, Amounts, Consumer, Hold, Meter, NodeLedger
from core.requests.grant import Allocation, AllocationState


class ScopeRecord(Wire, frozen=True, gc=False):
    """A ``core.hardware.card.Scope``."""

    level: Annotated[str, msgspec.Meta(pattern="^(node|numa|pcie|link)$")]
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
    """A ``core.ledger.node_ledger.Hold``; its uid is that of the allocation."""

    plan: str
    allocation: AllocationRecord
    recipient: str = ""
    by_name: bool = False
    taken_by: str = ""


class TotalRecord(Wire, frozen=True, gc=False):
    """A total of ``core.ledger.node_ledger.Meter``, in decimal digits.

    Milliseconds multiplied by the bytes of a card pass 64 bits within years.
    """

    namespace: str
    dialect: str
    model: str
    shares: str
    memory: str
    compute: str


class MeterRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A ``core.ledger.node_ledger.Meter``."""

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


_geometry = lru_cache(64)(partial(msgspec.convert, type=Geometry, from_attributes=True))
"""Geometries of which all cards have the same object: a cluster has as many as models of cards."""

_dialects = lru_cache(256)(frozenset[str])
"""Sets of dialects of which all cards have the same object."""


_encoder = msgspec.json.Encoder()
_decoder = Decoder(LedgerRecord)
_anything: Decoder[Any] = Decoder(Any)

_PATH, _STEP = re.compile(r"`\$[^`]*`$"), re.compile(r"\.(\w+)|\[(\d+)\]")
"""The path by which an error names a value, and one step of it."""

_SHOWN = 100
"""Bytes of a value that an error shows."""


def encode(ledger: NodeLedger) -> bytes:
    """Return the record of a ledger, without reservations, which only one service process knows."""
    node, meter, cards = ledger.node, ledger.meter, ledger.node.cards
    geometries = list(dict.fromkeys(card.geometry for card in cards if card.geometry.layouts))
    committed = [a for a in ledger.allocations.values() if a.state is AllocationState.COMMITTED]
    used = sum(use.memory for use in ledger.usages) // GIB
    total = sum(card.memory for card in cards) // GIB
    healthy = sum(card.healthy for card in cards)
    totals = tuple(
        TotalRecord(*consumer, str(sums.shares), str(sums.memory), str(sums.compute))
        for consumer, sums in meter.totals.items()
    )
    record = LedgerRecord(
        node=node.name,
        changes=ledger.version,
        summary=SummaryRecord(len(cards), healthy, len(committed), f"{used} of {total} GiB"),
        isolation=node.isolation,
        cards=tuple(card_record(card, geometries) for card in cards),
        geometries=tuple(
            msgspec.convert(g, GeometryRecord, from_attributes=True) for g in geometries
        ),
        partitions=tuple(PartitionRecord(p.indexes, p.bandwidth, p.score) for p in node.partitions),
        partitions_bind=node.partitions_bind,
        losses=tuple(CardCountRecord(*loss) for loss in node.losses),
        gains=tuple(CardCountRecord(*gain) for gain in node.gains),
        scores=node.scores,
        allocations=tuple(allocation_record(allocation) for allocation in committed),
        fences=dict(sorted(ledger.fences.items())),
        meter=MeterRecord(meter.until, totals) if meter.until else None,
        holds=tuple(
            KeptPlaceRecord(
                h.plan, allocation_record(h.allocation), h.recipient, h.by_name, h.taken_by
            )
            for h in ledger.holds
        ),
    )
    return _encoder.encode(record)


def decode(record: bytes | msgspec.Raw) -> NodeLedger:
    """Return the ledger of a record.

    Raises:
        LedgerRecordError: it cannot be read, or contradicts itself.
    """
    try:
        read = _decoder.decode(record)
        geometries = [*map(_geometry, read.geometries)]
        cards = tuple([card_of(card, read.node, geometries) for card in read.cards])
    except UnreadableError as error:
        problem = located(record, error)
        raise LedgerRecordError(f"the ledger's record cannot be read: {problem}") from error
    # Scores of pairs that are not those of the record's cards count as none.
    is_square = [*map(len, read.scores)] == [len(cards)] * len(cards)
    node = Node(
        name=read.node,
        cards=cards,
        isolation=read.isolation,
        partitions=tuple(Partition(p.indexes, p.bandwidth, p.score) for p in read.partitions),
        partitions_bind=read.partitions_bind,
        losses=tuple((entry.cards, entry.value) for entry in read.losses),
        gains=tuple((entry.cards, entry.value) for entry in read.gains),
        scores=read.scores if is_square else (),
    )
    allocations = [read_allocation(allocation, node.name) for allocation in read.allocations]
    _check_unique("card", [card.uuid for card in cards])
    _check_unique("pod", [allocation.uid for allocation in allocations])
    holds = _read_holds(read.holds, node.name, allocations)
    ledger = NodeLedger.restored(node, allocations, read.changes, read.fences, holds)
    return ledger if read.meter is None else replace(ledger, meter=_read_meter(read.meter))


def located(record: bytes | msgspec.Raw, error: UnreadableError) -> str:
    """Return what is wrong with a record, with the value where the error says which one it is."""
    path = _PATH.search(str(error))
    if path is None:
        return str(error)
    try:
        value = _anything.decode(record)
    except UnreadableError:
        return str(error)
    for key, index in _STEP.findall(path[0]):
        value = value[key or int(index)]
    return f"{error} is {_encoder.encode(value)[:_SHOWN].decode(errors='ignore')}"


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


def _read_meter(record: MeterRecord) -> Meter:
    """Return a record's meter; an unreadable one begins again, as no decision depends on it."""
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


def _check_unique(what: str, keys: list[str]) -> None:
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
        UnreadableError: it names a geometry that the record does not have.
    """
    if card.geometry is not None and card.geometry >= len(geometries):
        known = f"{len(geometries)} geometries"
        raise UnreadableError(f"card {card.uuid} has geometry {card.geometry} of {known}")
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


def _read_holds(
    records: tuple[KeptPlaceRecord, ...], node: str, allocations: Sequence[Allocation]
) -> tuple[Hold, ...]:
    """Return the holds of a record, on a node.

    Raises:
        LedgerRecordError: two have the same uid, or one has that of an allocation.
    """
    if not records:
        return ()
    uids = [record.allocation.uid for record in records]
    _check_unique("uid", [*uids, *(allocation.uid for allocation in allocations)])
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


_DIGEST = 16
"""Bytes: two rows of 2^64 have the same one by chance, and no author can make two that have."""

_ABSENT = msgspec.Raw()


class SplitRecord(Wire, frozen=True, gc=False):
    """A ``LedgerRecord`` in which all that says what the node is, and allocations, are encoded."""

    node: str
    changes: Count = 0
    summary: SummaryRecord = SummaryRecord()
    isolation: msgspec.Raw = _ABSENT
    cards: msgspec.Raw = _ABSENT
    geometries: msgspec.Raw = _ABSENT
    partitions: msgspec.Raw = _ABSENT
    partitions_bind: msgspec.Raw = _ABSENT
    losses: msgspec.Raw = _ABSENT
    gains: msgspec.Raw = _ABSENT
    scores: msgspec.Raw = _ABSENT
    allocations: tuple[msgspec.Raw, ...] = ()
    fences: dict[str, Count] = msgspec.field(default_factory=dict)
    meter: MeterRecord | None = None
    holds: tuple[KeptPlaceRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    """The latest record of a node.

    Attributes:
        node: digest of what says what the node is.
        rows: the digests of its allocations, in their order, without anything between them.
    """

    node: bytes
    rows: bytes
    ledger: NodeLedger


_split = Decoder(SplitRecord)
_row = Decoder(AllocationRecord)


class LedgerReader:
    """Reads the records of ledgers that change again and again: only what has changed is decoded.

    Another replica that binds a pod changes one row of a record of dozens. Each row and the node
    itself are compared with those of the node's latest record by their digest, so that the rows
    themselves need not be kept.
    """

    def __init__(self) -> None:
        self._latest: dict[str, _Known] = {}

    def read(self, record: bytes | msgspec.Raw) -> NodeLedger:
        """Return the ledger of a record, equal to what ``decode`` returns.

        Raises:
            LedgerRecordError: it cannot be read, or contradicts itself.
        """
        try:
            split = _split.decode(record)
            fields = msgspec.structs.astuple(split)
            texts = [bytes(field) for field in fields if isinstance(field, msgspec.Raw)]
            digest = _digest(b"%b %b" % (repr([*map(len, texts)]).encode(), b"".join(texts)))
            rows = [*map(_digest, split.allocations)]
            known = self._latest.get(split.node)
            if known is None or known.node != digest:
                ledger = decode(record)
            else:
                starts = range(0, len(known.rows), _DIGEST)
                digests = (known.rows[start : start + _DIGEST] for start in starts)
                by_digest = dict(zip(digests, known.ledger.allocations.values(), strict=True))
                allocations = [
                    by_digest.get(row) or read_allocation(_row.decode(raw), split.node)
                    for row, raw in zip(rows, split.allocations, strict=True)
                ]
                _check_unique("pod", [allocation.uid for allocation in allocations])
                holds = _read_holds(split.holds, split.node, allocations)
                ledger = known.ledger.with_allocations(
                    allocations, split.changes, split.fences, holds
                )
                if split.meter is not None:
                    ledger = replace(ledger, meter=_read_meter(split.meter))
        except UnreadableError:
            return decode(record)  # its error names the field
        self._latest[split.node] = _Known(digest, b"".join(rows), ledger)
        return ledger

    def forget(self, node: str) -> None:
        """Drop what is remembered of a node whose record was deleted."""
        self._latest.pop(node, None)


def _digest(content: bytes | msgspec.Raw) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()
