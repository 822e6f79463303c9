"""Partial plans, and the places for a pod in one, each with the pods that must leave it first."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import combinations, count, product
from math import prod

from core.feasibility.cache import FeasibilityCache, request_signature
from core.feasibility.fit import every_choice, fit, placements
from core.feasibility.inventory import NodeNames
from core.hardware.card import Card, Mode
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.ledger.usage import CardShare, CardUsage, first_conflict, shares_of
from core.moves.situation import NONE, Amounts, PlannedPod, Situation, minus, plus, shortage
from core.requests.grant import Allocation, Placement
from core.requests.request import Weights

MOST = 12
"""Movable pods of one card, or of one node that lacks another resource, of which all sets are
compared. Of more, the sets of up to ``FEW`` are, and one that the lightest pods are in."""

FEW = 3

COMBINATIONS = 4096
"""Combinations of the sets of several cards that are compared for one placement."""

Leaving = frozenset[str]
"""Uids of pods that leave."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A place for a pod.

    Attributes:
        cost: the weights of the pods that leave.
        leaving: their uids; none of them could stay.
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
        self, pod: PlannedPod, ledger: NodeLedger, movable: Mapping[str, PlannedPod], room: Amounts
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
        movable, missing = self._movable, shortage(self._pod.needs, self._room)

        def has_enough(leaving: Leaving) -> bool:
            """Return whether the node has enough of its other resources without some pods."""
            return all(
                sum(movable[uid].needs.get(name, 0) for uid in leaving) >= amount
                for name, amount in missing.items()
            )

        helpful = [
            uid
            for uid in self._ledger.allocations
            if uid in movable and any(movable[uid].needs.get(name, 0) for name in missing)
        ]
        others = self._smallest(helpful, has_enough)
        if not others:
            return
        heap: list[tuple[int, int, int, Placement, Sequence[Sequence[Leaving]] | Leaving]] = []
        number = count()
        # What the pod could get if all movable pods left.
        staying = [one for uid, one in self._ledger.allocations.items() if uid not in movable]
        found = [*placements(self._pod.request, NodeLedger.restored(self._ledger.node, staying))]
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
            few = [sorted(group, key=self._cost) for group in sets]
            while prod(map(len, few)) > COMBINATIONS:
                self.complete = False
                max(few, key=len).pop()
            unions = {Leaving().union(*some) for some in product(*few)}
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


@dataclass(frozen=True, slots=True)
class State:
    """A partial plan.

    Attributes:
        waiting: pods without a place, by uid.
        cost: the weights of all pods that left their places.
        left: the uids of these.
        closed: nodes on which no pod gets a place.
        placed: pods with a new place, the last one first.
        ledgers: of the nodes that differ from the situation.
        room: of the same nodes.
        filled: those on which a pod that was placed took the last compute of a card.
    """

    waiting: Mapping[str, PlannedPod]
    cost: int = 0
    left: Leaving = frozenset()
    closed: frozenset[str] = frozenset()
    placed: tuple[tuple[PlannedPod, Placement], ...] = ()
    ledgers: Mapping[str, NodeLedger] = field(default_factory=dict[str, NodeLedger])
    room: Mapping[str, Amounts] = field(default_factory=dict[str, Amounts])
    filled: frozenset[str] = frozenset()

    def identity(self) -> Hashable:
        """Return what is equal for states that differ in the order of their places alone."""
        got = frozenset((pod.request.uid, placement) for pod, placement in self.placed)
        return got, frozenset(self.waiting), self.closed


class Places:
    """Where pods find room; pods that ask alike are compared once.

    The inventory of the situation changes with ``apply`` only.

    Attributes:
        situation: before any move.
        source_of: by uid of a movable pod, the node that it is on.
        complete: whether all places were compared so far.
    """

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.complete = True
        inventory = situation.inventory
        self.source_of = {uid: inventory.nodes_of(uid)[0] for uid in situation.movable}
        self._feasibility = FeasibilityCache()
        self._names: dict[frozenset[str], NodeNames] = {}
        self._keys: dict[str, tuple[int, int]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._free: dict[int, tuple[str, ...]] = {}
        self._least: dict[tuple[int, str], tuple[NodeLedger, Amounts, int | None]] = {}
        self._loads = inventory.loads(Weights())
        self._targets: frozenset[str] = frozenset()

    def is_free(self, pod: PlannedPod, state: State) -> bool:
        """Return whether a pod has a free place anywhere."""
        return next(self.free_nodes(pod, state), None) is not None

    def number(self, pod: PlannedPod) -> int:
        """Return on how many nodes a pod has free cards before any move."""
        return len(self._free_before(pod))

    def free_nodes(self, pod: PlannedPod, state: State) -> Iterator[str]:
        """Yield the nodes with a free place: unchanged ones first, of these the fullest first."""
        room = self.situation.room
        for node in self._free_before(pod):
            if (
                node not in state.ledgers
                and node not in state.closed
                and not shortage(pod.needs, room.get(node, NONE))
            ):
                yield node
        for node, ledger in state.ledgers.items():
            if (
                node in pod.nodes
                and node not in state.closed
                and not shortage(pod.needs, state.room[node])
                and isinstance(fit(pod.request, ledger), Placement)
            ):
                yield node

    def tightest(self, pod: PlannedPod, state: State, node: str) -> list[Placement]:
        """Return what a pod can get on a node with room, the cards with the least left first."""
        ledger = self.ledger(state, node)
        free = {
            card.uuid: card.memory - use.memory
            for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
        }
        found = [*placements(pod.request, ledger)]
        self.complete &= every_choice(found)
        found = [placement for placement in found if not self._is_own(pod, placement)]
        found.sort(key=lambda placement: sum(free[grant.card] for grant in placement.grants))
        return found

    def least(self, pod: PlannedPod, state: State, node: str) -> int | None:
        """Return the cost of the cheapest hole of a node; None where there is none."""
        ledger, room = self.ledger(state, node), self.room(state, node)
        key = self._key(pod)[1], node
        known = self._least.get(key)
        if known is not None and known[0] is ledger and known[1] is room:
            return known[2]
        first = next(self.holes(pod, state, node), None)
        least = None if first is None else first.cost
        if node not in state.ledgers:
            self._least[key] = ledger, room, least
        return least

    def holes(self, pod: PlannedPod, state: State, node: str) -> Iterator[Hole]:
        """Yield the holes of a node, the cheapest first."""
        ledger, movable = self.ledger(state, node), self.situation.movable
        may_leave = {
            uid: movable[uid]
            for uid in ledger.allocations
            if uid in movable and uid not in state.left
        }
        holes = Holes(pod, ledger, may_leave, self.room(state, node))
        for hole in holes:
            self.complete &= holes.complete
            if not self._is_own(pod, hole.placement):
                yield hole

    def beside(self, state: State) -> list[str]:
        """Return the uids of pods that may leave the nodes of new places, the lightest first."""
        nodes = {placement.node for _, placement in state.placed}
        movable = self.situation.movable
        found = [
            uid
            for node in nodes
            for uid in self.ledger(state, node).allocations
            if uid in movable and uid not in state.left
        ]
        return sorted(found, key=lambda uid: (movable[uid].weight, uid))

    def without(self, state: State, uid: str) -> State:
        """Return the state after one more pod left its place."""
        pod, node = self.situation.movable[uid], self.source_of[uid]
        return replace(
            state,
            waiting={**state.waiting, uid: pod},
            cost=state.cost + pod.weight,
            left=state.left | {uid},
            ledgers={**state.ledgers, node: self.ledger(state, node).release(uid)},
            room={**state.room, node: plus(self.room(state, node), pod.needs)},
        )

    def place(self, state: State, pod: PlannedPod, hole: Hole) -> State:
        """Return the state after a pod that waits got a hole."""
        node, movable = hole.placement.node, self.situation.movable
        ledger, room = self.ledger(state, node), self.room(state, node)
        waiting = dict(state.waiting)
        del waiting[pod.request.uid]
        for uid in sorted(hole.leaving):
            ledger, room = ledger.release(uid), plus(room, movable[uid].needs)
            waiting[uid] = movable[uid]
        ledger = ledger.reserve(Allocation.of(pod.request, hole.placement))
        taken = {grant.card for grant in hole.placement.grants if grant.compute}
        is_filled = any(
            card.uuid in taken
            and card.mode is not Mode.MIG
            and 0 < card.compute <= use.compute
            and not use.shares[-1].exclusive
            for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
        )
        return State(
            waiting,
            state.cost + hole.cost,
            state.left | hole.leaving,
            state.closed,
            ((pod, hole.placement), *state.placed),
            {**state.ledgers, node: ledger},
            {**state.room, node: minus(room, pod.needs)},
            state.filled | {node} if is_filled else state.filled,
        )

    def lasts(self, state: State) -> bool:
        """Return whether the pods that waited, of earlier plans too, fit after all moves.

        They come last. A share without compute has no room on a card whose compute is all taken,
        though others may take the rest of it beside such a share.
        """
        placed = (pod.request.uid for pod, _ in state.placed)
        targets = self._targets.union(uid for uid in placed if uid not in state.left)
        for ledger in state.ledgers.values():
            last = [held for uid, held in ledger.allocations.items() if uid in targets]
            ledger = ledger.release(*(held.uid for held in last))
            last.sort(key=lambda held: all(grant.compute for grant in held.grants))
            try:
                for held in last:
                    ledger = ledger.reserve(held)
            except LedgerError:
                return False
        return True

    def emptied(self, nodes: frozenset[str]) -> State:
        """Return the state in which all movable pods have left some nodes, and none may come."""
        movable, inventory = self.situation.movable, self.situation.inventory
        waiting: dict[str, PlannedPod] = {}
        ledgers: dict[str, NodeLedger] = {}
        room: dict[str, Amounts] = {}
        for node in sorted(nodes):
            ledger, free = inventory.ledger(node), self.situation.room.get(node, NONE)
            for uid in sorted(ledger.allocations.keys() & movable.keys()):
                waiting[uid] = movable[uid]
                ledger, free = ledger.release(uid), plus(free, movable[uid].needs)
            ledgers[node], room[node] = ledger, free
        cost = sum(pod.weight for pod in waiting.values())
        return State(waiting, cost, frozenset(waiting), nodes, (), ledgers, room)

    def apply(self, state: State) -> None:
        """Make a state in which no pod waits the situation; what it moved moves no more."""
        inventory, room = self.situation.inventory, {**self.situation.room, **state.room}
        for ledger in state.ledgers.values():
            inventory.put(ledger)
        movable = {uid: pod for uid, pod in self.situation.movable.items() if uid not in state.left}
        self.situation = Situation(inventory, movable, room)
        self._targets |= {pod.request.uid for pod, _ in state.placed} - state.left
        self._free.clear()
        self._loads = inventory.loads(Weights())

    def ledger(self, state: State, node: str) -> NodeLedger:
        """Return the ledger of a node."""
        return state.ledgers.get(node) or self.situation.inventory.ledger(node)

    def room(self, state: State, node: str) -> Amounts:
        """Return what a node has free of other resources."""
        room = state.room.get(node)
        return self.situation.room.get(node, NONE) if room is None else room

    def _is_own(self, pod: PlannedPod, placement: Placement) -> bool:
        """Return whether a place is where the pod is already: to evict it for that helps none."""
        uid = pod.request.uid
        if self.source_of.get(uid) != placement.node:
            return False
        now = self.situation.inventory.ledger(placement.node).allocations[uid].grants
        parts = [
            sorted((each.card, each.memory, each.compute, str(each.slice)) for each in grants)
            for grants in (now, placement.grants)
        ]
        return parts[0] == parts[1]

    def _free_before(self, pod: PlannedPod) -> tuple[str, ...]:
        """Return the nodes with free cards before any move, the fullest first."""
        key, _ = self._key(pod)
        if key in self._free:
            return self._free[key]
        inventory = self.situation.inventory
        rows = self._names.setdefault(pod.nodes, NodeNames(sorted(pod.nodes))).rows(inventory)
        evaluation = self._feasibility.evaluate(replace(pod.request, uid=""), inventory)
        fitting = rows[evaluation.fitting(rows)]
        in_order = fitting[(-self._loads[fitting]).argsort(kind="stable")]
        self._free[key] = tuple(map(inventory.name, in_order.tolist()))
        return self._free[key]

    def _key(self, pod: PlannedPod) -> tuple[int, int]:
        """Return numbers that are equal for pods that fit the same cards, and the same places.

        Remembered by uid, because a request takes long to hash.
        """
        uid = pod.request.uid
        known = self._keys.get(uid)
        if known is None:
            numbers = self._numbers
            cards = request_signature(pod.request), pod.nodes
            number = numbers.setdefault(cards, len(numbers))
            place = number, tuple(sorted(pod.needs.items()))
            known = self._keys[uid] = (number, numbers.setdefault(place, len(numbers)))
        return known
