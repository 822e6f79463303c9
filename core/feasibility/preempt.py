"""Which allocations a request of higher priority evicts from a node: as few as possible."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

from core.feasibility.fit import fit
from core.feasibility.suitability import unsuitable
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.reason import Reason
from core.requests.request import Request

EXACT = 12
"""Up to this many units that may go or stay, all their sets are compared."""


@dataclass(frozen=True, slots=True)
class EvictedTogether:
    """Pods of a group that are evicted all or not at all.

    Attributes:
        uids: those that have an allocation on the node.
        pods: how many pods of the group are bound, on all nodes; at least one for each uid.
    """

    uids: frozenset[str]
    pods: int
    priority: int


def victims(
    request: Request,
    ledger: NodeLedger,
    candidates: Collection[str] | None = None,
    protected: Collection[str] = (),
    groups: Sequence[EvictedTogether] = (),
    fits: Callable[[NodeLedger], object] | None = None,
) -> tuple[Allocation, ...] | Reason:
    """Return the allocations without which the request fits on the node.

    None where it fits already.

    Only allocations of strictly lower priority are victims. A unit of eviction is one allocation,
    or all of a group. Of all sets that make room, the one with the fewest protected units; then
    with the lowest priority of its highest; then the fewest pods; then the one with units of lower
    priority, and of these the smaller, then the younger ones. The answer is in that order.

    Beyond ``EXACT`` units that may go or stay it is the set that is left when each, in turn,
    stays if the request still fits: protected ones first, then those of higher priority, then the
    larger, then the older ones. kube-scheduler reprieves victims in this order. None of that set
    can stay, but a smaller set may exist.

    Args:
        request: what is to fit.
        ledger: the node and its allocations.
        candidates: uids of the pods that may be evicted; None for all.
        protected: uids of pods that are evicted only where nothing else helps (a disruption
            budget).
        groups: pods that are evicted together; where one of them may not be evicted, none is.
        fits: returns a ``Reason`` where a ledger has no room; by default ``fit`` of the request,
            else of the request only the priority counts.

    Returns:
        The victims, or why the request does not fit even without all candidates.
    """
    has = partial(fit, request) if fits is None else fits
    if not isinstance(has(ledger), Reason):
        return ()
    # Units that may go and hold a card that suits: lower priority first, then younger.
    suitable = {
        card.uuid for card in ledger.node.cards if fits or unsuitable(request, card) is None
    }
    group_of = {uid: group for group in groups for uid in group.uids}
    youngest_first = [*ledger.allocations.values()][::-1]
    units: list[_Unit] = []
    known: set[str] = set()
    for first in youngest_first:
        if first.uid in known:
            continue
        group = group_of.get(first.uid)
        members: tuple[Allocation, ...] = (first,)
        priority, pods = first.priority, 1
        if group is not None:
            members = tuple(one for one in youngest_first if one.uid in group.uids)
            priority = max(group.priority, *(one.priority for one in members))
            pods = group.pods
        known |= {one.uid for one in members}
        unit = _Unit(members, priority, pods, any(one.uid in protected for one in members))
        may_go = candidates is None or all(one.uid in candidates for one in members)
        cards = {uuid for one in members for uuid in one.blocked}
        cards |= {grant.card for one in members for grant in one.grants}
        if may_go and unit.priority < request.priority and not suitable.isdisjoint(cards):
            units.append(unit)
    search = _Search(has, ledger, sorted(units, key=lambda unit: (unit.priority, unit.pods)))
    answer = has(search.without(search.pool))
    return answer if isinstance(answer, Reason) else search.run()


@dataclass(frozen=True, slots=True)
class _Unit:
    """Allocations that go together.

    Attributes:
        allocations: one or more, the younger ones first.
        pods: that are evicted with it, on all nodes.
        protected: whether one of them is.
    """

    allocations: tuple[Allocation, ...]
    priority: int
    pods: int
    protected: bool


class _Search:
    """The search for the victims; the request fits once the whole pool is evicted."""

    def __init__(
        self, has: Callable[[NodeLedger], object], ledger: NodeLedger, pool: Sequence[_Unit]
    ) -> None:
        self.has = has
        self.ledger = ledger
        self.pool = tuple(pool)

    def run(self) -> tuple[Allocation, ...]:
        """Return the victims, in the order of the pool."""
        # Every set of victims has these: without one, all others do not suffice.
        needed = [one for one in self.pool if not self._fits([o for o in self.pool if o != one])]
        optional = [one for one in self.pool if one not in needed]
        if len(optional) <= EXACT:
            evicted = self._least(needed, optional)
        else:
            evicted = self.pool
            last_first = self.pool[::-1]
            for one in sorted(last_first, key=lambda one: (not one.protected, -one.priority)):
                rest = tuple(other for other in evicted if other != one)
                if self._fits(rest):
                    evicted = rest
        return tuple(
            allocation for one in self.pool if one in evicted for allocation in one.allocations
        )

    def without(self, evicted: Collection[_Unit]) -> NodeLedger:
        """Return the ledger after some are evicted."""
        return self.ledger.release(*(one.uid for unit in evicted for one in unit.allocations))

    def _fits(self, evicted: Collection[_Unit]) -> bool:
        return not isinstance(self.has(self.without(evicted)), Reason)

    def _least(self, needed: Sequence[_Unit], optional: Sequence[_Unit]) -> Sequence[_Unit]:
        """Return the needed ones, and the least of the optional ones that make the request fit."""
        floor = [one.priority for one in needed]
        highest_ones = sorted({max([*floor, one.priority]) for one in optional})
        for count in range(len(optional) + 1):
            for highest in highest_ones:
                low = [one for one in optional if one.priority <= highest]
                unprotected = [one for one in low if not one.protected]
                helpful = [
                    some
                    for some in combinations([one for one in low if one.protected], count)
                    if self._fits([*needed, *unprotected, *some])
                ]
                if helpful:
                    return [*needed, *self._smallest(needed, helpful, unprotected)]
        return needed

    def _smallest(
        self,
        needed: Sequence[_Unit],
        helpful: Sequence[tuple[_Unit, ...]],
        unprotected: Sequence[_Unit],
    ) -> list[_Unit]:
        """Return one of the protected sets with as few pods in unprotected ones as make room.

        Of sets of as many pods, the one whose units are earliest in the pool.
        """
        position_of = {one.allocations[0].uid: at for at, one in enumerate(self.pool)}
        sums = {0}
        for unit in unprotected:
            sums |= {size + unit.pods for size in sums}
        sizes = sorted({_pods(some) + more for some in helpful for more in sums})
        by_size = (
            sorted(
                (
                    (*some, *more)
                    for some in helpful
                    for more in _sets(unprotected, size - _pods(some))
                ),
                key=lambda victims: sorted(position_of[one.allocations[0].uid] for one in victims),
            )
            for size in sizes
        )
        return next(
            [*victims] for sets in by_size for victims in sets if self._fits([*needed, *victims])
        )


def _pods(units: Sequence[_Unit]) -> int:
    return sum(unit.pods for unit in units)


def _sets(units: Sequence[_Unit], pods: int) -> Iterator[tuple[_Unit, ...]]:
    """Return the sets of some units that have a number of pods."""
    if pods == 0:
        yield ()
    for place, unit in enumerate(units):
        if unit.pods <= pods:
            yield from ((unit, *more) for more in _sets(units[place + 1 :], pods - unit.pods))
