"""Results of earlier requests, for later ones that ask for the same.

The pods of one workload ask for the same thing, and the nodes of one cluster are of few classes:
``fit`` runs once for each pair.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable
from dataclasses import replace

from core.feasibility.equivalence import HardwareClassIds
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory
from core.feasibility.results import CLASSES, KeptResults, SignatureResults
from core.requests.request import Request

SIGNATURES = 128
"""Request signatures whose results are kept; the least recently used one goes first."""

RESULTS = 10 * CLASSES
"""Results by node class that are kept, of all signatures together."""


class FeasibilityCache:
    """The results by request signature. A result holds for a class of node, so it never expires."""

    def __init__(self) -> None:
        self._results: OrderedDict[Hashable, SignatureResults] = OrderedDict()
        self._kept = KeptResults()
        self._hardware_classes = HardwareClassIds(CLASSES)

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
        results = self._results.get(signature)
        if results is None:
            results = self._results[signature] = SignatureResults(inventory, self._kept)
        self._results.move_to_end(signature)
        self._evict()
        results.prepare(inventory)
        return NodeEvaluation(
            request, inventory, results, self._hardware_classes, unreadable, refusal
        )

    def _evict(self) -> None:
        while len(self._results) > (SIGNATURES if self._kept.count <= RESULTS else 1):
            _, oldest = self._results.popitem(last=False)
            oldest.leave()


def request_signature(request: Request) -> Hashable:
    """What a request asks for, without the pod that asks: equal where every result is equal."""
    return replace(request, uid="", pod="", member_of=None, notes=(), priority=0)
