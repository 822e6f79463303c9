"""Places several pods at once: each on the cards that the ones before it leave."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.fit import fit
from core.feasibility.node_names import NodeNames
from core.ledger.node_ledger import NodeLedger
from core.requests.decision import rejection_summary
from core.requests.grant import Allocation, Placement
from core.requests.request import NodeKey, Request


@dataclass(frozen=True, slots=True)
class GangPlan:
    """Where the pods of a gang go.

    Attributes:
        placed: by uid of a pod, its node and cards.
        short: name of the first pod for which there is no room; empty where there is room for all.
        reason: why not, on the node that is best for it, as one line.
    """

    placed: Mapping[str, Placement]
    short: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that is to be placed.

    Attributes:
        evaluation: of the nodes as they are now.
        names: where it may go.
    """

    evaluation: NodeEvaluation
    names: NodeNames

    @property
    def request(self) -> Request:
        """What it requests."""
        return self.evaluation.request


def place_together(candidates: Sequence[Candidate]) -> GangPlan:
    """Place as many pods as the nodes have room for, in one of two orders: the better plan.

    Pods that request alike are placed as well as possible. Where they differ, a plan for all may
    exist that neither order finds.

    Args:
        candidates: no pod twice, and none that has cards already.
    """
    largest_first = sorted(candidates, key=lambda each: (_size(each.request), each.request.uid))
    plan = _in_order(largest_first)
    if not plan.short:
        return plan
    other = _in_order(sorted(largest_first, key=_nodes))
    return other if len(other.placed) > len(plan.placed) else plan


def _in_order(candidates: Iterable[Candidate]) -> GangPlan:
    """Place pods one after the other."""
    placed: dict[str, Placement] = {}
    changed: dict[str, NodeLedger] = {}
    short = reason = ""
    for candidate in candidates:
        request = candidate.request
        answer = _place(candidate, changed)
        if isinstance(answer, Placement):
            placed[request.uid] = answer
            ledger = _ledger(candidate, answer.node, changed)
            changed[answer.node] = ledger.reserve(Allocation.of(request, answer))
        elif not short:
            short, reason = request.pod, answer
    return GangPlan(placed, short, reason)


def _place(candidate: Candidate, changed: Mapping[str, NodeLedger]) -> Placement | str:
    """Place one pod; a text says why it has no room on the node that is best for it."""
    nearest = ""
    for node in _best_first(candidate, changed):
        answer = fit(candidate.request, _ledger(candidate, node, changed))
        if isinstance(answer, Placement):
            return answer
        nearest = nearest or f"{node}: {answer.text()}"
    if nearest:
        return nearest
    rejected = candidate.evaluation.explain(candidate.names)
    return rejection_summary(rejected.counts())


def _ledger(candidate: Candidate, node: str, changed: Mapping[str, NodeLedger]) -> NodeLedger:
    return changed.get(node) or candidate.evaluation.inventory.ledger(node)


def _best_first(candidate: Candidate, changed: Mapping[str, NodeLedger]) -> Iterator[str]:
    """The nodes that fit as they are now, the best one first.

    Of what pods of this plan took there the ranks say nothing: a pod that spreads avoids these.
    """
    ranks = candidate.evaluation.ranks(candidate.names.rows(candidate.evaluation.inventory))
    keys = candidate.request.ranking.nodes
    spreads = bool(keys) and keys[0] is not NodeKey.FULLEST
    later: list[str] = []
    for position in (-ranks).argsort(kind="stable"):
        if not ranks[position]:
            break
        node = candidate.names.name(int(position))
        if spreads and node in changed:
            later.append(node)
        else:
            yield node
    yield from later


def _size(request: Request) -> tuple[int, int, int]:
    """Sorts the pods that take most first."""
    totals = request.totals()
    return -totals.cards, -totals.memory, -totals.memory_percent


def _nodes(candidate: Candidate) -> int:
    """Sorts the pods with the fewest nodes first."""
    evaluation = candidate.evaluation
    return int(evaluation.fitting(candidate.names.rows(evaluation.inventory)).sum())
