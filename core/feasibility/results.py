"""What earlier evaluations found for requests that ask for the same, by class of node."""

from dataclasses import dataclass

import numpy as np

from core.feasibility.columns import Numbers
from core.feasibility.inventory import Inventory
from core.requests.grant import Grant
from core.requests.reason import Reason

CLASSES = 20_000
"""Node classes, and hardware classes, whose results are kept for one request signature."""

NodeResult = tuple[int, ...] | Reason
"""How good a node is by each of the request's criteria for nodes, higher is better; or why the
request does not fit it, without the node's name."""

CardChoice = tuple[tuple[int, Grant], ...]
"""The grants of a placement, each with the position of its card on the node."""

NO_CLASS = -1
"""The class id in a row that was not evaluated yet."""

REJECTED = -1
"""The value id of a node that the request does not fit."""


FITS = -1
"""The reason id of a node that the request fits."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a request does not fit a node.

    Attributes:
        reason: for this node.
        unresolvable: the request would not fit either if the node were empty.
    """

    reason: Reason
    unresolvable: bool


class KeptResults:
    """How many results by node class all request signatures of a cache keep together."""

    def __init__(self) -> None:
        self.count = 0


class SignatureResults:
    """The results of one request signature.

    Attributes:
        by_class: by class id of a node.
        unresolvable: by class id of a node's hardware, whether the empty node is too small.
        placements: by class id of a node, the position of each grant's card, and the grant on
            the node for which it was computed.
        by_row: the same results as ``by_class``, for NumPy.
    """

    def __init__(self, inventory: Inventory, kept: KeptResults) -> None:
        self.by_class: dict[int, NodeResult] = {}
        self.placements: dict[int, CardChoice] = {}
        self.unresolvable: dict[int, bool] = {}
        self.by_row = _RowResults(inventory)
        self._inventory = inventory
        self._kept = kept

    def keep(self, class_id: int, result: NodeResult) -> NodeResult:
        """Keep the result of a node class that has none yet."""
        self._kept.count += 1
        self.by_class[class_id] = result
        return result

    def keep_placement(self, class_id: int, choice: CardChoice) -> None:
        """Keep the cards that the request gets on a node class that has none yet."""
        self._kept.count += 1
        self.placements[class_id] = choice

    def drop(self) -> None:
        """Drop all results by node class."""
        self._kept.count -= len(self.by_class) + len(self.placements)
        self.by_class.clear()
        self.placements.clear()

    def leave(self) -> None:
        """Count no longer: the cache does not keep these results, at most an evaluation does."""
        self._kept.count -= len(self.by_class) + len(self.placements)
        self._kept = KeptResults()

    def prepare(self, inventory: Inventory) -> None:
        """Drop what does not hold for an inventory, and what is too much to keep."""
        if self._inventory is not inventory:  # which gives out class ids of its own
            self._inventory = inventory
            self.drop()
            self.by_row = _RowResults(inventory)
        if max(len(self.by_class), len(self.placements)) > CLASSES:
            self.drop()
        if len(self.unresolvable) > CLASSES:
            self.unresolvable.clear()
        if self.by_row.is_outdated(inventory):
            self.by_row = _RowResults(inventory)


class _RowResults:
    """The results as columns, so that NumPy answers for thousands of nodes at once.

    Three index spaces meet here. A *row* is a node's position in the inventory, and one row more
    stands for unknown nodes (``core.feasibility.columns``). A *class id* in a row is the node's
    when its result was noted: every change of the node's ledger gives the node another class id,
    so a row whose class id is not the inventory's is stale. A *value id* is the position of a
    tuple of values in ``distinct``, so that equal tuples are one number.

    Attributes:
        class_ids: by row; ``NO_CLASS`` where nothing was noted.
        value_ids: by row; ``REJECTED`` where the request did not fit, or nothing was noted.
        reason_ids: by row; ``FITS`` where the request fits, or nothing was noted.
        distinct: the value id of each tuple of values that was found.
        reasons: the reason id of each reason that was found, without the name of a node.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.distinct: dict[tuple[int, ...], int] = {}
        self.reasons: dict[Reason, int] = {}
        self.class_ids = np.full(len(inventory) + 1, NO_CLASS)
        self.value_ids = np.full(len(inventory) + 1, REJECTED)
        self.reason_ids = np.full(len(inventory) + 1, FITS)
        self._version = inventory.membership_version
        self._worth = np.zeros(1, np.int64)

    def is_outdated(self, inventory: Inventory) -> bool:
        """Whether the rows are other nodes' now, or the values are too many to keep."""
        found = max(len(self.distinct), len(self.reasons))
        return self._version != inventory.membership_version or found > CLASSES

    def value_id(self, result: NodeResult) -> int:
        """The value id of a result; a new one for values that were not found before."""
        if isinstance(result, Reason):
            return REJECTED
        return self.distinct.setdefault(result, len(self.distinct))

    def reason_id(self, result: NodeResult) -> int:
        """The reason id of a result; a new one for a reason that was not found before."""
        if not isinstance(result, Reason):
            return FITS
        return self.reasons.setdefault(result, len(self.reasons))

    def note(self, row: int, class_id: int, result: NodeResult) -> None:
        """Keep the result of a row, for as long as its node has this class id."""
        self.class_ids[row] = class_id
        self.value_ids[row] = self.value_id(result)
        self.reason_ids[row] = self.reason_id(result)

    def worth(self) -> Numbers:
        """By value id, how good its values are beside the others: 0 is the worst.

        The last cell, which is that of ``REJECTED``, has 0.
        """
        if len(self._worth) != len(self.distinct) + 1:
            order = {value: rank for rank, value in enumerate(sorted(self.distinct))}
            self._worth = np.array([*(order[value] for value in self.distinct), 0], np.int64)
        return self._worth
