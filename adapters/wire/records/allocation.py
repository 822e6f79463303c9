"""The JSON of grants and allocations: in a node's record, and of a grant on a pod too.

A person can read it. The encoder leaves out fields that have their default. An allocation is
written by position: a new field of its record comes last.
"""

from functools import lru_cache
from typing import Annotated

import msgspec

from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Wire
from core.hardware.mig import Slice
from core.hardware.quantity import FULL, MAX_COMPUTE, MAX_MEMORY, MAX_NUMBER
from core.requests.grant import Allocation, Grant
from core.requests.request import Phase, SharingTerms, TaskClass

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]

Memory = Annotated[int, msgspec.Meta(ge=0, le=MAX_MEMORY)]
"""Bytes of a card, or of a part of one."""

Compute = Annotated[int, msgspec.Meta(ge=0, le=MAX_COMPUTE)]
"""Percent of a card."""

Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
"""What counts cards, slots or memory slices, or numbers them."""

Size = Annotated[int, msgspec.Meta(ge=1, le=MAX_NUMBER)]
"""Memory slices of a MIG slice: one of none would overlap no other."""


_terms = lru_cache(1024)(SharingTerms)
"""Terms of which all allocations have the same object: most demand nothing."""


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


class AllocationRecord(Wire, frozen=True, gc=False, omit_defaults=True):
    """A committed ``core.requests.grant.Allocation``."""

    uid: str
    pod: str
    dialect: str
    grants: tuple[GrantRecord, ...] = ()
    task_class: TaskClass = TaskClass.NORMAL
    qos: str | None = None
    group: str | None = None
    member_of: str | None = None
    exclusions: tuple[str, ...] = ()
    priority: Int64 = 0
    unread: str | None = None
    blocked: tuple[str, ...] = ()
    since: Count = 0
    release_by: Count | None = None
    devices: str = ""
    initialized: bool = False


def grant_record(grant: Grant) -> GrantRecord:
    """Return the record of a grant."""
    slot = grant.slice
    return GrantRecord(
        grant.container,
        grant.card,
        grant.memory,
        grant.compute,
        grant.exclusive,
        grant.phase,
        None if slot is None else msgspec.convert(slot, SliceRecord, from_attributes=True),
    )


def read_grant(record: GrantRecord) -> Grant:
    """Return the grant of a record."""
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


def allocation_record(allocation: Allocation) -> AllocationRecord:
    """Return the record of an allocation."""
    terms = allocation.terms
    return AllocationRecord(
        allocation.uid,
        allocation.pod,
        allocation.dialect,
        tuple(map(grant_record, allocation.grants)),
        terms.task_class,
        terms.qos,
        terms.group,
        terms.member_of,
        tuple(sorted(terms.exclusions)),
        allocation.priority,
        allocation.unread,
        tuple(sorted(allocation.blocked)),
        allocation.attempt,
        allocation.release_by,
        allocation.devices,
        allocation.initialized,
    )


def read_allocation(record: AllocationRecord, node: str) -> Allocation:
    """Return the allocation of a record, on a node.

    Nothing limits a container that has a share of no memory. So an allocation with such a share
    has all of its cards.
    """
    grants = tuple(map(read_grant, record.grants))
    unread, blocked = record.unread, frozenset(record.blocked)
    if any(each.memory == 0 and not each.exclusive and each.slice is None for each in grants):
        unread = unread or "the ledger's record grants it no memory of a card"
        blocked |= {each.card for each in grants}
        grants = ()
    return Allocation(
        record.uid,
        record.pod,
        record.dialect,
        node,
        grants,
        _terms(
            record.task_class,
            record.qos,
            record.group,
            record.member_of,
            frozenset(record.exclusions),
        ),
        record.priority,
        unread=unread,
        blocked=blocked,
        attempt=record.since,
        release_by=record.release_by,
        devices=record.devices,
        initialized=record.initialized,
    )
