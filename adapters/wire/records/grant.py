"""The JSON of a grant: in a node's record, and on a pod whose dialect cannot express the grant.

A person can read it. The encoder leaves out fields that have their default.
"""

from typing import Annotated

import msgspec

from adapters.wire.kube import Wire
from core.hardware.mig import Slice
from core.hardware.quantity import FULL, MAX_COMPUTE, MAX_MEMORY, MAX_NUMBER
from core.requests.grant import Grant
from core.requests.request import Phase

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]

Memory = Annotated[int, msgspec.Meta(ge=0, le=MAX_MEMORY)]
"""Bytes of a card, or of a part of one."""

Compute = Annotated[int, msgspec.Meta(ge=0, le=MAX_COMPUTE)]
"""Percent of a card."""

Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
"""What counts cards, slots or memory slices, or numbers them."""

Size = Annotated[int, msgspec.Meta(ge=1, le=MAX_NUMBER)]
"""Memory slices of a MIG slice: one of none would overlap no other."""


class SliceRecord(Wire, frozen=True, gc=False):
    """A ``core.hardware.mig.Slice``."""

    profile: str
    start: Number
    size: Size
    memory: Memory
    compute: Annotated[int, msgspec.Meta(ge=0, le=FULL)]
    layout: str
    position: Number


class GrantRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A ``core.requests.grant.Grant``."""

    container: str
    card: str
    memory: Memory
    compute: Compute
    exclusive: bool = False
    phase: Phase = Phase.MAIN
    slice: SliceRecord | None = None


def _slice_record(slot: Slice) -> SliceRecord:
    """The record of a slice."""
    return SliceRecord(
        slot.profile,
        slot.start,
        slot.size,
        slot.memory,
        slot.compute,
        slot.layout,
        slot.position,
    )


def grant_record(grant: Grant) -> GrantRecord:
    """The record of a grant."""
    return GrantRecord(
        grant.container,
        grant.card,
        grant.memory,
        grant.compute,
        grant.exclusive,
        grant.phase,
        None if grant.slice is None else _slice_record(grant.slice),
    )


def read_grant(record: GrantRecord) -> Grant:
    """The grant of a record."""
    slot = record.slice
    return Grant(
        record.container,
        record.card,
        record.memory,
        record.compute,
        record.exclusive,
        record.phase,
        None if slot is None else msgspec.convert(slot, Slice, from_attributes=True),
    )
