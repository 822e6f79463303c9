"""Some nodes in an order, as names for people and as rows for NumPy."""

from collections.abc import Iterable

from core.feasibility.arrays import Rows
from core.feasibility.inventory import Inventory


class NodeSelection:
    """The nodes that a pod can run on. One selection serves all pods that select alike.

    Attributes:
        names: in order; the first of equally good nodes wins. The inventory may lack some.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._known: tuple[Inventory, int, Rows] | None = None

    def rows(self, inventory: Inventory) -> Rows:
        """The row of each node, in order; computed again only after nodes came or went."""
        known, version = self._known, inventory.membership_version
        if known is not None and known[0] is inventory and known[1] == version:
            return known[2]
        rows = inventory.rows(self.names)
        self._known = (inventory, version, rows)
        return rows
