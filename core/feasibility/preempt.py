"""Which allocations a request of higher priority evicts from a node: as few as possible."""

from collections.abc import Collection, Sequence
from itertools import combinations

from core.feasibility.fit import fit
from core.feasibility.suitability import unsuitable
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.reason import Reason
from core.requests.request import Request

EXACT = 12
"""Up to this many allocations that may go or stay, all their sets are compared."""


def victims(
    request: Request,
    ledger: NodeLedger,
    candidates: Collection[str] | None = None,
    protected: Collection[str] = (),
) -> tuple[Allocation, ...] | Reason:
    """The allocations without which the request fits on the node; none where it fits already.

    Only allocations of strictly lower priority are victims. Of all sets that make room, the one
    with the fewest protected allocations; then with the lowest priority of its highest; then the
    smallest; then the one with allocations of lower priority, and of these the younger ones. The
    answer is in that order.

    Beyond ``EXACT`` allocations that may go or stay it is the set that is left when each, in turn,
    stays if the request still fits: protected ones first, then those of higher priority, then the
    older ones. kube-scheduler reprieves victims in this order. None of that set can stay, but a
    smaller set may exist.

    Args:
        request: what is to fit.
        ledger: the node and its allocations.
        candidates: uids of the pods that may be evicted; None for all.
        protected: uids of pods that are evicted only where nothing else helps (a disruption
            budget).

    Returns:
        The victims, or why the request does not fit even without all candidates.
    """
    if isinstance(fit(request, ledger), Placement):
        return ()
    search = _Search(
        request, ledger, _expendable(request, ledger, candidates), frozenset(protected)
    )
    answer = fit(request, search.without(search.pool))
    return answer if isinstance(answer, Reason) else search.run()


def _expendable(
    request: Request, ledger: NodeLedger, candidates: Collection[str] | None
) -> list[Allocation]:
    """Allocations that may go and hold a card that suits: lower priority first, then younger."""
    suitable = {card.uuid for card in ledger.node.cards if unsuitable(request, card) is None}
    youngest_first = [*ledger.allocations.values()][::-1]
    expendable = [
        allocation
        for allocation in youngest_first
        if allocation.priority < request.priority
        and (candidates is None or allocation.uid in candidates)
        and not suitable.isdisjoint((*allocation.blocked, *(g.card for g in allocation.grants)))
    ]
    return sorted(expendable, key=lambda allocation: allocation.priority)


class _Search:
    """The search for the victims; the request fits once the whole pool is evicted."""

    def __init__(
        self,
        request: Request,
        ledger: NodeLedger,
        pool: Sequence[Allocation],
        protected: frozenset[str],
    ) -> None:
        self.request = request
        self.ledger = ledger
        self.pool = tuple(pool)
        self.protected = protected

    def run(self) -> tuple[Allocation, ...]:
        """The victims, in the order of the pool."""
        needed = self._needed()
        optional = [one for one in self.pool if one not in needed]
        evicted = self._reprieve() if len(optional) > EXACT else self._least(needed, optional)
        return tuple(one for one in self.pool if one in evicted)

    def without(self, evicted: Collection[Allocation]) -> NodeLedger:
        """The ledger after some are evicted."""
        ledger = self.ledger
        for allocation in evicted:
            ledger = ledger.release(allocation.uid)
        return ledger

    def _fits(self, evicted: Collection[Allocation]) -> bool:
        return isinstance(fit(self.request, self.without(evicted)), Placement)

    def _needed(self) -> list[Allocation]:
        """Allocations that every set of victims has: without one, all others do not suffice."""
        return [one for one in self.pool if not self._fits([o for o in self.pool if o != one])]

    def _least(
        self, needed: Sequence[Allocation], optional: Sequence[Allocation]
    ) -> Sequence[Allocation]:
        """The needed ones, and the least of the optional ones that make the request fit."""
        for count in range(len(optional) + 1):
            for highest in _highest_priorities(needed, optional):
                low = [one for one in optional if one.priority <= highest]
                unprotected = [one for one in low if one.uid not in self.protected]
                helpful = self._protected_sets(needed, low, unprotected, count)
                if helpful:
                    return [*needed, *self._smallest(needed, helpful, unprotected)]
        return needed

    def _protected_sets(
        self,
        needed: Sequence[Allocation],
        low: Sequence[Allocation],
        unprotected: Sequence[Allocation],
        count: int,
    ) -> list[tuple[Allocation, ...]]:
        """Sets of ``count`` protected allocations that, with all unprotected ones, make room."""
        protected = [one for one in low if one.uid in self.protected]
        return [
            some
            for some in combinations(protected, count)
            if self._fits([*needed, *unprotected, *some])
        ]

    def _smallest(
        self,
        needed: Sequence[Allocation],
        helpful: Sequence[tuple[Allocation, ...]],
        unprotected: Sequence[Allocation],
    ) -> list[Allocation]:
        """One of the protected sets with as few unprotected ones as make room.

        Of sets of one size, the one whose allocations are earliest in the pool.
        """
        position_of = {one.uid: position for position, one in enumerate(self.pool)}
        by_size = (
            sorted(
                ((*some, *more) for some in helpful for more in combinations(unprotected, count)),
                key=lambda victims: sorted(position_of[one.uid] for one in victims),
            )
            for count in range(len(unprotected) + 1)
        )
        return next(
            [*victims] for sets in by_size for victims in sets if self._fits([*needed, *victims])
        )

    def _reprieve(self) -> Sequence[Allocation]:
        evicted = list(self.pool)
        oldest_first = self.pool[::-1]
        for one in sorted(
            oldest_first, key=lambda one: (one.uid not in self.protected, -one.priority)
        ):
            rest = [other for other in evicted if other != one]
            if self._fits(rest):
                evicted = rest
        return evicted


def _highest_priorities(needed: Sequence[Allocation], optional: Sequence[Allocation]) -> list[int]:
    """The highest priority that a set of victims can have, ascending."""
    floor = [one.priority for one in needed]
    return sorted({max([*floor, one.priority]) for one in optional})
