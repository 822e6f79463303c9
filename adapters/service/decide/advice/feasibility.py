"""Which nodes fit a pod, by the names that a scheduler sends, against the ledgers of now.

Where none fits, there is one rejection for all nodes that share it: the nodes of a cluster are of
few classes, and a reason, its text and its JSON for each of thousands of nodes would take twenty
times as long as to find out that none fits.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TypeVar

import numpy as np

from adapters.accounting.pod_requests import PodRequest
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from core.feasibility.cache import FeasibilityCache
from core.feasibility.columns import Mask, Numbers
from core.feasibility.evaluation import NodeEvaluation, Rejection
from core.feasibility.inventory import NodeNames
from core.quota.amounts import QuotaAmounts
from core.requests.request import PodRef, Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeRejections:
    """Why a request does not fit some nodes.

    Attributes:
        names: of the nodes.
        distinct: the rejections; the node of each reason is one of those that have it.
        of_node: for each name, the position of its rejection.
    """

    names: Sequence[str]
    distinct: tuple[Rejection, ...]
    of_node: Numbers

    def counts(self) -> list[tuple[Rejection, int]]:
        """Return each distinct rejection, and how many nodes have it: one or more."""
        nodes = np.bincount(self.of_node, minlength=len(self.distinct))
        return [*zip(self.distinct, nodes.tolist(), strict=True)]

    def texts(self) -> tuple[tuple[str, int], ...]:
        """Return each text of a reason, and how many nodes have it, by text."""
        counts: Counter[str] = Counter()
        for rejection, nodes in self.counts():
            counts[rejection.reason.text()] += nodes
        return tuple(sorted(counts.items()))

    def by_node(self, answers: Sequence[T]) -> list[T]:
        """Return what belongs to the rejection of each name."""
        return [answers[at] for at in self.of_node.tolist()]

    def where(self, *, unresolvable: bool) -> "NodeRejections":
        """Return the nodes where preemption cannot help, or those where it may."""
        chosen = np.array([each.unresolvable is unresolvable for each in self.distinct], np.bool_)
        if chosen.all():
            return self
        left = chosen[self.of_node]
        return NodeRejections(
            [*compress(self.names, left.tobytes())], self.distinct, self.of_node[left]
        )


def reject(evaluation: NodeEvaluation, nodes: NodeNames) -> NodeRejections:
    """Return why a request does not fit some nodes; those that fit are left out.

    Args:
        evaluation: of the request, whose ``classify`` has returned True for the nodes.
        nodes: their names.
    """
    names: Sequence[str] = nodes.names
    groups = evaluation.groups(nodes.rows(evaluation.inventory))
    _, first, of_node = np.unique(groups, return_index=True, return_inverse=True)
    examples = [names[int(at)] for at in first.tolist()]
    rejections = evaluation.rejections(examples)
    rejected = np.array([name in rejections for name in examples], np.bool_)
    if not rejected.all():
        left = rejected[of_node]
        names = [*compress(names, left.tobytes())]
        of_node = (np.cumsum(rejected) - 1)[of_node[left]]
    distinct = tuple(rejections[name] for name in examples if name in rejections)
    return NodeRejections(names, distinct, of_node)


EVALUATIONS = 16
"""Pods whose evaluation is kept until a ledger changes: schedulers ask about one pod after the
other, and none of the pods has more than ``LARGEST_POD`` bytes."""

STEP = 25
"""Node classes that are evaluated before other calls run: about ten milliseconds."""


CLASSIFIED = 250
"""Nodes whose class is computed before other calls run: about ten milliseconds."""


class Feasibility:
    """Evaluations of pods against all ledgers; each holds until a ledger changes.

    Attributes:
        ledgers: of all nodes.
    """

    def __init__(self, ledgers: LedgerCache, quotas: Quotas) -> None:
        self.ledgers = ledgers
        self._quotas = quotas
        self._cache = FeasibilityCache()
        self._evaluations: dict[str, tuple[PodRequest, NodeEvaluation]] = {}
        self._revision = (-1, -1)

    @property
    def revision(self) -> tuple[int, int]:
        """Changes whenever anything does that an evaluation depends on."""
        return self.ledgers.revision, self._quotas.revision

    def evaluate(self, pod: PodRequest) -> NodeEvaluation:
        """Return all nodes as they are now, for one pod; the same object until a ledger changes."""
        revision = self.revision
        if self._revision != revision:
            self._revision = revision
            self._evaluations.clear()
        uid = pod.request.uid
        known = self._evaluations.get(uid)
        if known is not None and known[0] is pod:
            return known[1]
        found = self.evaluate_request(pod.request)
        self._evaluations[uid] = (pod, found)
        if len(self._evaluations) > EVALUATIONS:
            del self._evaluations[next(iter(self._evaluations))]
        return found

    def evaluate_request(self, request: Request) -> NodeEvaluation:
        """Return all nodes as they are now, for a request; it is not kept."""
        return self._cache.evaluate(
            request,
            self.ledgers.inventory,
            self.ledgers.problems().keys(),
            self._quotas.refusal(request),
        )

    def over_quota(self, holder: PodRef, amounts: QuotaAmounts) -> str | None:
        """Return why the quota of a pod's namespace refuses some amounts.

        None where it does not.
        """
        return self._quotas.refusal_of(holder, amounts)

    def fits_any(self, pod: PodRequest) -> bool:
        """Return whether a pod fits any node now."""
        return any(map(self.evaluate(pod).fits, self.ledgers.inventory.names()))

    async def fitting(self, pod: PodRequest, names: NodeNames) -> Mask:
        """Return which nodes the pod fits, in the order of the names.

        Other calls run in between.
        """
        while not self.evaluate(pod).warm(names.rows(self.ledgers.inventory), STEP):
            await asyncio.sleep(0)
        evaluation = self.evaluate(pod)
        return evaluation.fitting(names.rows(evaluation.inventory)) | self._undescribed(
            evaluation, names
        )

    async def rejections(self, pod: PodRequest, names: NodeNames, selected: Mask) -> NodeRejections:
        """Return why a pod does not fit some of the nodes; other calls run in between.

        Args:
            pod: the pod that does not fit them.
            names: nodes, which the pod fits or not.
            selected: those of them that the pod does not fit.
        """
        rejected = names.select(selected)
        while not self.evaluate(pod).classify(rejected.rows(self.ledgers.inventory), CLASSIFIED):
            await asyncio.sleep(0)
        return reject(self.evaluate(pod), rejected)

    def ranks(self, pod: PodRequest, names: NodeNames) -> Numbers | None:
        """Return how good the nodes are beside each other; more is better, 0 is no fit.

        In the order of the names. Runs ``fit`` for all node classes that ``fitting`` has not seen.
        None where some of the nodes give the pod none of their cards: no preference for nodes of
        the ledger, or against them, is ours to state.
        """
        evaluation = self.evaluate(pod)
        rows = names.rows(evaluation.inventory)
        if (evaluation.untouched(rows) | self._undescribed(evaluation, names)).any():
            return None
        return evaluation.ranks(rows)

    def _undescribed(self, evaluation: NodeEvaluation, names: NodeNames) -> Mask:
        """Return which nodes the inventory does not know: a device plugin may serve the pod."""
        rows = names.rows(evaluation.inventory)
        if evaluation.request.plugin is None:
            return np.zeros(rows.size, np.bool_)
        undescribed: Mask = rows == len(evaluation.inventory)
        unreadable = self.ledgers.problems().keys()
        if unreadable and undescribed.any():
            undescribed &= [name not in unreadable for name in names.names]
        return undescribed


def scaled(values: Mapping[str, tuple[int, ...] | None], most: int) -> dict[str, int]:
    """Scores by ``spread``, in the order of the values; None is below every value."""
    keys = [(0,) if value is None else (1, *value) for value in values.values()]
    order = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    ranks = np.array([order[key] for key in keys], np.int64)
    return dict(zip(values, spread(ranks, most).tolist(), strict=True))


def spread(ranks: Numbers, most: int) -> Numbers:
    """Scores from 0 to ``most``, in the order of the ranks.

    With up to ``most`` + 1 different ranks they are spread evenly and the order is kept exactly;
    with more, the best ``most`` of them get different scores and all others get 0. Where all are
    equal, so are the scores: 0.
    """
    if not ranks.size or (ranks == ranks[0]).all():  # of a dialect that prefers no node; no sort
        return np.zeros(ranks.size, np.int64)
    distinct, place = np.unique(ranks, return_inverse=True)
    last = len(distinct) - 1
    behind = last - place
    kept: Numbers = most * behind // last if last <= most else np.minimum(behind, most)
    return most - kept
