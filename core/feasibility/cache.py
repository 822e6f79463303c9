"""Results of earlier requests, for later ones that ask for the same.

The pods of one workload ask for the same thing, and the nodes of one cluster are of few classes:
``fit`` runs once for each pair.
"""

from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace

import numpy as np

from core.feasibility.columns import Mask, Numbers, Rows
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import CLASSES, Inventory, NodeNames, ResultTable
from core.requests.decision import NodeReasons
from core.requests.grant import Placement
from core.requests.reason import Cause, Reason
from core.requests.request import Request


class RefusedEvaluation(NodeEvaluation):
    """Answers as ``NodeEvaluation`` does; ``fit`` runs for no node."""

    def __init__(
        self, request: Request, table: ResultTable, unreadable: Collection[str], refusal: str
    ) -> None:
        """Evaluate a request; ``refusal`` is why the namespace's quota refuses it, a sentence."""
        super().__init__(request, table, unreadable)
        self.refusal = self._cause = refusal

    def warm(self, rows: Rows, max_classes: int) -> bool:  # noqa: ARG002
        """Return True: ``fitting`` is fast."""
        return True

    def classify(self, rows: Rows, most: int) -> bool:  # noqa: ARG002
        """Return True: ``groups`` is fast."""
        return True

    def prepare(self, rows: Rows, most: int) -> bool:  # noqa: ARG002
        """Return True: ``explain`` is fast."""
        return True

    def groups(self, rows: Rows) -> Numbers:
        """Return one number: the result is the same for all nodes."""
        return np.zeros(rows.size, np.int64)

    def fitting(self, rows: Rows) -> Mask:
        """Return which of some nodes give the pod none of their cards."""
        return self.untouched(rows)

    def ranks(self, rows: Rows) -> Numbers:
        """Return 1 for nodes that give the pod none of their cards, else 0."""
        return self.untouched(rows).astype(np.int64)

    def fits(self, name: str) -> bool:
        """Return whether one node gives the pod none of its cards."""
        return self.is_untouched(name)

    def values(self, name: str) -> tuple[int, ...] | None:
        """Return nothing where the pod gets no card of the node, else None."""
        return () if self.is_untouched(name) else None

    def best(self, selection: NodeNames | None = None) -> Placement | None:
        """Return a placement without cards on the first node that gives the pod none."""
        first = next(filter(self.is_untouched, self.names(selection)), None)
        return None if first is None else Placement(first, ())

    def explain(self, selection: NodeNames | None = None) -> NodeReasons:
        """Return the quota as the reason of each node that does not fit."""
        return NodeReasons.of(self.reasons(self.names(selection)))

    def reasons(self, names: Iterable[str], max_classes: int | None = None) -> dict[str, Reason]:  # noqa: ARG002
        """Return the quota as the reason of each node, of some, that does not fit."""
        return {
            name: Reason(name, 0, cause=Cause.QUOTA, detail=self._cause)
            for name in names
            if not self.is_untouched(name)
        }

    def is_unresolvable(self, name: str) -> bool:  # noqa: ARG002
        """Return True: no eviction makes room in a quota."""
        return True


SIGNATURES = 128
"""Request signatures whose results are kept; the least recently used one goes first."""

RESULTS = 10 * CLASSES
"""Results by node class that are kept, of all signatures together."""


class FeasibilityCache:
    """Result tables by request signature; results belong to classes of nodes and never expire."""

    def __init__(self) -> None:
        # No OrderedDict: its iterators hash each key again, and a signature takes 25 us to hash.
        self._tables: dict[Hashable, ResultTable] = {}

    def evaluate(
        self,
        request: Request,
        inventory: Inventory,
        unreadable: Collection[str] = (),
        refusal: str | None = None,
    ) -> NodeEvaluation:
        """Return the request against all nodes as they are now.

        Args:
            request: what the pod asks for.
            inventory: all nodes; the evaluation holds until the inventory changes.
            unreadable: nodes that have a ledger which cannot be read. The inventory does not
                know them; they are rejected for that reason until the ledger is repaired.
            refusal: why the quota of the namespace refuses the request; None where it does not.
        """
        signature = request_signature(request)
        table = self._tables.pop(signature, None)
        if table is None or table.inventory is not inventory or table.is_full:
            table = ResultTable(inventory)
        self._tables[signature] = table
        if sum(map(len, self._tables.values())) > RESULTS:
            self._tables = {signature: table}
        elif len(self._tables) > SIGNATURES:
            del self._tables[next(iter(self._tables))]
        table.renumber()
        if refusal is not None:
            return RefusedEvaluation(request, table, unreadable, refusal)
        return NodeEvaluation(request, table, unreadable)


def request_signature(request: Request) -> Hashable:
    """Return what a request asks for, without its pod: equal where every result is equal."""
    return replace(request, uid="", pod="", terms=request.terms.of_any_member, notes=(), priority=0)
