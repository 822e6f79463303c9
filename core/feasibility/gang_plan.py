"""Places several pods at once: each on the cards that the ones before it leave."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, filterfalse

from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.fit import fit
from core.feasibility.inventory import NodeNames
from core.ledger.node_ledger import NodeLedger
from core.requests.decision import group_summary, grouped, nearness
from core.requests.grant import Allocation, Placement
from core.requests.reason import Reason
from core.requests.request import NodeKey, Request

_PACKING = (NodeKey.FULLEST, NodeKey.CHOSEN_FULLEST)
"""Criteria by which a node with the pod before is the best one for the next pod too."""


@dataclass(frozen=True, slots=True)
class GangPlan:
    """Where the pods of a gang go.

    Attributes:
        placed: by uid of a pod, its node and cards.
        short: name of the first pod for which there is no room; empty where there is room for all.
        reason: why not, on the node that is nearest to a fit, as one line.
        over: uids of pods for which there is room, and not within their quota together.
    """

    placed: Mapping[str, Placement]
    short: str = ""
    reason: str = ""
    over: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that is to be placed.

    Attributes:
        evaluation: of the nodes as they are now, one object for all pods that request alike.
        names: where it may go.
    """

    request: Request
    evaluation: NodeEvaluation
    names: NodeNames


@dataclass(frozen=True, slots=True)
class LeastNumber:
    """A least number of some pods without which no pod of the gang is bound.

    Attributes:
        number: how many of them; none where it is not above 0.
    """

    uids: frozenset[str]
    number: int

    def lacks(self, placed: Collection[str]) -> int:
        """Return how many of its pods must be placed beside these."""
        return max(0, self.number - len(self.uids.intersection(placed)))


def place_together(
    candidates: Sequence[Candidate], stages: Sequence[Sequence[LeastNumber]] = ()
) -> GangPlan:
    """Place as many pods as the nodes have room for, in one of two orders: the better plan.

    Pods that request alike are placed as well as possible. Where they differ, a plan for all may
    exist that neither order finds.

    Args:
        candidates: no pod twice, and none that has cards already.
        stages: least numbers; those of each stage are placed before those of the next one, and
            all further pods last. No pod counts twice in one stage.
    """

    def size(one: Candidate) -> tuple[int, int, int, str]:
        totals = one.request.totals()
        return -totals.cards, -totals.memory, -totals.memory_percent, one.request.uid

    largest_first = sorted(candidates, key=size)
    plan = _in_order(largest_first, stages)
    if not plan.short:
        return plan
    nodes: dict[Hashable, int] = {}
    for kind, each in {_kind(one): one for one in candidates}.items():
        nodes[kind] = int(each.evaluation.fitting(each.names.rows(each.evaluation.inventory)).sum())
    other = _in_order(sorted(largest_first, key=lambda each: nodes[_kind(each)]), stages)

    def worth(one: GangPlan) -> tuple[int, int]:
        return -sum(each.lacks(one.placed) for needs in stages for each in needs), len(one.placed)

    return max(plan, other, key=worth)


def _in_order(candidates: Iterable[Candidate], stages: Sequence[Sequence[LeastNumber]]) -> GangPlan:
    """Place pods one after the other, those of the least numbers first."""
    plan = _Plan()
    short = reason = ""
    waiting = [*candidates]
    for needs in (*stages, None):
        need_of = {uid: each for each in needs or () for uid in each.uids}
        left = {each: each.lacks(plan.placed) for each in needs or ()}
        later: list[Candidate] = []
        for candidate in waiting:
            need = need_of.get(candidate.request.uid)
            if needs is not None and (need is None or not left[need]):
                later.append(candidate)
            elif plan.place(candidate):
                if need is not None:
                    left[need] -= 1
            elif not short:
                short, reason = candidate.request.pod, plan.why_not(candidate)
        waiting = later
    return GangPlan(plan.placed, short, reason)


@dataclass(slots=True)
class _Alike:
    """Where pods that request alike may go.

    Attributes:
        left: nodes that had room for the last of them, the best one first.
        full: why the others, which had room before the plan, have none.
    """

    left: list[str]
    full: dict[str, Reason] = field(default_factory=dict[str, Reason])


class _Plan:
    """Placements so far, and the ledgers of their nodes with them."""

    def __init__(self) -> None:
        self.placed: dict[str, Placement] = {}
        self._changed: dict[str, NodeLedger] = {}
        self._alike: dict[Hashable, _Alike] = {}

    def place(self, candidate: Candidate) -> bool:
        """Place a pod; whether there is room for it."""
        request, inventory = candidate.request, candidate.evaluation.inventory
        key = _kind(candidate)
        alike = self._alike.get(key)
        if alike is None:
            ranks = candidate.evaluation.ranks(candidate.names.rows(inventory))
            best_first = (-ranks).argsort(kind="stable")[: (ranks > 0).sum()]
            names = [candidate.names.name(position) for position in best_first.tolist()]
            alike = self._alike[key] = _Alike(names)
        full: dict[str, Reason] = {}
        in_turn: Iterable[str] = alike.left
        keys = request.ranking.nodes
        if keys and keys[0] not in _PACKING:
            # Of what pods of this plan took there the ranks say nothing: a pod that spreads avoids
            # these nodes.
            is_changed = self._changed.__contains__
            in_turn = chain(filterfalse(is_changed, alike.left), filter(is_changed, alike.left))
        for node in in_turn:
            ledger = self._changed.get(node) or inventory.ledger(node)
            ledger = ledger.release(request.uid)  # an attempt to bind it may have begun just now
            answer = fit(request, ledger)
            if isinstance(answer, Placement):
                self.placed[request.uid] = answer
                self._changed[node] = ledger.reserve(Allocation.of(request, answer))
                break
            full[node] = answer
        if full:  # they have no room for the next one either
            alike.full |= full
            alike.left = [node for node in alike.left if node not in full]
        return request.uid in self.placed

    def why_not(self, candidate: Candidate) -> str:
        """Return why a pod has no room; on the nearest node, if the plan took the last room."""
        rejected = candidate.evaluation.explain(candidate.names)
        full = self._alike[_kind(candidate)].full
        if not full:
            return group_summary(grouped(rejected.counted()))
        first: dict[int, str] = {}
        for name, number in zip(rejected.names, rejected.ids, strict=True):
            first.setdefault(number, name)
        reasons = full | {name: rejected.distinct[number] for number, name in first.items()}
        node, reason = min(reasons.items(), key=lambda each: (*nearness(each[1]), each[0]))
        return f"{node}: {reason.text()}"


def _kind(candidate: Candidate) -> Hashable:
    """Return what is equal for pods that request alike and may go to the same nodes."""
    return id(candidate.evaluation), id(candidate.names)
