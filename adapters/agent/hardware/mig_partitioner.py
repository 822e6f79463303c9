"""Creates the MIG instances that the ledger grants, before their containers are created.

It destroys an instance only if it is in the way of a granted one, is not granted itself, and has no
process. It keeps no state of its own: it reads ledger and card each time, so that a restarted agent
continues where it stopped.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.model import Hardware
from adapters.agent.hardware.nvml_mig import NvmlMigDriver
from adapters.agent.log import log_event
from core.hardware.mig import MigKey
from core.hardware.mig_repartition import GpuInstancePlacement, RepartitionPlan, repartition
from core.ledger.node_ledger import NodeLedger

RETRY_INTERVAL = 5.0
"""Seconds until a failed creation is retried: the process in the way may have ended."""


Jobs = dict[str, tuple[RepartitionPlan, bool]]
"""By card: what to destroy and to create, and whether MIG mode must be enabled before."""


@dataclass(slots=True)
class MigPartitioner:
    """Follows the ledger. Other threads read its attributes, which are replaced and never changed.

    Attributes:
        grants: whose slices it creates; it wakes their waiters.
        failed_instances: why a granted instance could not be created.
        withdrawn: instances that are being destroyed, which no container may get.
    """

    grants: LedgerGrants
    driver: NvmlMigDriver
    hardware: Callable[[], Hardware]
    read_hardware: Callable[[], Awaitable[None]]
    enable: bool = False
    failed_instances: Mapping[MigKey, str] = field(default_factory=dict[MigKey, str])
    withdrawn: frozenset[MigKey] = frozenset()

    async def run(self) -> None:
        """Create what is granted until cancelled."""
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
        """Create what is granted now."""
        ledger = self.grants.ledger
        if ledger is None:
            return
        jobs, problems = self._jobs(ledger)
        # From here on no container gets these; one that got one before has a grant for it.
        self.withdrawn = frozenset(
            _key(uuid, placement) for uuid, (plan, _) in jobs.items() for placement in plan.remove
        )
        for uuid, (plan, enable) in jobs.items():
            problems |= await asyncio.to_thread(self._partition, uuid, plan, enable=enable)
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

    def _jobs(self, ledger: NodeLedger) -> tuple[Jobs, dict[MigKey, str]]:
        hardware = self.hardware()
        granted: dict[str, list[GpuInstancePlacement]] = {}
        uncertain: set[str] = set()  # cards of which a pod may use more than the ledger records
        for allocation in ledger.allocations.values():
            uncertain.update(allocation.blocked)
            for grant in allocation.grants:
                if grant.slice is None:
                    uncertain.add(grant.card)
                else:
                    placement = GpuInstancePlacement.of(grant.slice)
                    granted.setdefault(grant.card, []).append(placement)
        jobs: Jobs = {}
        problems: dict[MigKey, str] = {}
        known = {card.uuid for card in hardware.cards}
        for uuid, wanted in granted.items():
            missing = [
                placement for placement in wanted if _key(uuid, placement) not in hardware.instances
            ]
            if not missing:
                continue
            off = uuid not in hardware.gpu_instances
            if uuid not in known or (off and (not self.enable or uuid in uncertain)):
                why = "it is not in MIG mode" if uuid in known else "the card does not answer"
                problems |= {_key(uuid, placement): why for placement in missing}
                continue
            # A GPU instance without its compute instance exists, and still has to be completed.
            present = [each for each in hardware.gpu_instances.get(uuid, ()) if each not in missing]
            found = repartition(wanted, present, keep=uuid in uncertain)
            why = "its present instances may be in use"
            problems |= {_key(uuid, placement): why for placement in found.refused}
            if found.add:
                jobs[uuid] = found, off
        return jobs, problems

    def _partition(self, uuid: str, plan: RepartitionPlan, *, enable: bool) -> dict[MigKey, str]:
        """Partition one card, on another thread, because it may take seconds."""
        try:
            if enable:
                self.driver.enable(uuid)
            found = self.driver.repartition(uuid, plan.remove, plan.add)
        except RuntimeError as error:
            return {_key(uuid, placement): str(error) for placement in plan.add}
        log_event(
            "mig.repartitioned",
            card=uuid,
            removed=[f"{placement.profile}@{placement.start}" for placement in plan.remove],
            added=[f"{placement.profile}@{placement.start}" for placement in plan.add],
            failed=len(found),
        )
        return {_key(uuid, placement): why for placement, why in found.items()}


def _key(uuid: str, placement: GpuInstancePlacement) -> MigKey:
    return MigKey(uuid, placement.profile, placement.start)
