"""Commits claims whose scheduler waits for the ledger; runs in the elected leader only.

The scheduler allocates the devices of such a claim, and binds the pod when a condition says that
the ledger has it. So no webhook is needed, and no pod runs on cards that are in use.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import Claim, allocated
from adapters.service.decide.commit.claim_choice import ClaimOption, ClaimRefusal
from adapters.service.decide.commit.claim_review import (
    holdings,
    node_without_ledger,
    nodes_of,
    unclear,
)
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import DecisionRecord, LiveClaims, Outcome
from adapters.service.decide.service import Service
from adapters.service.reconcile.work_queue import WorkQueue
from adapters.wire.dra import DeviceResult, ResourceClaim

AGAIN = 2.0
"""Seconds until the next attempt for a node that failed."""

POLL = 0.5
"""Seconds between two looks at the queue while no node changes."""


class ConditionWriter(LiveClaims, Protocol):
    """Reads claims as the API server has them now, and writes conditions of their devices."""

    async def report(
        self, claim: ResourceClaim, devices: Sequence[DeviceResult], problem: str | None
    ) -> None:
        """Write whether the ledger has a claim.

        Args:
            claim: as it was read; one that was changed since is not written.
            devices: of its allocation.
            problem: why the ledger cannot have it; None where it has it.

        Raises:
            OSError: the API server rejected the write, or did not answer.
        """
        ...


class ClaimConditions:
    """Answers the schedulers of claims, a few nodes at a time."""

    def __init__(
        self,
        service: Service,
        claims: ClaimCache,
        writer: ConditionWriter,
        clock: Callable[[], float],
        failed: Callable[[str, str], None],
    ) -> None:
        """Answer nothing yet.

        Args:
            service: commits.
            claims: the claims and slices of the cluster.
            writer: writes the conditions.
            clock: monotonic seconds.
            failed: called with the node and the error of an attempt that failed.
        """
        self._service = service
        self._claims = claims
        self._writer = writer
        self._failed = failed
        self._queue = WorkQueue(clock)

    def look_at(self, node: str) -> None:
        """Check a node soon: a claim of its devices may wait."""
        self._queue.add(node)

    async def run(self) -> NoReturn:
        """Answer until cancelled."""
        for node in self._service.ledgers.inventory.names():
            self._queue.add(node)
        while True:
            await self._queue.work(self._one, POLL)

    async def _one(self, node: str) -> None:
        self._queue.take(node)
        for claim in self._claims.undecided(node):
            try:
                is_answered = await self.answer(claim)
            except (LedgerContended, OSError) as error:
                self._failed(node, f"claim {claim.name}: {error}")
                is_answered = False
            if not is_answered:
                self._queue.add_after(node, AGAIN)

    async def answer(self, claim: Claim) -> bool:
        """Commit a claim, or reject it; False where it cannot be decided yet.

        The ledger is written first: a condition that is true stays true.

        Raises:
            LedgerContended: as ``Committer.commit``.
            OSError: the store or the API server did not answer, or has a newer claim.
        """
        live = await self._writer.get(claim.ref)
        found = None if live is None else allocated(live)
        if live is None or found is None or found.uid != claim.uid:
            return True
        if not found.pending or found.rejected:
            return True
        nodes, devices = nodes_of(found, self._service.ledgers), self._claims.devices
        if node_without_ledger(found, nodes, devices):
            return False
        held = holdings(found, nodes, devices)
        answer: ClaimOption | ClaimRefusal | None = None
        if held:
            option = ClaimOption(found, held[0])
            answer = unclear(held) or await self._service.committer.commit_claim(option)
        problem = answer.text if isinstance(answer, ClaimRefusal) else None
        await self._writer.report(live, found.awaiting, problem)
        self._service.ports.decision_log.record(
            DecisionRecord(
                "claim",
                Outcome.ADOPTED if problem is None else Outcome.REFUSED,
                found.name,
                found.uid,
                DRA,
                held[0].node if held else "",
                answer.cause if isinstance(answer, ClaimRefusal) else "",
                problem or "",
                consumers=tuple(map(str, found.pods)),
            )
        )
        return True
