"""The fields of a node's record; ``ledger`` says what they mean for the core."""

from typing import Annotated

import msgspec

from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Metadata, Wire
from adapters.wire.records.allocation import (
    AllocationRecord,
    Compute,
    Count,
    Memory,
    Number,
    SliceRecord,
)
from core.hardware.card import Mode
from core.hardware.quantity import FULL, MAX_NUMBER


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
