"""The evaluation of a request that no node may fit, for a reason that is none of the nodes'."""

from collections.abc import Iterable

import numpy as np

from core.feasibility.arrays import Mask, Numbers, Rows
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.selection import NodeSelection
from core.requests.grant import Placement
from core.requests.node_reasons import NodeReasons
from core.requests.reason import Cause, Reason


class RefusedEvaluation(NodeEvaluation):
    """Every node is rejected for the quota of the namespace; no eviction is proposed.

    But for nodes that give the pod none of their cards: there nothing counts in a quota.
    """

    def __init__(self, evaluation: NodeEvaluation, detail: str) -> None:
        """Replace the answers of an evaluation.

        Args:
            evaluation: of the request.
            detail: why, as a sentence.
        """
        super().__init__(
            evaluation.request,
            evaluation.inventory,
            evaluation._shared,
            evaluation._hardware_classes,
            evaluation._unreadable,
        )
        self._detail = detail

    def warm(self, rows: Rows, max_classes: int) -> bool:  # noqa: ARG002
        """There is nothing to compute."""
        return True

    def classify(self, rows: Rows, most: int) -> bool:  # noqa: ARG002
        """There is nothing to compute."""
        return True

    def groups(self, rows: Rows) -> Numbers:
        """All nodes are one group."""
        return np.zeros(len(rows), np.int64)

    def fitting(self, rows: Rows) -> Mask:
        """Those that give the pod none of their cards."""
        return self.untouched(rows)

    def ranks(self, rows: Rows) -> Numbers:
        """1 for the nodes that fit, else 0."""
        return self.untouched(rows).astype(np.int64)

    def fits(self, name: str) -> bool:
        """Whether the node gives the pod none of its cards."""
        return self.is_untouched(name)

    def values(self, name: str) -> tuple[int, ...] | None:
        """Nothing for a node that gives the pod none of its cards; else None."""
        return () if self.is_untouched(name) else None

    def best(self, selection: NodeSelection | None = None) -> Placement | None:
        """The first node that gives the pod none of its cards."""
        names = self.inventory.names() if selection is None else selection.names
        first = next(filter(self.is_untouched, names), None)
        return None if first is None else Placement(first, ())

    def explain(self, selection: NodeSelection | None = None) -> NodeReasons:
        """The same reason for every node that does not fit."""
        names = self.inventory.names() if selection is None else selection.names
        return NodeReasons.of(self.reasons(names))

    def reasons(
        self,
        names: Iterable[str],
        max_classes: int | None = None,  # noqa: ARG002
    ) -> dict[str, Reason]:
        """The same reason for every node that does not fit."""
        return {
            name: Reason(name, 0, cause=Cause.QUOTA, detail=self._detail)
            for name in names
            if not self.is_untouched(name)
        }

    def _is_unresolvable(self, name: str) -> bool:  # noqa: ARG002
        return True
