"""Plans that make room for pods that wait, or that empty whole nodes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import islice

from core.moves.places import Places, State
from core.moves.plan import MovePlan, Proof
from core.moves.search import Search, Solution
from core.moves.situation import PlannedPod
from core.requests.request import TaskClass

STARTS = 50
"""First steps from which a plan is looked for once the search was cut."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a search goes.

    Attributes:
        moves: the most that a plan may have.
        states: partial plans that are looked at before it is cut.
    """

    moves: int = 64
    states: int = 2000


def make_room(wanted: Sequence[PlannedPod], places: Places, limits: Limits) -> MovePlan:
    """The cheapest moves after which all of some pods fit.

    After several plans, the moves of all of them, in order, are a plan for all pods that fit;
    another one may cost less, or place more.

    Args:
        wanted: the pods; they have no allocation, and no two of them the same uid.
        places: of the situation, in which everything that the plan moves and places stays.
        limits: of the search.
    """
    return _Planner(places, limits, wanted).plan(partial(_waiting, wanted))


def free_nodes(
    number: int, candidates: Collection[str], places: Places, limits: Limits
) -> MovePlan:
    """The cheapest moves after which some nodes have no allocation.

    Args:
        number: how many nodes, 1 or more.
        candidates: the nodes that may be emptied: all their allocations are of movable pods.
        places: of the situation, in which everything that the plan moves stays.
        limits: of the search.
    """
    return _Planner(places, limits, ()).plan(partial(_emptied, number, candidates, places))


class _Planner:
    """One search, and what it proves."""

    def __init__(self, places: Places, limits: Limits, wanted: Sequence[PlannedPod]) -> None:
        self._places = places
        self._limits = limits
        self._search = Search(places, limits.moves)
        # Which of an online and an offline task may join the other depends on which came first.
        every = (*wanted, *places.situation.movable.values())
        self._comparable = all(pod.request.task_class is TaskClass.NORMAL for pod in every)

    def plan(self, starts: Callable[[], Iterable[State]]) -> MovePlan:
        """The cheapest plan that follows from some states, in ascending order of their costs."""
        search = self._search
        found = search.run(starts(), self._limits.states)
        cut, bound = search.cut, search.bound
        if cut:
            found = self._dive(starts())
        is_exact = self._comparable and self._places.complete
        bound = bound if is_exact else 0
        if found is None:
            proof = Proof.UNKNOWN if cut or not is_exact else Proof.IMPOSSIBLE
            return MovePlan(proof, bound=bound, states=search.states)
        state, moves = found
        placed = tuple(each for each in state.placed if each[0].request.uid not in state.left)
        proof = Proof.OPTIMAL if state.cost == bound else Proof.CUT
        self._places.apply(state)
        return MovePlan(proof, moves, placed[::-1], state.closed, bound, search.states)

    def _dive(self, starts: Iterable[State]) -> Solution | None:
        """A plan from one of the first cheap steps, each of which gets a part of the states."""
        for step in islice(self._steps(starts), STARTS):
            found = self._search.run([step], self._limits.states // STARTS)
            if found is not None:
                return found
        return None

    def _steps(self, starts: Iterable[State]) -> Iterator[State]:
        for start in starts:
            steps = [start] if start.left else self._search.steps(start)
            yield from (step for step in steps if isinstance(step, State))


def _waiting(wanted: Sequence[PlannedPod]) -> list[State]:
    return [State({pod.request.uid: pod for pod in wanted})]


def _emptied(number: int, candidates: Collection[str], places: Places) -> Iterator[State]:
    """The states in which so many of some nodes are emptied, in ascending order of cost."""
    of_node = sorted((places.emptied(frozenset((each,))).cost, each) for each in candidates)
    if len(of_node) < number:
        return

    def cost(chosen: tuple[int, ...]) -> int:
        return sum(of_node[each][0] for each in chosen)

    first = tuple(range(number))
    seen, heap = {first}, [(cost(first), first)]
    while heap:
        _, chosen = heappop(heap)
        yield places.emptied(frozenset(of_node[each][1] for each in chosen))
        for at, each in enumerate(chosen):
            other = (*chosen[:at], each + 1, *chosen[at + 1 :])
            if each + 1 < (*chosen, len(of_node))[at + 1] and other not in seen:
                seen.add(other)
                heappush(heap, (cost(other), other))
