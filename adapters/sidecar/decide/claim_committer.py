"""The commit of ResourceClaims: allocates the devices that a scheduler chose."""

from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.decide.ledger_writer import LedgerWriter
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation


class ClaimCommitter:
    """Allocates cards to ResourceClaims; ``Committer`` releases them like those of pods."""

    def __init__(self, ledgers: LedgerCache, writer: LedgerWriter) -> None:
        self._ledgers = ledgers
        self._writer = writer

    async def commit(self, held: Allocation) -> str | None:
        """Allocate to a ResourceClaim the devices that a scheduler chose for it.

        What the claim had on the node before, by an earlier attempt, is replaced.

        Returns:
            why the devices are not free; None where they are the claim's now.

        Raises:
            LedgerContended: as ``Committer.commit``.
            OSError: as ``Committer.commit``.
        """

        def allocate(ledger: NodeLedger) -> tuple[NodeLedger, str]:
            try:
                _without_earlier(self._ledgers.with_reservations(ledger), held).reserve(held)
                return ledger.allocate(held), ""
            except LedgerError as error:
                return ledger, str(error)

        problem = await self._writer.change(held.node, allocate)
        return f"node {held.node} has no ledger" if problem is None else problem or None

    def conflict(self, held: Allocation) -> str | None:
        """Why the devices of a claim are not free now; nothing is allocated."""
        ledger = self._ledgers.ledger(held.node)
        try:
            if ledger is not None:
                _without_earlier(ledger, held).reserve(held)
        except LedgerError as error:
            return str(error)
        return None


def _without_earlier(ledger: NodeLedger, held: Allocation) -> NodeLedger:
    """The ledger without what a claim had by an earlier attempt.

    Raises:
        LedgerError: pods that had the claim were deleted by force, and their containers may run on.
    """
    earlier = ledger.allocations.get(held.uid)
    if earlier is not None and earlier.release_by is not None:
        raise LedgerError(f"containers of pods that had {held.pod} before may still run")
    return ledger.release(held.uid)
