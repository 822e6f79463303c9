"""Reads the records of ledgers that change again and again: only what has changed is decoded.

Another replica that binds a pod changes one row of a record of dozens. Each row and the node itself
are compared with those of the node's latest record by their digest, so that the rows themselves
need not be kept. What is not known is decoded as ``adapters.wire.records.ledger`` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import msgspec

from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Wire
from adapters.wire.records.allocation import AllocationRecord, Count, read_allocation
from adapters.wire.records.ledger import (
    KeptPlaceRecord,
    MeterRecord,
    SummaryRecord,
    check_unique,
    decode,
    read_holds,
    read_meter,
)
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation

_DIGEST = 16
"""Bytes: two rows of 2^64 have the same one by chance, and no author can make two that have."""

_ABSENT = msgspec.Raw()


class SplitRecord(Wire, frozen=True, gc=False):
    """A ``LedgerRecord`` whose cards and allocations are still encoded."""

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

    def node_digest(self) -> bytes:
        """Return a digest of all that says what the node is."""
        parts = (
            self.isolation,
            self.cards,
            self.geometries,
            self.partitions,
            self.partitions_bind,
            self.losses,
            self.gains,
            self.scores,
        )
        texts = [*map(bytes, parts)]
        return _digest(b"%b %b" % (repr([*map(len, texts)]).encode(), b"".join(texts)))


@dataclass(frozen=True, slots=True)
class _Known:
    """The latest record of a node.

    Attributes:
        node: digest of what says what the node is.
        rows: the digests of its allocations, in their order, without anything between them.
        ledger: the value of the record.
    """

    node: bytes
    rows: bytes
    ledger: NodeLedger


_split = Decoder(SplitRecord)
_row = Decoder(AllocationRecord)


class LedgerReader:
    """Decodes records, each with the help of the node's latest one."""

    def __init__(self) -> None:
        self._latest: dict[str, _Known] = {}

    def read(self, record: bytes | msgspec.Raw) -> NodeLedger:
        """Return the ledger of a record, equal to what ``ledger.decode`` returns.

        Raises:
            LedgerRecordError: it cannot be read, or contradicts itself.
        """
        try:
            split = _split.decode(record)
            digest, rows = split.node_digest(), [*map(_digest, split.allocations)]
            known = self._latest.get(split.node)
            if known is None or known.node != digest:
                ledger = decode(record)
            else:
                ledger = _changed(known, split, rows)
        except (UnreadableError, KeyError, IndexError):
            return decode(record)  # its error names the field
        self._latest[split.node] = _Known(digest, b"".join(rows), ledger)
        return ledger

    def forget(self, node: str) -> None:
        """Drop what is remembered of a node whose record was deleted."""
        self._latest.pop(node, None)


def _changed(known: _Known, split: SplitRecord, rows: Sequence[bytes]) -> NodeLedger:
    """Return the ledger of the same node with other allocations; only new rows are decoded."""
    starts = range(0, len(known.rows), _DIGEST)
    digests = (known.rows[start : start + _DIGEST] for start in starts)
    by_digest = dict(zip(digests, known.ledger.allocations.values(), strict=True))
    allocations: list[Allocation] = []
    for digest, raw in zip(rows, split.allocations, strict=True):
        allocation = by_digest.get(digest)
        allocations.append(allocation or read_allocation(_row.decode(raw), split.node))
    check_unique("pod", [allocation.uid for allocation in allocations])
    holds = read_holds(split.holds, split.node, allocations)
    ledger = known.ledger.with_allocations(allocations, split.changes, split.fences, holds)
    return ledger if split.meter is None else replace(ledger, meter=read_meter(split.meter))


def _digest(content: bytes | msgspec.Raw) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()
