"""Places for a pod on one node, each with the pods that must leave it first: the cheapest first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, count, product
from math import prod

from core.feasibility.fit import TRIES, placements
from core.hardware.card import Card
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardShare, CardUsage, first_conflict, shares_of
from core.moves.situation import Amounts, PlannedPod, shortage
from core.requests.grant import Allocation, Placement

MOST = 12
"""Movable pods of one card, or of one node that lacks another resource, of which all sets are
compared. Of more, the sets of up to ``FEW`` are, and one that the lightest pods are in."""

FEW = 3

COMBINATIONS = 4096
"""Combinations of the sets of several cards that are compared for one placement."""

Leaving = frozenset[str]
"""Uids of pods that leave."""


def every_choice(found: Sequence[Placement]) -> bool:
    """Return whether ``placements`` gave all choices: of many containers it counts some twice."""
    return 2 * len(found) < TRIES


@dataclass(frozen=True, slots=True)
class Hole:
    """A place for a pod.

    Attributes:
        cost: the weights of the pods that leave.
        leaving: their uids; none of them could stay.
        placement: what the pod gets.
    """

    cost: int
    leaving: Leaving
    placement: Placement


class Holes:
    """The holes of one node for one pod.

    Attributes:
        complete: whether all sets of pods that may leave were compared so far.
    """

    def __init__(
        self,
        pod: PlannedPod,
        ledger: NodeLedger,
        movable: Mapping[str, PlannedPod],
        room: Amounts,
    ) -> None:
        """Know no hole yet.

        Args:
            pod: holds nothing on the node.
            ledger: of the node.
            movable: by uid, the pods with allocations there that may leave.
            room: what is free of the node's other resources.
        """
        self.complete = True
        self._pod = pod
        self._ledger = ledger
        self._movable = movable
        self._room = room
        self._of_card: dict[tuple[str, CardShare], list[Leaving]] = {}

    def __iter__(self) -> Iterator[Hole]:
        """Yield all holes, the cheapest first."""
        others = self._others()
        if not others:
            return
        heap: list[tuple[int, int, int, Placement, Sequence[Sequence[Leaving]] | Leaving]] = []
        number = count()
        # What the pod could get if all movable pods left.
        allocations = self._ledger.allocations.items()
        staying = [one for uid, one in allocations if uid not in self._movable]
        found = [
            *placements(self._pod.request, NodeLedger.restored(self._ledger.node, staying)),
        ]
        self.complete &= every_choice(found)
        for placement in found:
            groups = [*filter(None, self._groups(placement)), others]
            least = max(min(map(self._cost, group)) for group in groups)
            heappush(heap, (least, 0, next(number), placement, groups))
        while heap:
            cost, _, _, placement, sets = heappop(heap)
            if isinstance(sets, frozenset):
                yield Hole(cost, sets, placement)
                continue
            unions = {Leaving().union(*some) for some in product(*self._few(sets))}
            for leaving in sorted(unions, key=sorted):
                order = (self._cost(leaving), len(leaving), next(number))
                heappush(heap, (*order, placement, leaving))

    def _cost(self, leaving: Leaving) -> int:
        return sum(self._movable[uid].weight for uid in leaving)

    def _groups(self, placement: Placement) -> Iterator[list[Leaving]]:
        """Yield for each card of a placement the smallest sets of pods that leave room."""
        shares = shares_of(Allocation.of(self._pod.request, placement))
        for card, use in zip(self._ledger.node.cards, self._ledger.usages, strict=True):
            share = shares.get(card.uuid)
            if share is not None and use.shares:
                key = card.uuid, share
                if key not in self._of_card:
                    self._of_card[key] = self._from_card(card, use, share)
                yield self._of_card[key]

    def _from_card(self, card: Card, use: CardUsage, share: CardShare) -> list[Leaving]:
        def suffices(leaving: Leaving) -> bool:
            left = use
            for uid in leaving:
                left = left.minus(uid)
            return first_conflict(card, left, share) is None

        sharers = [each.uid for each in use.shares if each.uid in self._movable]
        return self._smallest(sharers, suffices)

    def _others(self) -> list[Leaving]:
        """Return sets of pods without which the node has enough of its other resources."""
        missing = shortage(self._pod.needs, self._room)

        def suffices(leaving: Leaving) -> bool:
            return all(
                sum(self._movable[uid].needs.get(name, 0) for uid in leaving) >= amount
                for name, amount in missing.items()
            )

        helpful = [
            uid
            for uid in self._ledger.allocations
            if uid in self._movable and any(self._movable[uid].needs.get(n, 0) for n in missing)
        ]
        return self._smallest(helpful, suffices)

    def _smallest(self, uids: Sequence[str], suffices: Callable[[Leaving], bool]) -> list[Leaving]:
        """Return the sets of pods that suffice, and contain no other one that does."""
        few = len(uids) <= MOST
        found: list[Leaving] = []
        for size in range((len(uids) if few else FEW) + 1):
            for some in map(frozenset, combinations(uids, size)):
                if not any(map(some.issuperset, found)) and suffices(some):
                    found.append(some)
            if found and not found[0]:
                return found
        if few:
            return found
        self.complete = False
        leaving = Leaving(uids)
        if not suffices(leaving):
            return found
        # Another set, none of which could stay: the heaviest stay first.
        for uid in sorted(uids, key=lambda uid: (-self._movable[uid].weight, uid)):
            if suffices(leaving - {uid}):
                leaving -= {uid}
        return [*found, leaving]

    def _few(self, groups: Sequence[Sequence[Leaving]]) -> Sequence[Sequence[Leaving]]:
        """Return the groups, without the costliest sets where there are too many combinations."""
        few = [sorted(group, key=self._cost) for group in groups]
        while prod(map(len, few)) > COMBINATIONS:
            self.complete = False
            max(few, key=len).pop()
        return few
