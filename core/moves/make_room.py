"""Plans that make room for pods that wait, or that empty whole nodes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import islice

from core.moves.places import Places, State
from core.moves.search import Search, Step, never
from core.moves.situation import MovePlan, PlannedPod, Proof, comparable

STARTS = 50
"""First steps from which a plan is looked for once the search was cut."""

PER_POD = 3
"""States of such a plan for each of its pods, at least."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How far a search goes.

    Attributes:
        moves: the most that a plan may have.
        states: partial plans that are looked at before it is cut.
        expired: whether the time is over; then only places that are free are tried, a few of them.
    """

    moves: int = 64
    states: int = 2000
    expired: Callable[[], bool] = never


def make_room(wanted: Sequence[PlannedPod], places: Places, limits: SearchLimits) -> MovePlan:
    """Return the cheapest moves after which all of some pods fit.

    After several plans, the moves of all of them, in order, are a plan for all pods that fit;
    another one may cost less, or place more.

    Args:
        wanted: the pods; they have no allocation, and no two of them the same uid.
        places: of the situation, in which everything that the plan moves and places stays.
        limits: of the search.
    """
    waiting = State({pod.request.uid: pod for pod in wanted})
    return _plan(wanted, places, limits, lambda: [waiting])


def free_nodes(
    number: int, candidates: Collection[str], places: Places, limits: SearchLimits
) -> MovePlan:
    """Return the cheapest moves after which some nodes have no allocation.

    Args:
        number: how many nodes, 1 or more.
        candidates: the nodes that may be emptied: all their allocations are of movable pods.
        places: of the situation, in which everything that the plan moves stays.
        limits: of the search.
    """
    every: list[tuple[int, str]] = []
    hard: list[tuple[int, str]] = []
    for node in candidates:
        state = places.emptied(frozenset((node,)))
        every.append((state.cost, node))
        if not all(places.is_free(pod, state) for pod in state.waiting.values()):
            hard.append((state.cost, node))
    easy = sorted({*every} - {*hard})
    every.sort()
    all_nodes = partial(_emptied, number, every, places)
    if not hard:
        return _plan((), places, limits, all_nodes)
    # A plan that empties one of the others moves a pod more, to make room for its pods.
    others = sorted({*every} - {min(hard)})[: number - 1]
    least = sum(cost for cost, _ in (min(hard), *others)) + 1
    further = (least, all_nodes)
    plan = _plan((), places, limits, partial(_emptied, number, easy, places), further)
    return plan if plan.found else _plan((), places, limits, all_nodes)


def _plan(
    wanted: Sequence[PlannedPod],
    places: Places,
    limits: SearchLimits,
    starts: Callable[[], Iterable[Step]],
    further: tuple[int, Callable[[], Iterable[Step]]] | None = None,
) -> MovePlan:
    """Return the cheapest plan that follows from some states, which come cheapest first.

    Where these have a plan, one that costs less may follow from ``further`` states, which are all
    of these and others; no plan of the others costs less than the number.
    """
    search = Search(places, limits.moves, limits.expired)
    found = search.run(starts(), limits.states)
    cut, bound = search.cut, search.bound
    if found is not None and further is not None and further[0] < found[0].cost:
        better = search.run(further[1](), max(limits.states - search.states, 0))
        found = found if better is None or better[0].cost == found[0].cost else better
        bound = max(search.bound, min(bound, further[0]))
    if cut:
        # A plan from one of the first cheap steps, each with a part of the states.
        steps = (
            step
            for start in starts()
            if isinstance(start, State)
            for step in ([start] if start.left else search.steps(start))
            if isinstance(step, State)
        )
        for step in islice(steps, STARTS):
            found = search.run([step], max(limits.states // STARTS, PER_POD * len(step.waiting)))
            if found is not None or limits.expired():
                break
    if found is None and limits.expired():
        # A plan in which no further pod leaves its place takes little time.
        first = next((start for start in starts() if isinstance(start, State)), None)
        if first is not None:
            last = Search(places, len(first.left))
            found = last.run([first], PER_POD * len(first.waiting) + 1)
            search.states += last.states
    is_exact = comparable(wanted, places.situation) and places.complete
    bound = bound if is_exact else 0
    if found is None:
        proof = Proof.UNKNOWN if cut or not is_exact else Proof.IMPOSSIBLE
        return MovePlan(proof, bound=bound, states=search.states)
    state, moves = found
    placed = tuple(each for each in state.placed if each[0].request.uid not in state.left)
    proof = Proof.OPTIMAL if state.cost == bound else Proof.CUT
    places.apply(state)
    return MovePlan(proof, moves, placed[::-1], state.closed, bound, search.states)


def _emptied(number: int, nodes: Sequence[tuple[int, str]], places: Places) -> Iterator[Step]:
    """Yield the states in which a number of some nodes are emptied, in ascending order of cost.

    Args:
        number: 1 or more.
        nodes: with what it costs to empty each, in ascending order.
        places: of the situation.
    """
    if len(nodes) < number:
        return

    def cost(chosen: tuple[int, ...]) -> int:
        return sum(nodes[each][0] for each in chosen)

    first = tuple(range(number))
    seen, heap = {first}, [(cost(first), first)]
    while heap:
        least, chosen = heappop(heap)
        yield least
        yield places.emptied(frozenset(nodes[each][1] for each in chosen))
        for at, each in enumerate(chosen):
            other = (*chosen[:at], each + 1, *chosen[at + 1 :])
            if each + 1 < (*chosen, len(nodes))[at + 1] and other not in seen:
                seen.add(other)
                heappush(heap, (cost(other), other))
