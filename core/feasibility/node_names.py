"""The names of a request's nodes: one value with the rows of an inventory.

Two engines answer, chosen by the reader of the request, and by nothing after it:

* ``NodeNames``: a tuple of strings, found in the inventory's dictionary.
* ``QuotedNames``: the JSON array as it came, found in the inventory's ``NameTable``; a string is
  made for a name only where one is needed.

Processor time of a filter, strings for all sizes divided by arrays for all sizes (Nov 2026):

| names | 100 | 500 | 1,000 | 2,000 | 5,000 | 12,500 |
|---|---|---|---|---|---|---|
| strings / arrays | 0.75 | 0.9 | 1.2 | 1.6 | 1.4 | 2.3 |

Both remember the rows that they have, as long as no node comes or goes: a filter asks several
times, and ``prioritize`` asks about the names that the filter selected.

If you change this, also change: ``adapters/wire/node_names.py``, which reads and checks the array;
the table of caches in ``docs/concepts/architecture.md``; ``docs/designs/names-and-caches.md``.
"""

from collections.abc import Iterable
from itertools import compress

import numpy as np

from core.feasibility.columns import Mask, Numbers, Rows
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
        rows = self._find(inventory)
        self._known = (inventory, version, rows)
        return rows

    def select(self, selected: Mask) -> "NodeNames":
        """The selected names with the rows that are known of them; this object where all are."""
        if selected.all():
            return self
        selection = self._select(selected)
        if self._known is not None:
            inventory, version, rows = self._known
            selection._known = (inventory, version, rows[selected])
        return selection

    def array(self) -> bytes:
        """The JSON array of names that JSON does not escape."""
        return b'["%b"]' % '","'.join(self._names).encode() if self._names else b"[]"

    def _find(self, inventory: Inventory) -> Rows:
        return inventory.rows(self._names)

    def _select(self, selected: Mask) -> "NodeNames":
        return NodeNames(compress(self._names, selected.tobytes()))


class QuotedNames(NodeNames):
    """Names that stay in their JSON array: ``["a","b"]``, without white space and escapes."""

    def __init__(self, array: bytes, lengths: Numbers) -> None:
        """Keep an array.

        Args:
            array: printable ASCII; no name has a quote or a backslash.
            lengths: of each name, its characters.
        """
        super().__init__(())
        self._array = array
        self._lengths = lengths
        # Around each name are two quotes, and a comma or bracket precedes it.
        self._starts = np.cumsum(lengths + 3) - lengths - 1

    @property
    def names(self) -> tuple[str, ...]:
        """Each name, decoded by each question: kept strings would fill the processor's cache."""
        return tuple(self._array[2:-2].decode().split('","')) if len(self) else ()

    def __len__(self) -> int:
        return int(self._lengths.size)

    def name(self, position: int) -> str:
        """The name at a position."""
        start = int(self._starts[position])
        return self._array[start : start + int(self._lengths[position])].decode()

    def array(self) -> bytes:
        """The JSON array."""
        return self._array

    def _find(self, inventory: Inventory) -> Rows:
        return inventory.name_table().rows(self._array, self._starts, self._lengths)

    def _select(self, selected: Mask) -> "NodeNames":
        # Each item is a name, its quotes, and the comma or bracket that follows.
        letters = np.frombuffer(self._array, np.uint8)[1:]
        items = letters[np.repeat(selected, self._lengths + 3)]
        return QuotedNames(b"[%b]" % items[:-1].tobytes(), self._lengths[selected])
