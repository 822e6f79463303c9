"""The commit: the one place that allocates cards, to pods and to ResourceClaims.

Its steps, and what holds the cards after each:

    planned      a reservation in the memory of this process, decided on the cached ledger; other
                 decisions of this process count it
    quota held   a hold in the namespace's ShareQuota, if it has one; other namespaces' pods and
                 other replicas count it
    written      the allocation in the node's ledger, by compare-and-swap, decided again on the
                 newest ledger; all replicas count it
    bound        the Binding (``Service.bind``), or the API server's write of what a webhook
                 admitted

Whatever dies between two steps leaves a hold that is released by itself: a reservation with its
process, a hold of quota behind a fence (``fence``), an allocation by the reconciler. A step that
is added here needs the same: who counts it, and what releases it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from adapters.accounting.pod_requests import PodRequest
from adapters.repairs.repairs import LOST_LEDGER
from adapters.service.decide.commit.attempt import (
    IN_USE,
    QUOTA,
    AnswerT,
    Attempt,
    ClaimAttempt,
    ClaimOption,
    ClaimRefusal,
    Committed,
    Decided,
    LedgerView,
    PodAttempt,
)
from adapters.service.decide.commit.ledger_writer import LedgerContended, LedgerWriter
from adapters.service.decide.commit.quota_holds import AcquiredHold, QuotaHoldNeeded, QuotaHolds
from adapters.service.decide.commit.validate import is_valid
from adapters.service.decide.ports import Clock
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from core.durations import SECOND
from core.hardware.node import Node
from core.ledger.node_ledger import Hold, LedgerError, NodeLedger
from core.quota.amounts import NOTHING, QuotaAmounts, amounts_of
from core.requests.grant import Allocation, AllocationState, Grant, Placement
from core.requests.reason import Cause, Reason

RESERVED_NS = 60 * SECOND
"""Nanoseconds after which a reservation expires whose allocation is still not written."""

HOLDS = 4
"""Holds of quota of one commit: a newer ledger may need a larger one, or have a fence."""

UNLIMITED = AcquiredHold(None)
"""The hold in a namespace without a quota."""


@dataclass(eq=False)
class Committer:
    """Allocates cards and releases them."""

    _ledgers: LedgerCache
    _writer: LedgerWriter
    _clock: Clock
    _quotas: Quotas
    _quota_holds: QuotaHolds

    async def commit(
        self, pod_request: PodRequest, node: str, choice: Sequence[Grant] = ()
    ) -> Committed | Reason:
        """Allocate cards of a node to a pod. An allocation that it has there already stays.

        Args:
            pod_request: the pod.
            node: where it goes.
            choice: of cards by another scheduler or a plan, accepted if it is valid; empty for
                none.

        Returns:
            the allocation, or why there is none.

        Raises:
            LedgerContended: other replicas wrote first each time, or the ledger cannot be read.
            OSError: the store did not answer; the write may have happened.
        """
        attempt = PodAttempt(pod_request, node, tuple(choice))
        planned = self._plan(attempt)
        # The cards are reserved from now on, not only from when the allocation is written; a place
        # that is kept for the pod is reserved already.
        uid, allocation = attempt.holder.uid, None if planned is None else planned.allocation
        if planned and isinstance(planned.answer, Committed) and planned.answer.hold is not None:
            allocation = None
        earlier, place = self._ledgers.reservation(uid), attrgetter("node", "grants")
        if allocation and earlier and place(earlier) == place(allocation):
            allocation = None
        if allocation is not None:
            self._ledgers.reserve(allocation, self._clock.now() + RESERVED_NS)
        try:
            decided = await self._write(attempt, planned)
        except BaseException:
            if allocation is not None:
                self._ledgers.unreserve(uid, node)
            raise  # reservations that were there before stay
        # The store has the allocation, or the node was rejected.
        self._ledgers.unreserve(uid)
        if isinstance(decided, Decided):
            return decided.answer
        if decided is not None:
            return decided
        problem = self._ledgers.problem(node)
        if problem is not None:
            raise LedgerContended(problem)
        if pod_request.request.plugin is not None:
            return Committed(Placement(node, ()), Node(node), new=False)
        return Reason(node, 0, cause=Cause.NO_CARDS)

    async def allows(self, pod_request: PodRequest, node: str, choice: Sequence[Grant]) -> bool:
        """Return whether a pod could have the cards that its scheduler chose, by the newest ledger.

        Raises:
            LedgerContended: as ``commit``.
            OSError: as ``commit``.
        """
        request = pod_request.request

        def looked(ledger: NodeLedger) -> tuple[NodeLedger, bool]:
            return ledger, is_valid(request, choice, self._view(request.uid, ledger).reserved)

        return bool(await self._writer.change(node, looked))

    async def commit_claim(self, *options: ClaimOption) -> ClaimOption | ClaimRefusal:
        """Allocate devices to a ResourceClaim: the first of some options that is free.

        What the claim had on the node before, by an earlier attempt, it keeps.

        Args:
            options: one or more, all on one node.

        Returns:
            the option that is the claim's now; why it gets none.

        Raises:
            LedgerContended: as ``commit``.
            OSError: as ``commit``.
        """
        attempt = ClaimAttempt(options)
        decided = await self._write(attempt, self._plan(attempt))
        if decided is None:
            return _without_ledger(attempt)
        if isinstance(decided, Reason):
            return ClaimRefusal(QUOTA, decided.text(), attempt.node)
        return decided.answer

    def preview_claim(self, *options: ClaimOption) -> ClaimOption | ClaimRefusal:
        """Return what ``commit_claim`` would return now; nothing is allocated."""
        attempt = ClaimAttempt(options)
        planned = self._plan(attempt)
        if planned is None:
            return _without_ledger(attempt)
        if planned.allocation is None:
            return planned.answer
        wanted = amounts_of(planned.allocation, planned.view.stored.node)
        short = self._quotas.refusal_of(attempt.holder, wanted)
        return planned.answer if short is None else ClaimRefusal(QUOTA, short, attempt.node)

    def _plan(self, attempt: Attempt[AnswerT]) -> Decided[AnswerT] | None:
        """Return what the commit will probably come to, by the cache; None without a ledger."""
        stored = self._ledgers.stored(attempt.node)
        if stored is None:
            return None
        return attempt.decide(self._view(attempt.holder.uid, stored.ledger))

    async def _write(
        self, attempt: Attempt[AnswerT], planned: Decided[AnswerT] | None
    ) -> Decided[AnswerT] | Reason | None:
        """Hold quota, then write; again where the newest ledger needs another hold of quota.

        Returns:
            what was decided on the ledger that was written, or on the newest one where nothing was
            to be written; why the quota refuses it; None where the node has no ledger.

        Raises:
            LedgerContended: as ``commit``.
            OSError: as ``commit``.
        """
        holder, node = attempt.holder, attempt.node
        hold = None if self._quota_holds.limits(holder.namespace) else UNLIMITED

        def revise(
            ledger: NodeLedger,
        ) -> tuple[NodeLedger, Decided[AnswerT] | QuotaHoldNeeded]:
            decided = attempt.decide(self._view(holder.uid, ledger))
            if decided.allocation is not None:
                needed = _needed(decided.allocation, ledger)
                if hold is None or not hold.covers(needed):
                    return ledger, needed
            return decided.after, decided

        needed = None
        if hold is None and planned is not None and planned.allocation is not None:
            needed = _needed(planned.allocation, planned.view.stored)
        for _ in range(HOLDS):
            if needed is not None:
                acquired = await self._quota_holds.acquire(holder, node, needed, hold)
                if isinstance(acquired, Reason):
                    await self._drop(hold)
                    return acquired
                hold = acquired
            try:
                written = await self._writer.change(node, revise)
            except LedgerContended:
                await self._drop(hold)
                raise
            if not isinstance(written, QuotaHoldNeeded):
                if written is None or written.allocation is None:
                    await self._drop(hold)
                return written
            needed = written
        await self._drop(hold)
        raise LedgerContended(
            f"cards or quota changed {HOLDS} times while {holder} was decided: nothing is allocated"
        )

    async def _drop(self, hold: AcquiredHold | None) -> None:
        if hold is not None:
            await self._quota_holds.drop(hold)

    async def hold_late(self, allocation: Allocation, ledger: NodeLedger) -> str | None:
        """Hold of the quota what an allocation counts that the caller is about to write.

        The caller must write it by compare-and-swap, on the record whose fences ``ledger`` has.

        Args:
            allocation: of a bound pod that has no cards yet.
            ledger: of its node.

        Returns:
            why the quota refuses it; None where it does not, or there is none.

        Raises:
            LedgerContended: as ``QuotaHolds.acquire``.
            OSError: as ``QuotaHolds.acquire``.
        """
        holder = allocation.pod_ref
        if not self._quota_holds.limits(holder.namespace):
            return None
        needed = _needed(allocation, ledger)
        acquired = await self._quota_holds.acquire(holder, ledger.node.name, needed)
        return acquired.text() if isinstance(acquired, Reason) else None

    async def fence(
        self, node: str, namespace: str, number: int, expected: Mapping[str, QuotaAmounts]
    ) -> frozenset[str]:
        """Make sure that no commit with a hold up to a number is written any more.

        Args:
            node: whose ledger is fenced.
            namespace: of the holds.
            number: the highest.
            expected: by uid, what a pod has there: nothing, or less than its hold.

        Returns:
            the pods that have just that; of the others nothing is known.

        Raises:
            LedgerContended: as ``commit``.
            OSError: as ``commit``.
        """

        def fenced(ledger: NodeLedger) -> tuple[NodeLedger, frozenset[str]]:
            held = {uid: amounts_of(each, ledger.node) for uid, each in ledger.allocations.items()}
            confirmed = frozenset(
                uid for uid, amounts in expected.items() if held.get(uid, NOTHING) == amounts
            )
            return (ledger.fenced(namespace, number) if confirmed else ledger), confirmed

        found = await self._writer.change(node, fenced)
        if found is not None:
            return found
        return frozenset(uid for uid, amounts in expected.items() if amounts == NOTHING)

    async def release(self, uid: str, node: str, attempt: int | None = None) -> bool:
        """Release what a pod has on a node; what closes a deleted ledger's cards stays.

        Args:
            uid: of the pod.
            node: the node.
            attempt: release only the allocation of this attempt to bind. If a later attempt has
                begun, here or in another replica, it relies on the same cards. None for any.

        Returns:
            whether the store had the allocation.

        Raises:
            LedgerContended: as ``commit``.
            OSError: as ``commit``.
        """
        self._ledgers.unreserve(uid, node)

        def without(ledger: NodeLedger) -> tuple[NodeLedger, bool]:
            found = ledger.allocations.get(uid)
            if found is None or uid == LOST_LEDGER or attempt not in (None, found.attempt):
                return ledger, False
            return ledger.release(uid), True

        return bool(await self._writer.change(node, without))

    async def renew(self, uid: str, node: str) -> tuple[int, int] | None:
        """Keep what a pod has on a node for as long as after a commit.

        Returns:
            ``attempt`` of the allocation before and after; None where the store has it no more.

        Raises:
            LedgerContended: as ``commit``.
            OSError: as ``commit``.
        """

        def renewed(ledger: NodeLedger) -> tuple[NodeLedger, tuple[int, int] | None]:
            found = ledger.allocations.get(uid)
            if found is None:
                return ledger, None
            after = ledger.renew(uid)
            return after, (found.attempt, after.allocations[uid].attempt)

        return await self._writer.change(node, renewed)

    async def keep(self, node: str, changes: Sequence[str | Hold]) -> str:
        """Keep places of a node for pods to come, all of them or none.

        Args:
            node: the node.
            changes: in order: uids of pods that leave, and places, each of which must be free when
                its turn comes. Places that the node keeps already under their uids are replaced.

        Returns:
            why they cannot be kept; empty where they are kept.

        Raises:
            LedgerContended: as ``commit``.
            OSError: as ``commit``.
        """
        holds = [change for change in changes if isinstance(change, Hold)]

        def kept(ledger: NodeLedger) -> tuple[NodeLedger, str]:
            others = ledger.drop_holds(*(hold.id for hold in holds))
            then = self._ledgers.with_reservations(others)
            for change in changes:
                if isinstance(change, str):
                    then = then.release(change)
                    continue
                try:
                    then = then.reserve(replace(change.allocation, state=AllocationState.RESERVED))
                except LedgerError as error:
                    return ledger, str(error)
            return ledger.hold(*holds), ""

        problem = await self._writer.change(node, kept)
        return f"node {node} has no ledger" if problem is None else problem

    async def drop_holds(self, node: str, *ids: str) -> None:
        """Keep some places of a node no longer; what pods have taken of them stays theirs.

        Raises:
            LedgerContended: as ``commit``.
            OSError: as ``commit``.
        """
        await self._writer.change(node, lambda ledger: (ledger.drop_holds(*ids), None))

    def close(self) -> None:
        """Cancel all writes in progress."""
        self._writer.close()
        self._quota_holds.close()

    def _view(self, uid: str, stored: NodeLedger) -> LedgerView:
        return LedgerView(stored, self._ledgers.with_reservations, self._ledgers.reservation(uid))


def _without_ledger(attempt: ClaimAttempt) -> ClaimRefusal:
    return ClaimRefusal(IN_USE, f"{attempt.node} has no ledger", attempt.node)


def _needed(allocation: Allocation, ledger: NodeLedger) -> QuotaHoldNeeded:
    """Return the hold of quota that a new allocation needs."""
    fence = ledger.fence(allocation.pod_ref.namespace)
    return QuotaHoldNeeded(amounts_of(allocation, ledger.node), fence)
