"""The commit of ResourceClaims: allocates the devices that a scheduler chose."""

from adapters.sidecar.decide.claim_choice import ClaimFacts, conflict
from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.decide.ledger_writer import LedgerWriter
from adapters.sidecar.decide.recorder import Recorder
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation


class ClaimCommitter:
    """Allocates cards to ResourceClaims; ``Committer`` releases them like those of pods."""

    def __init__(self, ledgers: LedgerCache, writer: LedgerWriter, recorder: Recorder) -> None:
        self._ledgers = ledgers
        self._writer = writer
        self._recorder = recorder

    async def commit(self, held: Allocation) -> str | None:
        """Allocate to a ResourceClaim the devices that a scheduler chose for it.

        What the claim had on the node before, by an earlier attempt, is replaced.

        Returns:
            why the devices are not free; None where they are the claim's now.

        Raises:
            LedgerContended: as ``Committer.commit``.
            OSError: as ``Committer.commit``.
        """
        facts: list[ClaimFacts] = []

        def allocate(ledger: NodeLedger) -> tuple[NodeLedger, str]:
            facts[:] = [ClaimFacts(held, ledger, self._ledgers.with_reservations(ledger))]
            problem = conflict(facts[0])
            return (ledger.allocate(held), "") if problem is None else (ledger, problem)

        problem = await self._writer.change(held.node, allocate)
        if problem is None:
            return f"node {held.node} has no ledger"
        self._recorder.claimed(facts[0], problem or None)
        return problem or None

    def conflict(self, held: Allocation) -> str | None:
        """Why the devices of a claim are not free now; nothing is allocated."""
        stored = self._ledgers.stored(held.node)
        if stored is None:
            return None
        reserved = self._ledgers.inventory.ledger(held.node)
        facts = ClaimFacts(held, stored.ledger, reserved)
        problem = conflict(facts)
        if problem is not None:
            self._recorder.claimed(facts, problem)
        return problem
