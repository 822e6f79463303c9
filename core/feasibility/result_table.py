"""The results of one request signature for all nodes of an inventory, in one table.

``fit`` runs once for each class of nodes; the table has the result for each row, so that NumPy
answers for thousands of nodes at once.

Index spaces:

* *row*: a node's position in the inventory; one row more stands for unknown nodes
  (``core.feasibility.columns``).
* *class id* (``Inventory.node_class``): equal for nodes that differ only in names and uuids.
  Every change of a node's ledger gives the node another class id.
* *result id*: the position of a result in ``results``, so that equal results are one number.

| column | index | sentinel |
|---|---|---|
| ``_class_ids`` | row | ``NO_CLASS``: no result was noted for the row |
| ``_result_ids`` | row | ``NO_RESULT``: no result was noted, or none is wanted |
| ``fits``, ``worth`` | result id | the last cell, that of ``NO_RESULT``: does not fit, worth 0 |

A row is stale where its class id is not the inventory's: then its result is another state's. A
result of a class is never stale.

If you change what a result depends on, also change ``core.feasibility.columns`` (what makes a
class) and ``request_signature`` (what makes a table).
"""

from collections.abc import Hashable

import numpy as np

from core.feasibility.columns import Mask, Numbers, Rows
from core.feasibility.inventory import NO_CLASS, Inventory
from core.requests.reason import Reason

CLASSES = 20_000
"""Classes and results that are kept for one request signature."""

NO_RESULT = -1
"""The result id of a row for which no result was noted."""

NodeResult = tuple[int, ...] | Reason
"""How good a node is by each of the request's criteria for nodes, higher is better; or why the
request does not fit it, without the node's name."""


class ResultTable:
    """The results of one request signature.

    Attributes:
        inventory: whose rows and class ids these are.
        results: every result once, by result id.
        by_class: by class id, the result id.
        unresolvable: by class id of a node without allocations, whether it is too small.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.results: list[NodeResult] = []
        self.by_class: dict[int, int] = {}
        self.unresolvable: dict[int, bool] = {}
        self._id_of: dict[NodeResult, int] = {}
        self._fits = np.zeros(1, np.bool_)
        self._worth = np.zeros(1, np.int64)
        self._clear_rows()

    def __len__(self) -> int:
        """Return how many results by class the table keeps."""
        return len(self.by_class) + len(self.unresolvable)

    @property
    def is_full(self) -> bool:
        """Whether the table has more than is worth its memory."""
        return max(len(self), len(self.results)) > CLASSES

    def renumber(self) -> None:
        """Drop the results by row if the rows are other nodes' now."""
        if self._version != self.inventory.membership_version:
            self._clear_rows()

    def result_id(self, result: NodeResult) -> int:
        """Return the result id of a result; a new one where it was not found before."""
        known = self._id_of.setdefault(result, len(self.results))
        if known == len(self.results):
            self.results.append(result)
        return known

    def note(self, row: int, class_id: int, result_id: int) -> None:
        """Keep the result of a row, for as long as its node has this class id."""
        self._class_ids[row] = class_id
        self._result_ids[row] = result_id

    def stale(self, rows: Rows) -> Mask:
        """Return which rows have no result noted for the class that their nodes have now."""
        class_ids = self.inventory.node_classes()[rows]
        stale: Mask = class_ids == NO_CLASS
        stale |= class_ids != self._class_ids[rows]
        return stale

    def result_ids(self, rows: Rows) -> Numbers:
        """Return the result id that was noted for each row."""
        result_ids: Numbers = self._result_ids[rows]
        return result_ids

    def fits(self) -> Mask:
        """By result id, whether the request fits."""
        self._update()
        return self._fits

    def worth(self) -> Numbers:
        """By result id, how good it is beside the others that fit: 0 is the worst of them."""
        self._update()
        return self._worth

    def reasons(self, result_ids: Numbers) -> tuple[Reason, ...]:
        """Return the reasons among some results, in their order."""
        positions: list[int] = result_ids.tolist()
        results = map(self.results.__getitem__, positions)
        return tuple(result for result in results if isinstance(result, Reason))

    def _update(self) -> None:
        if len(self._fits) == len(self.results) + 1:
            return
        values = sorted(each for each in self.results if not isinstance(each, Reason))
        order: dict[Hashable, int] = {value: rank for rank, value in enumerate(values)}
        fits = [not isinstance(each, Reason) for each in self.results]
        self._fits = np.array([*fits, False], np.bool_)
        self._worth = np.array([*(order.get(each, 0) for each in self.results), 0], np.int64)

    def _clear_rows(self) -> None:
        self._version = self.inventory.membership_version
        self._class_ids = np.full(len(self.inventory) + 1, NO_CLASS)
        self._result_ids = np.full(len(self.inventory) + 1, NO_RESULT)
