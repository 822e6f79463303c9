"""The ledgers of many nodes, beside them their free capacity as arrays, and results by node.

The ledgers are the truth. The arrays mirror them, so that one comparison with all nodes takes
microseconds: ``candidates`` leaves out only nodes that ``fit`` would reject.

The names of a request's nodes are strings, found in a dictionary. A hash table of NumPy arrays,
which compared the bytes of all names at once, saved 1.7 ms of a filter with 5,000 names, and
nothing with 1,000 (``docs/designs/names-and-caches.md``). ``NodeNames`` remembers its rows as long
as no node comes or goes: ``dragoman schedule`` asks about the same names for thousands of pods.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import compress, repeat

import numpy as np
from numpy.typing import NDArray

from core.feasibility.columns import (
    CapacityTable,
    Mask,
    NodeClassIds,
    Numbers,
    Rows,
    hardware_class,
)
from core.feasibility.suitability import has_undescribed_cards
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import load
from core.requests.reason import Reason
from core.requests.request import NodeKey, Request, Weights

NO_CLASS = -1
"""The class id of a row whose class was not computed, and of an unknown node."""


class Inventory:
    """The ledgers of all nodes, in the order in which the nodes were first put.

    Attributes:
        membership_version: grows with each change of which nodes there are. Their order, and so
            the rows, change only with it.
    """

    def __init__(self, ledgers: Iterable[NodeLedger] = ()) -> None:
        self.membership_version = 0
        self._ledgers: dict[str, NodeLedger] = {}
        self._names: list[str] = []
        self._row_of: dict[str, int] = {}
        self._column_of: dict[str, tuple[CapacityTable, int]] = {}
        self._tables: dict[Hashable, CapacityTable] = {}
        self._of_card: dict[str, tuple[str, ...]] = {}
        self._of_pod: dict[str, tuple[str, ...]] = {}
        self._of_group: dict[str, tuple[str, ...]] = {}
        self._groups: dict[str, frozenset[str]] = {}
        self._undescribed: set[str] = set()
        self._class_ids = NodeClassIds()
        self._class_of = np.full(1, NO_CLASS, np.int64)
        for ledger in ledgers:
            self.put(ledger)

    def __len__(self) -> int:
        return len(self._ledgers)

    def __iter__(self) -> Iterator[NodeLedger]:
        return iter(self._ledgers.values())

    def ledger(self, node: str) -> NodeLedger:
        """Return the ledger of a node that the inventory knows."""
        return self._ledgers[node]

    def get(self, node: str) -> NodeLedger | None:
        """Return the ledger of a node; None where the node is not known."""
        return self._ledgers.get(node)

    def names(self) -> tuple[str, ...]:
        """Return all nodes, in order."""
        return tuple(self._names)

    def name(self, row: int) -> str:
        """Return the node of a row."""
        return self._names[row]

    def row(self, node: str) -> int:
        """Return the row of a node; ``len(self)`` where the node is not known."""
        return self._row_of.get(node, len(self._names))

    def rows(self, names: Collection[str] | None = None) -> Rows:
        """Return the row of each node, in the order of the names; all rows where None is given."""
        if names is None:
            return np.arange(len(self._names), dtype=np.int32)
        found = map(self._row_of.get, names, repeat(len(self._names)))
        return np.fromiter(found, np.int32, len(names))

    def nodes_of(self, uid: str) -> tuple[str, ...]:
        """Return the nodes on which a pod has an allocation."""
        return self._of_pod.get(uid, ())

    def nodes_of_group(self, group: str | None) -> frozenset[str]:
        """Return the nodes on which a member of a group has an allocation; none for None."""
        return frozenset(self._of_group.get(group or "", ()))

    def put(self, ledger: NodeLedger) -> None:
        """Add a node's ledger, or replace the earlier one."""
        name = ledger.node.name
        earlier = self._ledgers.get(name)
        if earlier is not None and earlier.node is ledger.node:
            table, column = self._column_of[name]
            table.update(column, earlier, ledger)
        else:
            if earlier is None:
                self.membership_version += 1
            else:
                self._leave(name)
            hardware = hardware_class(ledger.node)
            known = self._tables.get(hardware)
            table = self._tables[hardware] = CapacityTable(ledger.node) if known is None else known
            if earlier is None:
                self._row_of[name] = len(self._names)
                self._names.append(name)
            row = self._row_of[name]
            if row + 1 == self._class_of.size:
                self._class_of = np.append(self._class_of, np.full(row + 1, NO_CLASS))
            column = table.add(name, row)
            self._column_of[name] = (table, column)
            table.write(column, ledger)
            self._index_cards(ledger.node)
        self._ledgers[name] = ledger
        self._undescribed.discard(name)
        if has_undescribed_cards(ledger):
            self._undescribed.add(name)
        self._class_of[self._row_of[name]] = NO_CLASS
        uids = ledger.allocations.keys()
        for uid in uids if earlier is None else uids ^ earlier.allocations.keys():
            _toggle(self._of_pod, uid, name)
        groups = (one.terms.member_of for one in ledger.allocations.values())
        self._put_groups(name, frozenset(filter(None, groups)))

    def remove(self, node: str) -> None:
        """Remove a node; nothing happens where it is not known."""
        if node not in self._ledgers:
            return
        self.membership_version += 1
        self._leave(node)
        self._undescribed.discard(node)
        for uid in self._ledgers.pop(node).allocations:
            _toggle(self._of_pod, uid, node)
        self._put_groups(node, frozenset())
        self._class_of = np.append(np.delete(self._class_of, self._row_of[node]), NO_CLASS)
        self._names.remove(node)
        self._row_of = {name: row for row, name in enumerate(self._names)}
        for table in self._tables.values():
            table.renumber(self._row_of)

    def candidates(self, request: Request, names: Sequence[str] | None = None) -> list[str]:
        """Return the nodes that a request may fit by free capacity; ``fit`` rejects all others.

        Args:
            request: what the pod asks for.
            names: the nodes to compare, in the order of the answer; None for all of them.
                Unknown ones are left out.
        """
        mask = self.mask(request).tobytes()
        if names is None:
            return list(compress(self._names, mask))
        row_of, unknown = self._row_of.get, len(self._names)
        return [name for name in names if mask[row_of(name, unknown)]]

    def has_mig_cards(self) -> bool:
        """Return whether any node has a card in MIG mode."""
        return any(card.mode is Mode.MIG for card in self.models())

    def models(self) -> Iterator[Card]:
        """Healthy cards, one of each model of each hardware class."""
        for table in self._tables.values():
            yield from table.models

    def mask(self, request: Request) -> Mask:
        """Return whether the request may fit, by row; False in one more cell: an unknown node."""
        mask = np.zeros(len(self._names) + 1, np.bool_)
        for table in self._tables.values():
            table.mark_candidates(request, mask)
        for name in self._of_pod.get(request.uid, ()):
            mask[self._row_of[name]] = True
        if request.allow_uuids is not None:
            having = np.zeros(len(self._names) + 1, np.bool_)
            for uuid in request.allow_uuids:
                for name in self._of_card.get(uuid, ()):
                    having[self._row_of[name]] = True
            mask &= having
        return mask

    def not_ours(self) -> Mask:
        """Return what ``is_not_ours`` says, by row; False in one more cell, for an unknown node."""
        mask = np.zeros(len(self._names) + 1, np.bool_)
        for table in self._tables.values():
            if not table.models:
                mask[table.rows[: len(table.names)]] = True
        for name in self._undescribed:
            mask[self._row_of[name]] = False
        return mask

    def loads(self, weights: Weights) -> Numbers:
        """Return what ``core.placement.rank.load`` gives, by row; 0 in one more cell."""
        loads = np.zeros(len(self._names) + 1, np.int64)
        for table in self._tables.values():
            table.write_loads(self._ledgers, weights, loads)
        return loads

    def ranked(self, request: Request, candidates: Rows) -> Iterator[Rows]:
        """Candidates in groups that differ in the first criterion for nodes, best first.

        One group where that criterion depends on the chosen cards, or there is none. Nodes keep
        their order within a group.
        """
        first = next(iter(request.ranking.nodes), None)
        if first not in (NodeKey.FULLEST, NodeKey.EMPTIEST):
            yield candidates
            return
        loads = self.loads(request.ranking.weights)
        for name in self._of_pod.get(request.uid, ()):
            without_pod = self._ledgers[name].release(request.uid)
            loads[self._row_of[name]] = load(without_pod, request.ranking.weights)
        worth = (loads if first is NodeKey.FULLEST else -loads)[candidates]
        while candidates.size:
            best = worth == worth.max()
            yield candidates[best]
            candidates, worth = candidates[~best], worth[~best]

    def node_class(self, node: str) -> int:
        """Return the class id, equal for nodes that differ in nothing but names and uuids.

        The inventory must know the node. The number holds until the node is put again.
        """
        row = self._row_of[node]
        known = int(self._class_of[row])
        if known == NO_CLASS:
            known = self._class_ids.of(self._ledgers[node])
            self._class_of[row] = known
        return known

    def empty_class(self, node: str) -> int:
        """Return the class id of a node that the inventory knows, without its allocations."""
        return self._class_ids.of_node(self._ledgers[node].node)

    def node_classes(self) -> Numbers:
        """By row, the ``node_class`` as far as it was computed; else ``NO_CLASS``.

        One more cell, for an unknown node, has ``NO_CLASS`` too.
        """
        return self._class_of[: len(self._names) + 1]

    def columns(self) -> Iterator[tuple[NDArray[np.generic], ...]]:
        """Return the arrays, to be measured: the three that ``mask`` reads come first."""
        return (table.columns() for table in self._tables.values())

    def _put_groups(self, node: str, groups: frozenset[str]) -> None:
        for group in groups ^ self._groups.pop(node, frozenset()):
            _toggle(self._of_group, group, node)
        if groups:
            self._groups[node] = groups

    def _leave(self, name: str) -> None:
        table, column = self._column_of.pop(name)
        moved = table.remove(column)
        if moved != name:
            self._column_of[moved] = (table, column)
        node = self._ledgers[name].node
        if not table.names:
            del self._tables[hardware_class(node)]
        self._index_cards(node)

    def _index_cards(self, node: Node) -> None:
        for uuid in dict.fromkeys(card.uuid for card in node.cards):
            _toggle(self._of_card, uuid, node.name)


def _toggle(index: dict[str, tuple[str, ...]], key: str, name: str) -> None:
    """Add a name under a key, or remove it if it is there."""
    names = index.get(key)
    if names is None:
        index[key] = (name,)
        return
    others = tuple(other for other in names if other != name)
    if others == names:
        index[key] = (*names, name)
    elif others:
        index[key] = others
    else:
        del index[key]


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
        """Return the name at a position."""
        return self._names[position]

    def rows(self, inventory: Inventory) -> Rows:
        """Return the row of each node, in order; computed again only after nodes came or went."""
        known, version = self._known, inventory.membership_version
        if known is not None and known[0] is inventory and known[1] == version:
            return known[2]
        rows = inventory.rows(self._names)
        self._known = (inventory, version, rows)
        return rows

    def select(self, selected: Mask) -> "NodeNames":
        """Return the selected names with the rows that are known of them; itself where all are."""
        if selected.all():
            return self
        selection = NodeNames(compress(self._names, selected.tobytes()))
        if self._known is not None:
            inventory, version, rows = self._known
            selection._known = (inventory, version, rows[selected])
        return selection

    def array(self) -> bytes:
        """Return the JSON array of names that JSON does not escape."""
        return b'["%b"]' % '","'.join(self._names).encode() if self._names else b"[]"


CLASSES = 20_000
"""Classes and results that are kept for one request signature."""

NO_RESULT = -1
"""The result id of a row for which no result was noted."""

NodeResult = tuple[int, ...] | Reason
"""How good a node is by each of the request's criteria for nodes, higher is better; or why the
request does not fit it, without the node's name."""


class ResultTable:
    """The results of one request signature for all nodes of an inventory.

    ``fit`` runs once for each class of nodes; the table has the result for each row, so that NumPy
    answers for thousands of nodes at once. A *result id* is the position of a result in
    ``results``, so that equal results are one number.

    | column | index | sentinel |
    |---|---|---|
    | ``_class_ids`` | row | ``NO_CLASS``: no result was noted for the row |
    | ``_result_ids`` | row | ``NO_RESULT``: no result was noted, or none is wanted |
    | ``fits``, ``worth`` | result id | the last cell, of ``NO_RESULT``: does not fit, worth 0 |

    A row is stale where its class id is not the inventory's: then its result is another state's.
    A result of a class is never stale. If you change what a result depends on, also change
    ``NodeClassIds`` (what makes a class) and ``request_signature`` (what makes a table).

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
