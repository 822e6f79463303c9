"""The commit: the one place that allocates cards to pods."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from adapters.sidecar.decide.card_choice import CommitFacts, Committed, choose_cards
from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.decide.ledger_writer import LedgerWriter
from adapters.sidecar.decide.pod_requests import PodRequest
from adapters.sidecar.decide.ports import Clock
from adapters.sidecar.decide.quota_claims import HeldQuotaClaim, QuotaClaimNeeded, QuotaClaims
from adapters.sidecar.decide.quota_commit import commit_with_quota
from adapters.sidecar.decide.recorder import Recorder
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import NOTHING, QuotaAmounts, held
from core.requests.grant import Allocation, Grant, Placement
from core.requests.pod_ref import PodRef
from core.requests.reason import Cause, Reason

RESERVED_NS = 60_000_000_000
"""Nanoseconds after which a reservation expires whose allocation is still not written."""


class Committer:
    """Allocates cards and releases them."""

    def __init__(
        self,
        ledgers: LedgerCache,
        writer: LedgerWriter,
        clock: Clock,
        quota_claims: QuotaClaims,
        recorder: Recorder,
    ) -> None:
        self._ledgers = ledgers
        self._recorder = recorder
        self._clock = clock
        self._quota_claims = quota_claims
        self._writer = writer

    async def commit(
        self, pod_request: PodRequest, node: str, claimed: Sequence[Grant] = ()
    ) -> Committed | Reason:
        """Allocate cards of a node to a pod. An allocation that it has there already stays.

        Args:
            pod_request: the pod.
            node: where it goes.
            claimed: a choice of cards that is accepted if it is valid.

        Returns:
            the allocation, or why there is none.

        Raises:
            LedgerContended: other replicas wrote first each time, or the ledger cannot be read.
            OSError: the store did not answer; the write may have happened.
        """
        choice = tuple(claimed)
        with self._reserved(pod_request, node, choice):
            return await commit_with_quota(
                self._quota_claims,
                _pod(pod_request),
                node,
                lambda: self._expected(pod_request, node, choice),
                partial(self._allocate, pod_request, node, choice),
                _is_new,
            )

    def _expected(
        self, pod_request: PodRequest, node: str, choice: tuple[Grant, ...]
    ) -> QuotaClaimNeeded | None:
        """What the commit will probably claim; None where it probably needs no claim."""
        stored = self._ledgers.stored(node)
        decided = None if stored is None else self._decide(pod_request, stored.ledger, choice)
        if stored is None or not isinstance(decided, Committed) or not decided.new:
            return None
        if decided.is_untouched:
            return None
        allocation = Allocation.of(pod_request.request, decided.placement)
        fence = stored.ledger.fence(_pod(pod_request).namespace)
        return QuotaClaimNeeded(held(allocation, stored.ledger.node), fence)

    async def _allocate(
        self,
        pod_request: PodRequest,
        node: str,
        choice: tuple[Grant, ...],
        held_claim: HeldQuotaClaim | None,
    ) -> Committed | Reason | QuotaClaimNeeded:
        """Write the allocation, if the claim covers it."""
        uid, namespace = pod_request.request.uid, _pod(pod_request).namespace
        facts: list[CommitFacts] = []

        def allocate(
            ledger: NodeLedger,
        ) -> tuple[NodeLedger, Committed | Reason | QuotaClaimNeeded]:
            facts[:] = [self._facts(pod_request, ledger, choice)]
            decided = choose_cards(pod_request.request, facts[0])
            if isinstance(decided, Reason):
                return ledger, decided
            if decided.is_untouched:
                return ledger, decided
            if decided.new:
                allocation = Allocation.of(pod_request.request, decided.placement)
                needed = QuotaClaimNeeded(held(allocation, ledger.node), ledger.fence(namespace))
                if held_claim is None or not held_claim.covers(needed):
                    return ledger, needed
                changed = ledger.allocate(allocation)
            else:
                # Written too: the store must still have it when the Binding is sent, and a
                # reconciler that is about to release it must lose the race.
                changed = ledger.renew(uid)
            return changed, replace(decided, since=changed.allocations[uid].since)

        found = await self._writer.change(node, allocate)
        if facts and isinstance(found, Committed | Reason):
            self._recorder.committed(pod_request, facts[0], found)
        if found is not None:
            return found
        if pod_request.request.plugin is not None:
            return Committed(Placement(node, ()), new=False)
        return Reason(node, 0, cause=Cause.NO_CARDS)

    async def claim_late(self, allocation: Allocation, ledger: NodeLedger) -> str | None:
        """Claim of the quota what an allocation counts that the caller is about to write.

        The caller must write it by compare-and-swap, on the record whose fences ``ledger`` has.

        Args:
            allocation: of a bound pod that has no cards yet.
            ledger: of its node.

        Returns:
            why the quota refuses it; None where it does not, or there is none.

        Raises:
            LedgerContended: as ``QuotaClaims.claim``.
            OSError: as ``QuotaClaims.claim``.
        """
        holder = allocation.pod_ref
        if not self._quota_claims.limits(holder.namespace):
            return None
        needed = QuotaClaimNeeded(held(allocation, ledger.node), ledger.fence(holder.namespace))
        claimed = await self._quota_claims.claim(holder, ledger.node.name, needed)
        return claimed.text() if isinstance(claimed, Reason) else None

    async def fence(
        self, node: str, namespace: str, number: int, expected: Mapping[str, QuotaAmounts]
    ) -> frozenset[str]:
        """Make sure that no commit with a claim up to a number is written any more.

        Args:
            node: whose ledger is fenced.
            namespace: of the claims.
            number: the highest.
            expected: by uid, what a pod has there: nothing, or less than its claim.

        Returns:
            the pods that have just that; of the others nothing is known.

        Raises:
            LedgerContended: as ``commit``.
            OSError: as ``commit``.
        """

        def fenced(ledger: NodeLedger) -> tuple[NodeLedger, frozenset[str]]:
            confirmed = frozenset(
                uid for uid, amounts in expected.items() if _held(ledger, uid) == amounts
            )
            return (ledger.fenced(namespace, number) if confirmed else ledger), confirmed

        found = await self._writer.change(node, fenced)
        if found is not None:
            return found
        return frozenset(uid for uid, amounts in expected.items() if amounts == NOTHING)

    async def release(self, uid: str, node: str, since: int | None = None) -> bool:
        """Release what a pod has on a node.

        Args:
            uid: of the pod.
            node: the node.
            since: release only the allocation of this attempt to bind. If a later attempt has
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
            if found is None or since not in (None, found.since):
                return ledger, False
            return ledger.release(uid), True

        return bool(await self._writer.change(node, without))

    def close(self) -> None:
        """Cancel all writes in progress."""
        self._writer.close()

    @contextmanager
    def _reserved(
        self, pod_request: PodRequest, node: str, claimed: tuple[Grant, ...]
    ) -> Iterator[None]:
        """Reserve a pod's cards from now on, not only from when the allocation is written.

        After the write the store has the allocation, or the node was rejected: the pod needs no
        reservation any more. After an error, reservations that were there before stay.
        """
        uid = pod_request.request.uid
        is_new = self._reserve(pod_request, node, claimed)
        try:
            yield
        except BaseException:
            if is_new:
                self._ledgers.unreserve(uid, node)
            raise
        self._ledgers.unreserve(uid)

    def _reserve(self, pod_request: PodRequest, node: str, claimed: tuple[Grant, ...]) -> bool:
        """Reserve what ``commit`` will probably allocate.

        Returns:
            whether a reservation was made that was not there before.
        """
        stored, uid = self._ledgers.stored(node), pod_request.request.uid
        if stored is None or uid in stored.ledger.allocations:
            return False
        facts = self._facts(pod_request, stored.ledger, claimed)
        decided = choose_cards(pod_request.request, facts)
        self._recorder.reserved(pod_request, facts, decided)
        if isinstance(decided, Reason):
            return False
        reserved = self._ledgers.reservation(uid)
        if reserved is not None and (reserved.node, reserved.grants) == (
            node,
            decided.placement.grants,
        ):
            return False
        allocation = Allocation.of(pod_request.request, decided.placement)
        self._ledgers.reserve(allocation, self._clock.now() + RESERVED_NS)
        return True

    def _decide(
        self, pod_request: PodRequest, stored: NodeLedger, claimed: tuple[Grant, ...]
    ) -> Committed | Reason:
        return choose_cards(pod_request.request, self._facts(pod_request, stored, claimed))

    def _facts(
        self, pod_request: PodRequest, stored: NodeLedger, claimed: tuple[Grant, ...]
    ) -> CommitFacts:
        own = self._ledgers.reservation(pod_request.request.uid)
        return CommitFacts(stored, self._ledgers.with_reservations(stored), own, claimed)


def _is_new(found: Committed | Reason) -> bool:
    return isinstance(found, Committed) and found.new and not found.is_untouched


def _pod(pod_request: PodRequest) -> PodRef:
    return PodRef.parse(pod_request.request.pod, pod_request.request.uid)


def _held(ledger: NodeLedger, uid: str) -> QuotaAmounts:
    allocation = ledger.allocations.get(uid)
    return NOTHING if allocation is None else held(allocation, ledger.node)
