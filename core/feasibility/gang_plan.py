"""Places several pods at once: each on the cards that the ones before it leave."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, filterfalse

from core.feasibility.fit import fit
from core.feasibility.gang_search import Candidate, GangSearch, LeastNumber, lacks_of
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
        is_best: no other plan places more of the pods without which none is bound.
    """

    placed: Mapping[str, Placement]
    short: str = ""
    reason: str = ""
    over: frozenset[str] = frozenset()
    is_best: bool = True


def place_together(candidates: Sequence[Candidate], needs: Sequence[LeastNumber] = ()) -> GangPlan:
    """Place as many pods as the nodes have room for, first those without which none is bound.

    One after the other, in one of two orders. Where too few have places then, and other choices
    of nodes and cards may help, these are tried (``GangSearch``).

    Args:
        candidates: no pod twice, and none that has cards already.
        needs: least numbers. What is within them is placed first, and pods beyond them last. No pod
            is in two.
    """

    def size(one: Candidate) -> tuple[int, int, int, str]:
        totals = one.request.totals()
        return -totals.cards, -totals.memory, -totals.memory_percent, one.request.uid

    largest_first = sorted(candidates, key=size)
    plan = _in_order(largest_first, needs, _Plan())
    if not plan.short:
        return plan
    nodes: dict[Hashable, int] = {}
    for kind, each in {one.kind: one for one in candidates}.items():
        nodes[kind] = int(each.evaluation.fitting(each.names.rows(each.evaluation.inventory)).sum())
    other = _in_order(sorted(largest_first, key=lambda each: nodes[each.kind]), needs, _Plan())

    def worth(one: GangPlan) -> tuple[int, int]:
        return -lacks_of(needs, frozenset(one.placed)), len(one.placed)

    plan = max(plan, other, key=worth)
    lacks = lacks_of(needs, frozenset(plan.placed))
    if not lacks or (len(nodes) == 1 and _is_one_share(largest_first[0].request, plan)):
        return plan
    search = GangSearch(largest_first, needs)
    for allowed in range(lacks):
        found = search.run(allowed)
        if found is not None:
            better = _Plan()
            for candidate, placement in found:
                better.put(candidate, placement)
            for candidate in search.last:
                better.place(candidate)
            rest = [each for each in largest_first if each.request.uid not in better.placed]
            plan = _in_order(rest, needs, better)
            break
    return replace(plan, is_best=search.complete)


def _is_one_share(request: Request, plan: GangPlan) -> bool:
    """Return whether pods that are alike have one share of a card each: all orders are equal."""
    is_one = len(request.containers) == 1 == request.containers[0].count
    grants = chain.from_iterable(each.grants for each in plan.placed.values())
    return is_one and all(grant.slice is None for grant in grants)


def _in_order(
    candidates: Iterable[Candidate], needs: Sequence[LeastNumber], plan: "_Plan"
) -> GangPlan:
    """Place pods one after the other beside those of a plan, those of the least numbers first."""
    short = reason = ""
    waiting = [*candidates]
    within = tuple(chain.from_iterable(each.within for each in needs))
    for stage in (within, needs, None):
        need_of = {uid: each for each in stage or () for uid in each.uids}
        placed = frozenset(plan.placed)
        left = {each: each.lacks(placed) for each in stage or ()}
        later: list[Candidate] = []
        for candidate in waiting:
            need = need_of.get(candidate.request.uid)
            if stage is not None and (need is None or not left[need]):
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
        request = candidate.request
        alike = self._alike.get(candidate.kind)
        if alike is None:
            alike = self._alike[candidate.kind] = _Alike(candidate.nodes())
        full: dict[str, Reason] = {}
        in_turn: Iterable[str] = alike.left
        keys = request.ranking.nodes
        if keys and keys[0] not in _PACKING:
            # Of what pods of this plan took there the ranks say nothing: a pod that spreads avoids
            # these nodes.
            is_changed = self._changed.__contains__
            in_turn = chain(filterfalse(is_changed, alike.left), filter(is_changed, alike.left))
        for node in in_turn:
            answer = fit(request, self._ledger(candidate, node))
            if isinstance(answer, Placement):
                self.put(candidate, answer)
                break
            full[node] = answer
        if full:  # they have no room for the next one either
            alike.full |= full
            alike.left = [node for node in alike.left if node not in full]
        return request.uid in self.placed

    def put(self, candidate: Candidate, placement: Placement) -> None:
        """Place a pod where there is room for it."""
        self.placed[candidate.request.uid] = placement
        ledger = self._ledger(candidate, placement.node)
        allocation = Allocation.of(candidate.request, placement)
        self._changed[placement.node] = ledger.reserve(allocation)

    def _ledger(self, candidate: Candidate, node: str) -> NodeLedger:
        ledger = self._changed.get(node) or candidate.evaluation.inventory.ledger(node)
        return ledger.release(candidate.request.uid)  # a bind of it may have begun just now

    def why_not(self, candidate: Candidate) -> str:
        """Return why a pod has no room; on the nearest node, if the plan took the last room."""
        rejected = candidate.evaluation.explain(candidate.names)
        full = self._alike[candidate.kind].full
        if not full:
            return group_summary(grouped(rejected.counted()))
        first: dict[int, str] = {}
        for name, number in zip(rejected.names, rejected.ids, strict=True):
            first.setdefault(number, name)
        reasons = full | {name: rejected.distinct[number] for number, name in first.items()}
        node, reason = min(reasons.items(), key=lambda each: (*nearness(each[1]), each[0]))
        return f"{node}: {reason.text()}"
