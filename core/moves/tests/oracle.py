"""The optimum of small clusters by trying everything, written without the planner's search.

All sets of movable pods come in ascending order of their weights; for each, every order of its
moves with every place of each is made on the ledgers, until the pods that wait fit as well. A place
is a choice of cards, or of slices, that the ledger accepts; ``fit`` is not asked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, product

from core.feasibility.suitability import unsuitable
from core.hardware.card import Mode
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.moves.situation import NONE, PlannedPod, Situation
from core.requests.grant import Allocation, Grant, Placement

Cluster = Mapping[str, tuple[NodeLedger, Mapping[str, int]]]


def least_cost(wanted: Sequence[PlannedPod], situation: Situation, most_moves: int) -> int | None:
    """The weights of the cheapest set of moves; None where there is none."""
    cluster: Cluster = {
        ledger.node.name: (ledger, situation.room.get(ledger.node.name, NONE))
        for ledger in situation.inventory
    }
    movable = [*situation.movable.values()]
    sets = chain.from_iterable(combinations(movable, n) for n in range(most_moves + 1))
    for some in sorted(sets, key=_cost):
        if _fit_without(some, wanted, cluster) and _possible(some, wanted, cluster, set()):
            return _cost(some)
    return None


def _cost(pods: Iterable[PlannedPod]) -> int:
    return sum(pod.weight for pod in pods)


def _fit_without(
    some: Sequence[PlannedPod], wanted: Sequence[PlannedPod], cluster: Cluster
) -> bool:
    """Whether each pod that waits would fit if the others were gone, which is necessary."""
    for pod in some:
        cluster = _without(cluster, pod)
    return all(next(_placed(pod, cluster), None) is not None for pod in wanted)


def _possible(
    some: Sequence[PlannedPod],
    wanted: Sequence[PlannedPod],
    cluster: Cluster,
    seen: set[object],
) -> bool:
    """Whether the pods can move in some order, so that the others fit after that."""
    if not some:
        return not wanted or any(
            _possible((), wanted[1:], after, seen) for after in _placed(wanted[0], cluster)
        )
    state = (
        frozenset(pod.request.uid for pod in some),
        frozenset(one for ledger, _ in cluster.values() for one in ledger.allocations.values()),
    )
    if state in seen:
        return False
    seen.add(state)
    return any(
        _possible((*some[:number], *some[number + 1 :]), wanted, after, seen)
        for number, pod in enumerate(some)
        for after in _placed(pod, _without(cluster, pod))
    )


def _without(cluster: Cluster, pod: PlannedPod) -> Cluster:
    uid = pod.request.uid
    return {
        name: (
            ledger.release(uid),
            {each: free + pod.needs.get(each, 0) for each, free in room.items()}
            if uid in ledger.allocations
            else room,
        )
        for name, (ledger, room) in cluster.items()
    }


def _placed(pod: PlannedPod, cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the pod on each of its places."""
    for name in pod.nodes:
        ledger, room = cluster[name]
        if any(room.get(each, amount) < amount for each, amount in pod.needs.items()):
            continue
        left = {each: free - pod.needs.get(each, 0) for each, free in room.items()}
        for grants in _grants(pod, ledger):
            allocation = Allocation.of(pod.request, Placement(name, grants))
            try:
                yield {**cluster, name: (ledger.reserve(allocation), left)}
            except LedgerError:
                continue


def _grants(pod: PlannedPod, ledger: NodeLedger) -> Iterator[tuple[Grant, ...]]:
    """Every choice of cards and slices of a node for a pod of one container."""
    (container,) = pod.request.containers
    assert not container.linked
    cards = [card for card in ledger.node.cards if unsuitable(pod.request, card) is None]
    for chosen in combinations(cards, container.count):
        parts: list[list[Grant]] = []
        for card in chosen:
            exclusive = container.exclusive_on(card)
            memory = container.memory_on(card.memory)
            if card.mode is not Mode.MIG:
                grant = Grant(container.name, card.uuid, memory, container.compute, exclusive)
                parts.append([grant])
            else:
                parts.append(
                    [
                        Grant(
                            container.name, card.uuid, slot.memory, slot.compute, exclusive,
                            slice=slot,
                        )
                        for layout in card.geometry.layouts
                        for slot in layout.slices
                        if slot.memory >= memory and slot.compute >= container.compute
                    ]
                )  # fmt: skip
        yield from product(*parts)
