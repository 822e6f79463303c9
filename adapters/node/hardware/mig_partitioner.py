"""Makes the slices that the ledger grants, before their containers are answered.

Only a part that nobody holds, that is in the way of a granted one, and on which nothing runs, is
removed. The truth is the ledger and the card, both read anew each time: an agent that died halfway
finds what it left.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from adapters.node.grants import LedgerGrants
from adapters.node.hardware.model import Hardware
from adapters.node.log import log_event
from core.hardware.mig import MigKey
from core.hardware.mig_repartition import GpuInstancePlacement, RepartitionPlan, repartition
from core.ledger.node_ledger import NodeLedger

RETRY_INTERVAL = 5.0
"""Seconds until what could not be cut is tried again: what was in the way may have ended."""


class MigDriver(Protocol):
    """Who cuts. Each may take seconds, and raise a ``RuntimeError`` that says why not."""

    def enable(self, uuid: str) -> None:
        """Make a card that nobody uses one that can be cut."""
        ...

    def repartition(
        self, uuid: str, remove: Sequence[GpuInstancePlacement], add: Sequence[GpuInstancePlacement]
    ) -> dict[GpuInstancePlacement, str]:
        """Remove parts, unless something runs there, and add others; why some were not added."""
        ...


@dataclass(frozen=True, slots=True)
class RepartitionJob:
    """What is to be done with one card.

    Attributes:
        enable: whether its mode must be changed before.
    """

    uuid: str
    plan: RepartitionPlan
    enable: bool = False


@dataclass(slots=True)
class MigPartitioner:
    """Follows the ledger. What others read of it is replaced and never changed: they have threads.

    Attributes:
        grants: that are served, and told when something was cut.
        tool: that cuts.
        hardware: what is in the node, as it was last read.
        look: reads it anew.
        enable: whether cards may be put in MIG mode.
        uncut: why a slice could not be made.
        withdrawn: slices that are being removed, and are given to nobody.
    """

    grants: LedgerGrants
    driver: MigDriver
    hardware: Callable[[], Hardware]
    read_hardware: Callable[[], Awaitable[None]]
    enable: bool = False
    failed_instances: Mapping[MigKey, str] = field(default_factory=dict[MigKey, str])
    withdrawn: frozenset[MigKey] = frozenset()

    async def run(self) -> None:
        """Cut what is granted until cancelled."""
        while True:
            seen = self.grants.ledger
            await self.repartition()
            change = self.grants.next_change()
            if self.grants.ledger is not seen:
                change.close()
                continue
            try:
                await asyncio.wait_for(change, RETRY_INTERVAL if self.failed_instances else None)
            except TimeoutError:
                continue

    async def repartition(self) -> None:
        """Make what is granted now."""
        ledger = self.grants.ledger
        if ledger is None:
            return
        jobs, problems = self._jobs(ledger)
        # From here on nobody is given what goes; who was given it before has a grant for it.
        self.withdrawn = frozenset(_key(j.uuid, piece) for j in jobs for piece in j.plan.remove)
        for job in jobs:
            problems |= await asyncio.to_thread(self._do, job)
        if jobs:
            await self.read_hardware()
        self.withdrawn = frozenset()
        changed = bool(jobs) or problems != self.failed_instances
        for key, why in problems.items():
            if self.failed_instances.get(key) != why:
                log_event("mig.create_failed", **key._asdict(), reason=why)
        self.failed_instances = problems
        if changed:
            self.grants.wake()

    def _jobs(self, ledger: NodeLedger) -> tuple[list[RepartitionJob], dict[MigKey, str]]:
        hardware = self.hardware()
        unsure = _unsure(ledger)
        jobs: list[RepartitionJob] = []
        problems: dict[MigKey, str] = {}
        known = {card.uuid for card in hardware.cards}
        for uuid, wanted in _wanted(ledger).items():
            missing = [piece for piece in wanted if _key(uuid, piece) not in hardware.instances]
            if not missing:
                continue
            off = uuid not in hardware.gpu_instances
            if uuid not in known or (off and (not self.enable or uuid in unsure)):
                why = "it is not in MIG mode" if uuid in known else "it is not there"
                problems |= {_key(uuid, piece): why for piece in missing}
                continue
            # A part that was begun and not finished is there, and still has to be made.
            there = [
                piece for piece in hardware.gpu_instances.get(uuid, ()) if piece not in missing
            ]
            found = repartition(wanted, there, keep=uuid in unsure)
            why = "what it is cut into may be in use"
            problems |= {_key(uuid, piece): why for piece in found.refused}
            if found.add:
                jobs.append(RepartitionJob(uuid, found, off))
        return jobs, problems

    def _do(self, job: RepartitionJob) -> dict[MigKey, str]:
        """On a thread: it may take seconds."""
        try:
            if job.enable:
                self.driver.enable(job.uuid)
            found = self.driver.repartition(job.uuid, job.plan.remove, job.plan.add)
        except RuntimeError as error:
            return {_key(job.uuid, piece): str(error) for piece in job.plan.add}
        log_event(
            "mig.repartitioned",
            card=job.uuid,
            removed=[f"{piece.profile}@{piece.start}" for piece in job.plan.remove],
            added=[f"{piece.profile}@{piece.start}" for piece in job.plan.add],
            failed=len(found),
        )
        return {_key(job.uuid, piece): why for piece, why in found.items()}


def _key(uuid: str, piece: GpuInstancePlacement) -> MigKey:
    return MigKey(uuid, piece.profile, piece.start)


def _wanted(ledger: NodeLedger) -> dict[str, list[GpuInstancePlacement]]:
    """The parts of each card that somebody holds."""
    found: dict[str, list[GpuInstancePlacement]] = {}
    for allocation in ledger.allocations.values():
        for grant in allocation.grants:
            if grant.slice is not None:
                found.setdefault(grant.card, []).append(GpuInstancePlacement.of(grant.slice))
    return found


def _unsure(ledger: NodeLedger) -> frozenset[str]:
    """Cards of which somebody holds more than the ledger can tell."""
    held = ledger.allocations.values()
    blocked = {uuid for allocation in held for uuid in allocation.blocked}
    plain = {g.card for allocation in held for g in allocation.grants if g.slice is None}
    return frozenset(blocked | plain)
