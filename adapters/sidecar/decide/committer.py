"""The commit: the one place where cards are given away."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.decide.ledger_writer import LedgerWriter
from adapters.sidecar.decide.pod_requests import PodRequest
from adapters.sidecar.decide.ports import Clock, DecisionLog
from adapters.sidecar.decide.validate import is_valid
from adapters.stores.store import Store
from core.feasibility.fit import fit
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.reason import Cause, Reason

RESERVED = 60_000_000_000
"""Nanoseconds for which cards are kept for a pod at most whose record is being written."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a pod holds now.

    Attributes:
        placement: on its node.
        fresh: False where the store had it before.
        claimed: it is the choice that the asker came with.
        since: of the allocation: it names this attempt to bind.
    """

    placement: Placement
    new: bool
    claim_accepted: bool = False
    since: int = 0


class Committer:
    """Gives cards away and takes them back."""

    def __init__(self, book: LedgerCache, store: Store, clock: Clock, journal: DecisionLog) -> None:
        self._book = book
        self._clock = clock
        self._writer = LedgerWriter(book, store, clock, journal)

    async def commit(
        self, asking: PodRequest, node: str, claimed: Sequence[Grant] = ()
    ) -> Committed | Reason:
        """Give a pod its cards on a node. What it was given there before stays.

        Args:
            asking: the pod.
            node: where it goes.
            claimed: a choice that is taken if it is sound.

        Returns:
            what it holds, or why it gets none.

        Raises:
            Busy: others were faster each time, or the node's record cannot be read.
            OSError: the store did not answer; the write may have happened.
        """
        uid, choice = asking.request.uid, tuple(claimed)
        found: list[Committed | Reason] = []

        def decide(ledger: NodeLedger) -> NodeLedger:
            made = self._decide(asking, ledger, choice)
            found[:] = [made]
            if isinstance(made, Reason):
                return ledger
            if not made.new:
                # Written too: that the store still has it must be sure before the Binding, and
                # a reconciler that is about to take it back must lose the race.
                changed = ledger.renew(uid)
            else:
                allocation = Allocation.of(asking.request, made.placement)
                changed = ledger.release(uid).reserve(allocation).commit(uid)
            found[:] = [replace(made, since=changed.allocations[uid].since)]
            return changed

        reserved = self._reserve(asking, node, choice)
        try:
            written = await self._writer.change(node, decide)
        except BaseException:
            if reserved:
                self._book.unreserve(uid, node)
            raise
        if not written and not found:
            return Reason(node, 0, cause=Cause.NO_CARDS)
        self._book.unreserve(uid)
        return found[0]

    async def release(self, uid: str, node: str, since: int | None = None) -> bool:
        """Take back what a pod holds on a node.

        Args:
            uid: the pod's.
            node: the node.
            since: only if no later attempt to bind the pod has begun, here or elsewhere; that one
                relies on the same cards.

        Returns:
            whether it held anything in the store.

        Raises:
            Busy: as ``commit``.
            OSError: as ``commit``.
        """
        self._book.unreserve(uid, node)

        def let_go(ledger: NodeLedger) -> NodeLedger:
            found = ledger.allocations.get(uid)
            if found is None or since not in (None, found.since):
                return ledger
            return ledger.release(uid)

        return await self._writer.change(node, let_go)

    def _reserve(self, asking: PodRequest, node: str, claimed: tuple[Grant, ...]) -> bool:
        """Keep a pod's cards from others from now on, not only from when they are written."""
        stored, uid = self._book.stored(node), asking.request.uid
        if stored is None or uid in stored.ledger.allocations:
            return False
        found, held = self._decide(asking, stored.ledger, claimed), self._book.reservation(uid)
        if isinstance(found, Reason):
            return False
        if held is not None and (held.node, held.grants) == (node, found.placement.grants):
            return False
        allocation = Allocation.of(asking.request, found.placement)
        self._book.reserve(allocation, self._clock.now() + RESERVED)
        return True

    def _decide(
        self, asking: PodRequest, stored: NodeLedger, claimed: tuple[Grant, ...]
    ) -> Committed | Reason:
        request, node = asking.request, stored.node.name
        earlier = stored.allocations.get(request.uid)
        if earlier is not None and earlier.unread is None:
            return Committed(Placement(node, earlier.grants), new=False)
        held = self._book.reservation(request.uid)
        if (
            held is not None
            and held.node == node
            and claimed in ((), held.grants)
            and is_valid(request, held.grants, stored)
        ):
            return Committed(Placement(node, held.grants), new=True, claim_accepted=bool(claimed))
        ledger = self._book.with_reservations(stored).release(request.uid)
        if claimed and is_valid(request, claimed, ledger):
            return Committed(Placement(node, claimed), new=True, claim_accepted=True)
        result = fit(request, ledger)
        return result if isinstance(result, Reason) else Committed(result, new=True)
