"""What earlier evaluations found for requests that ask for the same, by class of node."""

from dataclasses import dataclass

import numpy as np

from core.feasibility.inventory import Inventory
from core.requests.reason import Reason

CLASSES = 20_000
"""Node classes, and hardware classes, whose results are kept for one request signature."""

NodeResult = tuple[int, ...] | Reason
"""How good a node is by each of the request's criteria for nodes, higher is better; or why the
request does not fit it."""

NO_CLASS = -1
"""The class id in a row that was not evaluated yet."""

REJECTED = -1
"""The value id of a node that the request does not fit."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a request does not fit a node.

    Attributes:
        reason: for this node.
        unresolvable: the request would not fit either if the node were empty.
    """

    reason: Reason
    unresolvable: bool


class SignatureResults:
    """The results of one request signature.

    Attributes:
        by_class: by class id of a node.
        unresolvable: by class id of a node's hardware, whether the empty node is too small.
        by_row: the same results as ``by_class``, for NumPy.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.by_class: dict[int, NodeResult] = {}
        self.unresolvable: dict[int, bool] = {}
        self.by_row = _RowResults(inventory)
        self._inventory = inventory

    def prepare(self, inventory: Inventory) -> None:
        """Drop what does not hold for an inventory, and what is too much to keep."""
        if self._inventory is not inventory:  # which gives out class ids of its own
            self._inventory = inventory
            self.by_class.clear()
            self.by_row = _RowResults(inventory)
        if len(self.by_class) > CLASSES:
            self.by_class.clear()
        if len(self.unresolvable) > CLASSES:
            self.unresolvable.clear()
        if self.by_row.is_outdated(inventory):
            self.by_row = _RowResults(inventory)


class _RowResults:
    """The results as two columns, so that NumPy answers for thousands of nodes at once.

    Three index spaces meet here. A *row* is a node's position in the inventory, and one row more
    stands for unknown nodes (``core.feasibility.arrays``). A *class id* in a row is the node's
    when its result was noted: every change of the node's ledger gives the node another class id,
    so a row whose class id is not the inventory's is stale. A *value id* is the position of a
    tuple of values in ``distinct``, so that equal tuples are one number.

    Attributes:
        class_ids: by row; ``NO_CLASS`` where nothing was noted.
        value_ids: by row; ``REJECTED`` where the request did not fit, or nothing was noted.
        distinct: the value id of each tuple of values that was found.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.distinct: dict[tuple[int, ...], int] = {}
        self.class_ids = np.full(len(inventory) + 1, NO_CLASS)
        self.value_ids = np.full(len(inventory) + 1, REJECTED)
        self._version = inventory.membership_version

    def is_outdated(self, inventory: Inventory) -> bool:
        """Whether the rows are other nodes' now, or the values are too many to keep."""
        return self._version != inventory.membership_version or len(self.distinct) > CLASSES

    def value_id(self, result: NodeResult) -> int:
        """The value id of a result; a new one for values that were not found before."""
        if isinstance(result, Reason):
            return REJECTED
        return self.distinct.setdefault(result, len(self.distinct))

    def note(self, row: int, class_id: int, result: NodeResult) -> None:
        """Keep the result of a row, for as long as its node has this class id."""
        self.class_ids[row] = class_id
        self.value_ids[row] = self.value_id(result)
