"""The commit of ResourceClaims: allocates the devices that a scheduler chose."""

from functools import partial

from adapters.sidecar.decide.claim_choice import ClaimFacts, ClaimRefusal, added, conflict
from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.decide.ledger_writer import LedgerWriter
from adapters.sidecar.decide.quota_claims import HeldQuotaClaim, QuotaClaimNeeded, QuotaClaims
from adapters.sidecar.decide.quota_commit import commit_with_quota
from adapters.sidecar.decide.quotas import Quotas
from adapters.sidecar.decide.recorder import Recorder
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import held
from core.requests.grant import Allocation
from core.requests.reason import Reason

IN_USE, QUOTA = "in_use", "quota"
"""Causes of a refusal."""


class ClaimCommitter:
    """Allocates cards to ResourceClaims; ``Committer`` releases them like those of pods."""

    def __init__(
        self,
        ledgers: LedgerCache,
        writer: LedgerWriter,
        quotas: Quotas,
        quota_claims: QuotaClaims,
        recorder: Recorder,
    ) -> None:
        self._ledgers = ledgers
        self._writer = writer
        self._quotas = quotas
        self._quota_claims = quota_claims
        self._recorder = recorder

    async def commit(self, asked: Allocation) -> ClaimRefusal | None:
        """Allocate to a ResourceClaim the devices that a scheduler chose for it.

        What the claim had on the node before, by an earlier attempt, it keeps.

        Returns:
            why it does not get them; None where they are the claim's now.

        Raises:
            LedgerContended: as ``Committer.commit``.
            OSError: as ``Committer.commit``.
        """
        found: Allocation | ClaimRefusal | Reason = await commit_with_quota(
            self._quota_claims,
            asked.pod_ref,
            asked.node,
            lambda: self._expected(asked),
            partial(self._allocate, asked),
            _is_written,
        )
        match found:
            case Allocation():
                return None
            case Reason():
                return ClaimRefusal(QUOTA, found.text())
            case ClaimRefusal():
                return found

    def conflict(self, asked: Allocation) -> ClaimRefusal | None:
        """Why a claim would not get devices now; nothing is allocated."""
        facts = self._facts(asked)
        if facts is None:
            return None
        problem = conflict(facts)
        if problem is not None:
            self._recorder.claimed(facts, problem)
            return ClaimRefusal(IN_USE, problem)
        wanted = held(added(asked, facts.stored), facts.stored.node)
        short = self._quotas.refusal_of(asked.pod_ref, wanted)
        return None if short is None else ClaimRefusal(QUOTA, short)

    async def _allocate(
        self, asked: Allocation, claim: HeldQuotaClaim | None
    ) -> Allocation | ClaimRefusal | QuotaClaimNeeded:
        """Write the allocation, if the quota's claim covers it."""
        decided: list[tuple[ClaimFacts, str | None]] = []

        def allocate(
            ledger: NodeLedger,
        ) -> tuple[NodeLedger, Allocation | ClaimRefusal | QuotaClaimNeeded]:
            facts = ClaimFacts(asked, ledger, self._ledgers.with_reservations(ledger))
            problem = conflict(facts)
            decided[:] = [(facts, problem)]
            if problem is not None:
                return ledger, ClaimRefusal(IN_USE, problem)
            needed = _needed(asked, ledger)
            if claim is None or not claim.covers(needed):
                return ledger, needed
            return ledger.allocate(added(asked, ledger)), asked

        found = await self._writer.change(asked.node, allocate)
        if found is None:
            return ClaimRefusal(IN_USE, f"node {asked.node} has no ledger")
        if not isinstance(found, QuotaClaimNeeded):
            self._recorder.claimed(*decided[0])
        return found

    def _expected(self, asked: Allocation) -> QuotaClaimNeeded | None:
        """What the quota will probably have to claim; None where the devices are not free."""
        facts = self._facts(asked)
        if facts is None or conflict(facts) is not None:
            return None
        return _needed(asked, facts.stored)

    def _facts(self, asked: Allocation) -> ClaimFacts | None:
        """By the cache; None where the node has no ledger."""
        stored = self._ledgers.stored(asked.node)
        if stored is None:
            return None
        return ClaimFacts(asked, stored.ledger, self._ledgers.inventory.ledger(asked.node))


def _is_written(found: Allocation | ClaimRefusal | Reason) -> bool:
    return isinstance(found, Allocation)


def _needed(asked: Allocation, ledger: NodeLedger) -> QuotaClaimNeeded:
    wanted = added(asked, ledger)
    return QuotaClaimNeeded(held(wanted, ledger.node), ledger.fence(asked.pod_ref.namespace))
