"""Which nodes fit a pod, by the names that a scheduler sends, against the ledgers of now."""

import asyncio

import numpy as np

from adapters.accounting.pod_requests import PodRequest
from adapters.service.decide.advice.rejections import NodeRejections, reject
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from core.feasibility.cache import FeasibilityCache
from core.feasibility.columns import Mask, Numbers
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.node_names import NodeNames
from core.quota.amounts import QuotaAmounts
from core.requests.pod_ref import PodRef
from core.requests.request import Request

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
        """All nodes as they are now, for one pod; the same object until a ledger changes."""
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
        """All nodes as they are now, for a request; it is not kept."""
        return self._cache.evaluate(
            request,
            self.ledgers.inventory,
            self.ledgers.problems().keys(),
            self._quotas.refusal(request),
        )

    def over_quota(self, holder: PodRef, amounts: QuotaAmounts) -> str | None:
        """Why the quota of a pod's namespace refuses some amounts; None where it does not."""
        return self._quotas.refusal_of(holder, amounts)

    def fits_any(self, pod: PodRequest) -> bool:
        """Whether a pod fits any node now."""
        return any(map(self.evaluate(pod).fits, self.ledgers.inventory.names()))

    async def fitting(self, pod: PodRequest, names: NodeNames) -> Mask:
        """Which nodes the pod fits, in the order of the names; other calls run in between."""
        while not self.evaluate(pod).warm(names.rows(self.ledgers.inventory), STEP):
            await asyncio.sleep(0)
        evaluation = self.evaluate(pod)
        return evaluation.fitting(names.rows(evaluation.inventory)) | self._undescribed(
            evaluation, names
        )

    async def rejections(self, pod: PodRequest, names: NodeNames, selected: Mask) -> NodeRejections:
        """Why a pod does not fit some of the nodes; other calls run in between.

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
        """How good the nodes are beside each other: more is better, 0 where the pod does not fit.

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
        """Which nodes the inventory does not know, and a device plugin may serve the pod there."""
        rows = names.rows(evaluation.inventory)
        if evaluation.request.plugin is None:
            return np.zeros(rows.size, np.bool_)
        undescribed: Mask = rows == len(evaluation.inventory)
        unreadable = self.ledgers.problems().keys()
        if unreadable and undescribed.any():
            undescribed &= [name not in unreadable for name in names.names]
        return undescribed
