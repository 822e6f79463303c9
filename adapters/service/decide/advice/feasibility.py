"""Which nodes fit a pod, by the names that a scheduler sends, against the ledgers of now."""

import asyncio
from weakref import WeakKeyDictionary

import numpy as np

from adapters.accounting.pod_requests import CACHED_BYTES, PodRequest
from adapters.service.decide.advice.rejections import NodeRejections, reject
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.wire.names.name_index import NameIndex, NameList
from core.feasibility.arrays import Mask, Numbers, Rows
from core.feasibility.cache import FeasibilityCache
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory

EVALUATIONS = 256
"""Pods whose evaluation is kept until a ledger changes, of ``CACHED_BYTES`` together."""

STEP = 25
"""Node classes that are evaluated before other calls run: about ten milliseconds."""


CLASSIFIED = 250
"""Nodes whose class is computed before other calls run: about ten milliseconds."""


class Feasibility:
    """Evaluations of pods against all ledgers; each holds until a ledger changes."""

    def __init__(self, ledgers: LedgerCache, quotas: Quotas) -> None:
        self._ledgers = ledgers
        self._quotas = quotas
        self._cache = FeasibilityCache()
        self._evaluations: dict[str, tuple[PodRequest, NodeEvaluation]] = {}
        self._bytes = 0
        self._revision = (-1, -1)
        self._index: tuple[Inventory, int, NameIndex] | None = None
        self._rows: WeakKeyDictionary[NameList, Rows] = WeakKeyDictionary()

    def evaluate(self, pod: PodRequest) -> NodeEvaluation:
        """All nodes as they are now, for one pod; the same object until a ledger changes."""
        revision = self._ledgers.revision, self._quotas.revision
        is_full = len(self._evaluations) > EVALUATIONS or self._bytes > CACHED_BYTES
        if self._revision != revision or is_full:
            self._revision = revision
            self._evaluations.clear()
            self._bytes = 0
        uid = pod.request.uid
        known = self._evaluations.get(uid)
        if known is not None and known[0] is pod:
            return known[1]
        ledgers = self._ledgers
        evaluation = self._cache.evaluate(
            pod.request,
            ledgers.inventory,
            ledgers.problems().keys(),
            self._quotas.refusal(pod.request),
        )
        self.forget(uid)
        self._evaluations[uid] = (pod, evaluation)
        self._bytes += pod.size
        return evaluation

    async def fitting(self, pod: PodRequest, names: NameList) -> Mask:
        """Which nodes the pod fits, in the order of the names; other calls run in between."""
        while not self.evaluate(pod).warm(self.rows(names), STEP):
            await asyncio.sleep(0)
        evaluation, rows = self.evaluate(pod), self.rows(names)
        return evaluation.fitting(rows) | self._undescribed(evaluation, names)

    async def rejections(self, pod: PodRequest, names: NameList, selected: Mask) -> NodeRejections:
        """Why a pod does not fit some of the nodes; other calls run in between.

        Args:
            pod: the pod that does not fit them.
            names: nodes, which the pod fits or not.
            selected: those of them that the pod does not fit.
        """
        rejected = names.select(selected)
        while not self.evaluate(pod).classify(self.rows(names)[selected], CLASSIFIED):
            await asyncio.sleep(0)
        evaluation = self.evaluate(pod)
        return reject(evaluation, rejected, evaluation.groups(self.rows(names)[selected]))

    def ranks(self, pod: PodRequest, names: NameList) -> Numbers | None:
        """How good the nodes are beside each other: more is better, 0 where the pod does not fit.

        In the order of the names. Runs ``fit`` for all node classes that ``fitting`` has not seen.
        None where some of the nodes give the pod none of their cards: no preference for nodes of
        the ledger, or against them, is ours to state.
        """
        evaluation, rows = self.evaluate(pod), self.rows(names)
        if (evaluation.untouched(rows) | self._undescribed(evaluation, names)).any():
            return None
        return evaluation.ranks(rows)

    def rows(self, names: NameList) -> Rows:
        """The inventory's row of each node. Of one list of names they are looked up once."""
        index = self._name_index()
        rows = self._rows.get(names)
        if rows is None:
            rows = self._rows[names] = index.rows(names)
        return rows

    def select(self, names: NameList, selected: Mask) -> NameList:
        """The list of some names of a list; their rows are not looked up again."""
        selection = names.selection(selected)
        if selection is not names:
            self._rows[selection] = self.rows(names)[selected]
        return selection

    def forget(self, uid: str) -> None:
        """Drop the evaluation of a pod that was deleted."""
        known = self._evaluations.pop(uid, None)
        if known is not None:
            self._bytes -= known[0].size

    def _undescribed(self, evaluation: NodeEvaluation, names: NameList) -> Mask:
        """Which nodes the inventory does not know, and a device plugin may serve the pod there."""
        rows = self.rows(names)
        if evaluation.request.plugin is None:
            return np.zeros(rows.size, np.bool_)
        undescribed: Mask = rows == len(evaluation.inventory)
        unreadable = self._ledgers.problems().keys()
        if unreadable and undescribed.any():
            undescribed &= [name not in unreadable for name in names.strings()]
        return undescribed

    def _name_index(self) -> NameIndex:
        """The index of all nodes, built again when nodes were added or removed."""
        inventory = self._ledgers.inventory
        known = self._index
        if known is None or known[0] is not inventory or known[1] != inventory.membership_version:
            index = NameIndex(inventory.names())
            known = self._index = (inventory, inventory.membership_version, index)
            self._rows.clear()
        return known[2]
