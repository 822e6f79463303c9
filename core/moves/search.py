"""The cheapest moves that give some pods a place: best first, with a bound.

A state is a partial plan: some pods have new places, others wait for one, because a place of an
earlier one made them leave theirs. The next pod that waits gets each place in turn, a free one
first, then those that other pods must leave. A state costs the weights of all pods that left, and
at least the smallest weight more where a pod that waits has no free place. The first state in which
no pod waits, and of which an order of moves exists, is therefore a cheapest plan.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

from core.feasibility.inventory import Inventory
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.moves.places import Hole, Places, State
from core.moves.situation import NONE, Amounts, Move, PlannedPod, Situation, minus, plus, shortage
from core.requests.grant import Allocation

Step = State | int
"""A next state, or the least that all states after it cost."""

Solution = tuple[State, tuple[Move, ...]]
"""A state in which no pod waits, and its moves in order."""

SURE = 12

MOST = 10_000
"""Sets of moves that are tried as the first ones."""


def never() -> bool:
    """Set no limit of time."""
    return False


class Search:
    """Best first over the states.

    Attributes:
        most_moves: of a plan.
        sure: up to this many moves, all orders are tried before a plan is dropped for the lack of
            one.
        states: how many were looked at, in all runs.
        bound: no plan costs less, as far as the last run knows.
        cut: whether the last run ended before it had looked at all states that may cost less.
        expired: whether the time is over.
    """

    def __init__(
        self, places: Places, most_moves: int, expired: Callable[[], bool] = never
    ) -> None:
        self.places = places
        self.most_moves = most_moves
        self.expired = expired
        self.sure = SURE
        self.states = 0
        self.bound = 0
        self.cut = False
        self._smallest = min((pod.weight for pod in places.situation.movable.values()), default=1)

    def run(self, starts: Iterable[Step], most: int) -> Solution | None:
        """Return the cheapest plan that follows from some states.

        Args:
            starts: in ascending order of cost.
            most: states that are looked at before the search is cut.

        Returns:
            None where there is none, or the search was cut before one was found, by ``most`` or by
            the time.
        """
        self.cut, self.bound, end = False, 0, self.states + most
        number = count()
        seen: set[Hashable] = set()
        heap: list[tuple[int, int, int, State | Iterator[Step]]] = [
            (0, 0, next(number), iter(starts))
        ]
        while heap:
            self.bound, depth, _, found = heappop(heap)
            if isinstance(found, State):
                if self.states == end:
                    self.cut = True
                    return None
                self.states += 1
                moves = None if found.waiting else self._moves(found)
                if moves is not None:
                    return found, moves
                if self.expired():
                    self.cut = True
                    return None
                if found.identity() not in seen:
                    seen.add(found.identity())
                    further = self.steps(found) if found.waiting else self._with_one_more(found)
                    # Of equal cost, the deepest state comes first.
                    heappush(heap, (self.bound, depth - 1, next(number), further))
                continue
            step = next(found, None)
            if self.cut:
                return None
            if isinstance(step, State):
                is_free = all(self.places.is_free(pod, step) for pod in step.waiting.values())
                further_cost = 0 if is_free else self._smallest
                least = max(self.bound, step.cost + further_cost)
                if any(
                    step.filled & pod.nodes and not all(c.compute for c in pod.request.containers)
                    for pod in step.waiting.values()
                ):
                    self.places.complete = False  # it would fit there if it came before
                heappush(heap, (least, depth, next(number), step))
            if step is not None:
                floor = self.bound if isinstance(step, State) else max(self.bound, step)
                heappush(heap, (floor, depth, next(number), found))
        return None

    def steps(self, state: State) -> Iterator[Step]:
        """Yield the states in which the pod with the fewest free places has one."""
        places = self.places
        pod = min(state.waiting.values(), key=lambda each: (places.number(each), each.request.uid))
        for node in places.free_nodes(pod, state):
            for placement in places.tightest(pod, state, node):
                yield places.place(state, pod, Hole(0, frozenset(), placement))
        if len(state.left) < self.most_moves:
            yield state.cost + self._smallest
            yield from self._with_holes(state, pod)

    def _with_holes(self, state: State, pod: PlannedPod) -> Iterator[Step]:
        """Yield the states in which a pod has a place that others leave, the cheapest first.

        It ends early, and cuts the search, when the time is over.
        """
        places, number = self.places, count()
        heap: list[tuple[int, int, Hole | None, Iterator[Hole]]] = []
        for node in sorted(pod.nodes - state.closed):
            if self.expired():
                self.cut = True
                return
            least = places.least(pod, state, node)
            if least is not None:
                holes: Iterator[Hole] = (
                    hole for hole in places.holes(pod, state, node) if hole.cost > 0
                )
                heap.append((least, next(number), None, holes))
        heapify(heap)
        while heap:
            cost, _, hole, more = heappop(heap)
            yield state.cost + cost
            if hole is not None and len(state.left | hole.leaving) <= self.most_moves:
                yield places.place(state, pod, hole)
            further = next(more, None)
            if further is not None:
                heappush(heap, (further.cost, next(number), further, more))

    def _with_one_more(self, state: State) -> Iterator[Step]:
        """Yield the states in which one more pod leaves the place of a pod that has no turn there.

        A plan whose moves wait for each other may have an order beside a pod that could stay.
        """
        if len(state.left) < self.most_moves:
            for uid in self.places.beside(state):
                left = self.places.without(state, uid)
                yield left.cost
                yield left

    def _moves(self, state: State) -> tuple[Move, ...] | None:
        """Return the moves of a plan, in order; None where no order was found."""
        moves = [
            Move(pod, self.places.source_of[pod.request.uid], placement)
            for pod, placement in state.placed
            if pod.request.uid in state.left
        ]
        found = in_order(moves, self.places.situation) if self.places.lasts(state) else None
        if found is None and len(moves) > self.sure:
            self.places.complete = False
        return found


def in_order(moves: Sequence[Move], situation: Situation) -> tuple[Move, ...] | None:
    """Return the moves in an order in which each place is free; None where none was found.

    The given order is kept where that is possible. A pod that is moved frees its place and takes
    the new one in one step. Depth first: the cluster's state depends only on which moves were made.
    """
    now: _Changed = {}, dict(situation.room)
    chosen: list[tuple[int, _Changed]] = []
    done: frozenset[int] = frozenset()
    stuck: set[frozenset[int]] = set()  # after which the other moves cannot all follow
    number = 0
    while len(chosen) < len(moves):
        if number == len(moves):
            stuck.add(done)
            if not chosen or len(stuck) > MOST:
                return None
            number, now = chosen.pop()
            done -= {number}
        elif number not in done and done | {number} not in stuck:
            after = _made(moves[number], now, situation.inventory)
            if after is not None:
                chosen.append((number, now))
                done |= {number}
                now, number = after, -1
        number += 1
    return tuple(moves[each] for each, _ in chosen)


_Changed = tuple[Mapping[str, NodeLedger], Mapping[str, Amounts]]
"""The ledgers that differ from the situation, and what is free of other resources, by node."""


def _made(move: Move, now: _Changed, inventory: Inventory) -> _Changed | None:
    """Return what is changed after one more move; None where the new place is not free."""
    ledgers, room = dict(now[0]), dict(now[1])
    pod, source, target = move.pod, move.source, move.target.node
    ledger = ledgers.get(source) or inventory.ledger(source)
    ledgers[source] = ledger.release(pod.request.uid)
    room[source] = plus(room.get(source, NONE), pod.needs)
    if shortage(pod.needs, room.get(target, NONE)):
        return None
    ledger = ledgers.get(target) or inventory.ledger(target)
    try:
        ledgers[target] = ledger.reserve(Allocation.of(pod.request, move.target))
    except LedgerError:
        return None
    room[target] = minus(room.get(target, NONE), pod.needs)
    return ledgers, room
