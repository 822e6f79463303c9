"""The names of a request's nodes: one value with the rows of an inventory.

Names are strings, found in the inventory's dictionary. A hash table of NumPy arrays, which compared
the bytes of all names at once, saved 1.7 ms of a filter with 5,000 names, and nothing with 1,000.

The value remembers the rows that it has, as long as no node comes or goes: a filter asks several
times, and ``prioritize`` asks about the names that the filter selected.

If you change this, also change: ``adapters/wire/node_names.py``, which reads and checks the names;
the table of caches in ``docs/concepts/architecture.md``; ``docs/designs/names-and-caches.md``.
"""

from collections.abc import Iterable
from itertools import compress

from core.feasibility.columns import Mask, Rows
from core.feasibility.inventory import Inventory


class NodeNames:
    """The names of nodes in an order, of which the first of equally good ones wins.

    The inventory may lack some. One object serves all requests that name the same nodes.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._known: tuple[Inventory, int, Rows] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Each name."""
        return self._names

    def __len__(self) -> int:
        return len(self._names)

    def name(self, position: int) -> str:
        """The name at a position."""
        return self._names[position]

    def rows(self, inventory: Inventory) -> Rows:
        """The row of each node, in order; computed again only after nodes came or went."""
        known, version = self._known, inventory.membership_version
        if known is not None and known[0] is inventory and known[1] == version:
            return known[2]
        rows = inventory.rows(self._names)
        self._known = (inventory, version, rows)
        return rows

    def select(self, selected: Mask) -> "NodeNames":
        """The selected names with the rows that are known of them; this object where all are."""
        if selected.all():
            return self
        selection = NodeNames(compress(self._names, selected.tobytes()))
        if self._known is not None:
            inventory, version, rows = self._known
            selection._known = (inventory, version, rows[selected])
        return selection

    def array(self) -> bytes:
        """The JSON array of names that JSON does not escape."""
        return b'["%b"]' % '","'.join(self._names).encode() if self._names else b"[]"
