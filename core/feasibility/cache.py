"""Results of earlier requests, for later ones that ask for the same.

The pods of one workload ask for the same thing, and the nodes of one cluster are of few classes:
``fit`` runs once for each pair.
"""

from collections.abc import Collection, Hashable
from dataclasses import replace

from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory
from core.feasibility.refused_evaluation import RefusedEvaluation
from core.feasibility.result_table import CLASSES, ResultTable
from core.requests.request import Request

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
        """The request against all nodes as they are now.

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
    """What a request asks for, without the pod that asks: equal where every result is equal."""
    return replace(request, uid="", pod="", terms=request.terms.of_any_member, notes=(), priority=0)
