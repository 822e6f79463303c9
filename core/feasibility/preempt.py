"""Whom a request of higher priority puts off a node: as few as possible, and the least of them."""

from collections.abc import Collection, Sequence
from itertools import combinations

from core.feasibility.fit import fit, unsuitable
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

    Only allocations of strictly lower priority go. Of all sets that would do, the one with the
    fewest protected allocations; then with the lowest priority of its highest; then the smallest;
    then the one with allocations of lower priority, and of these the younger ones. The answer is
    in that order.

    Beyond ``EXACT`` allocations that may go or stay it is the set that is left when each, in turn,
    stays if the request still fits: protected ones first, then those of higher priority, then the
    older ones. So kube-scheduler reprieves them. None of that set can stay, but a smaller set may
    exist.

    Args:
        request: what is to fit.
        ledger: the node and what is held of it.
        candidates: uids of the pods that may go; None for all.
        protected: uids of pods that go only where nothing else helps (a disruption budget).

    Returns:
        The victims, or why the request does not fit even without all that may go.
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
    """Those that may go and hold a card that would do: lower priority first, then younger."""
    useful = {card.uuid for card in ledger.node.cards if unsuitable(request, card) is None}
    youngest_first = [*ledger.allocations.values()][::-1]
    found = [
        allocation
        for allocation in youngest_first
        if allocation.priority < request.priority
        and (candidates is None or allocation.uid in candidates)
        and not useful.isdisjoint((*allocation.blocked, *(g.card for g in allocation.grants)))
    ]
    return sorted(found, key=lambda allocation: allocation.priority)


class _Search:
    """The search for the victims; the request fits once the whole pool has gone."""

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
        needed = [one for one in self.pool if not self._fits([o for o in self.pool if o != one])]
        optional = [one for one in self.pool if one not in needed]
        gone = self._reprieve() if len(optional) > EXACT else self._least(needed, optional)
        return tuple(one for one in self.pool if one in gone)

    def without(self, gone: Collection[Allocation]) -> NodeLedger:
        """The ledger after some have gone."""
        ledger = self.ledger
        for allocation in gone:
            ledger = ledger.release(allocation.uid)
        return ledger

    def _fits(self, gone: Collection[Allocation]) -> bool:
        return isinstance(fit(self.request, self.without(gone)), Placement)

    def _least(
        self, needed: Sequence[Allocation], optional: Sequence[Allocation]
    ) -> Collection[Allocation]:
        """The needed ones, and the least of the others that make the request fit."""
        if not optional:
            return needed
        floor = [one.priority for one in needed]
        bounds = sorted({max([*floor, one.priority]) for one in optional})
        ways = (
            (guarded, plain)
            for count in range(len(optional) + 1)
            for bound in bounds
            for guarded, plain in [self._ways(needed, optional, count, bound)]
            if guarded
        )
        return [*needed, *self._fewest(needed, *next(ways))]

    def _ways(
        self, needed: Sequence[Allocation], optional: Sequence[Allocation], count: int, bound: int
    ) -> tuple[list[tuple[Allocation, ...]], list[Allocation]]:
        """Protected ones, so many at a time, that help, and the others; up to a priority."""
        low = [one for one in optional if one.priority <= bound]
        plain = [one for one in low if one.uid not in self.protected]
        guarded = combinations([one for one in low if one.uid in self.protected], count)
        return [some for some in guarded if self._fits([*needed, *plain, *some])], plain

    def _fewest(
        self,
        needed: Sequence[Allocation],
        guarded: Sequence[tuple[Allocation, ...]],
        plain: Sequence[Allocation],
    ) -> Collection[Allocation]:
        """Protected ones that help, with as few others as will do; earlier of the pool first."""
        places = {one.uid: place for place, one in enumerate(self.pool)}
        return next(
            gone
            for count in range(len(plain) + 1)
            for gone in sorted(
                ((*some, *more) for some in guarded for more in combinations(plain, count)),
                key=lambda gone: sorted(places[one.uid] for one in gone),
            )
            if self._fits([*needed, *gone])
        )

    def _reprieve(self) -> Collection[Allocation]:
        gone = list(self.pool)
        oldest_first = self.pool[::-1]
        for one in sorted(
            oldest_first, key=lambda one: (one.uid not in self.protected, -one.priority)
        ):
            rest = [other for other in gone if other != one]
            if self._fits(rest):
                gone = rest
        return gone
