"""The ledgers of many nodes, and beside them what their cards have left, as columns of numbers.

The ledgers are the truth. The columns mirror them, so that one look at all nodes takes
microseconds: ``candidates`` leaves out only nodes that ``fit`` would refuse.

Nodes whose cards are made alike share a table of one row a card and one column a node: what never
changes is decided once a table, and each comparison runs over all its nodes at once.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from core.card import Mode
from core.cell import Need, cell, needs
from core.ledger import NodeLedger
from core.likeness import Kinds, make, shape
from core.node import Node
from core.rank import load, shares
from core.request import NodeKey, Request, Weights
from core.usage import CardUse

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)

_NEVER = np.iinfo(np.int64).max
"""More bytes than any card has."""

_ROOM = 16
"""Nodes that a new table has room for; the room doubles when it is full."""


class Inventory:
    """The ledgers of all nodes, in the order in which the nodes were first put."""

    def __init__(self, ledgers: Iterable[NodeLedger] = ()) -> None:
        self._ledgers: dict[str, NodeLedger] = {}
        self._places: dict[str, int] = {}
        self._homes: dict[str, tuple[_Table, int]] = {}
        self._tables: dict[Hashable, _Table] = {}
        self._of_card: dict[str, tuple[str, ...]] = {}
        self._of_pod: dict[str, tuple[str, ...]] = {}
        self._kinds = Kinds()
        for ledger in ledgers:
            self.put(ledger)

    def __len__(self) -> int:
        return len(self._ledgers)

    def __iter__(self) -> Iterator[NodeLedger]:
        return iter(self._ledgers.values())

    def ledger(self, node: str) -> NodeLedger:
        """The ledger of a node that must be known."""
        return self._ledgers[node]

    def get(self, node: str) -> NodeLedger | None:
        """The ledger of a node; None where the node is not known."""
        return self._ledgers.get(node)

    def names(self) -> tuple[str, ...]:
        """All nodes, in order."""
        return tuple(self._ledgers)

    def nodes_of(self, uid: str) -> tuple[str, ...]:
        """The nodes on which a pod holds something."""
        return self._of_pod.get(uid, ())

    def put(self, ledger: NodeLedger) -> None:
        """Add a node's ledger, or put it in the place of the earlier one."""
        name = ledger.node.name
        earlier = self._ledgers.get(name)
        if earlier is not None and earlier.node is ledger.node:
            table, column = self._homes[name]
            table.update(column, earlier, ledger)
        else:
            if earlier is not None:
                self._leave(name)
            self._enter(name, ledger)
        self._ledgers[name] = ledger
        self._kinds.forget(name)
        before = () if earlier is None else earlier.allocations.keys()
        for uid in ledger.allocations.keys() ^ before:
            _turn(self._of_pod, uid, name)

    def remove(self, node: str) -> None:
        """Forget a node; nothing happens where it is not known."""
        if node not in self._ledgers:
            return
        self._leave(node)
        self._kinds.forget(node)
        for uid in self._ledgers.pop(node).allocations:
            _turn(self._of_pod, uid, node)
        self._places = {name: place for place, name in enumerate(self._ledgers)}
        for table in self._tables.values():
            table.renumber(self._places)

    def candidates(self, request: Request, names: Sequence[str] | None = None) -> list[str]:
        """The nodes that a request may fit, by their numbers alone; all others are sure to refuse.

        Args:
            request: what is asked.
            names: the nodes to look at, in the order of the answer; None for all of them.
                Unknown ones are left out.
        """
        mask = self.mask(request).tobytes()
        if names is None:
            return list(compress(self._ledgers, mask))
        place_of = self._places.get
        return [n for n in names if (place := place_of(n)) is not None and mask[place]]

    def sliced(self) -> bool:
        """Whether any node has a card in MIG mode."""
        return any(card.mode is Mode.MIG for table in self._tables.values() for card in table.makes)

    def mask(self, request: Request) -> Mask:
        """For each node, in order, whether the request may fit."""
        mask = np.zeros(len(self._ledgers), np.bool_)
        for table in self._tables.values():
            table.mark(request, mask)
        for name in self._of_pod.get(request.uid, ()):
            mask[self._places[name]] = True
        if request.allow_uuids is not None:
            mask &= self._with_cards(request.allow_uuids)
        return mask

    def loads(self, weights: Weights) -> Numbers:
        """For each node, in order, what ``core.rank.load`` gives."""
        loads = np.zeros(len(self._ledgers), np.int64)
        for table in self._tables.values():
            table.weigh(self._ledgers, weights, loads)
        return loads

    def ranked(
        self, request: Request, names: Sequence[str] | None = None
    ) -> Iterator[tuple[str, ...]]:
        """The candidates, in groups that differ in the first criterion for nodes, best first.

        One group where that criterion looks at the chosen cards, or there is none.
        """
        found: list[str] = self.candidates(request, names)
        first = next(iter(request.ranking.nodes), None)
        if first not in (NodeKey.FULLEST, NodeKey.EMPTIEST):
            yield tuple(found)
            return
        loads = self.loads(request.ranking.weights)
        for name in self._of_pod.get(request.uid, ()):
            alone = self._ledgers[name].release(request.uid)
            loads[self._places[name]] = load(alone, request.ranking.weights)
        worth = (loads if first is NodeKey.FULLEST else -loads)[[self._places[n] for n in found]]
        while found:
            best = worth == worth.max()
            yield tuple(compress(found, best.tobytes()))
            found = list(compress(found, (~best).tobytes()))
            worth = worth[~best]

    def kind(self, node: str) -> int:
        """A number that two nodes share only if they differ in nothing but names and uuids.

        The node must be known. The number holds until the node is put again.
        """
        return self._kinds.of(self._ledgers[node])

    def columns(self) -> Iterator[tuple[NDArray[np.generic], ...]]:
        """The columns themselves, to be measured: the three that ``mask`` reads come first."""
        return (table.columns() for table in self._tables.values())

    def _enter(self, name: str, ledger: NodeLedger) -> None:
        make = shape(ledger.node)
        table = self._tables.get(make)
        if table is None:
            table = self._tables[make] = _Table(ledger.node)
        place = self._places.setdefault(name, len(self._places))
        self._homes[name] = (table, table.add(name, place))
        table.write(self._homes[name][1], ledger)
        self._index_cards(ledger.node)

    def _leave(self, name: str) -> None:
        table, column = self._homes.pop(name)
        moved = table.drop(column)
        if moved != name:
            self._homes[moved] = (table, column)
        node = self._ledgers[name].node
        if not table.names:
            del self._tables[shape(node)]
        self._index_cards(node)

    def _index_cards(self, node: Node) -> None:
        for uuid in dict.fromkeys(card.uuid for card in node.cards):
            _turn(self._of_card, uuid, node.name)

    def _with_cards(self, uuids: Iterable[str]) -> Mask:
        mask = np.zeros(len(self._ledgers), np.bool_)
        for uuid in uuids:
            for name in self._of_card.get(uuid, ()):
                mask[self._places[name]] = True
        return mask


class _Table:
    """Columns of nodes whose cards are made alike. Cells past ``len(names)`` mean nothing."""

    def __init__(self, node: Node) -> None:
        makes = {make(card): replace(card, healthy=True) for card in node.cards}
        self.makes = tuple(makes.values())
        self.make_of = [list(makes).index(make(card)) for card in node.cards]
        self.isolation = node.isolation
        self.names: list[str] = []
        self.stale: set[int] = set()
        rows = len(node.cards)
        self.memory = np.zeros((rows, 0), np.int64)
        self.compute = np.zeros((rows, 0), np.int8)
        self.tags = np.zeros((rows, 0), np.uint8)
        self.shares = np.zeros((3, 0), np.int64)
        self.places = np.zeros(0, np.intp)
        self._make_room(_ROOM)

    def add(self, name: str, place: int) -> int:
        """The column of a new node, still to be written."""
        column = len(self.names)
        if column == self.places.size:
            self._make_room(2 * column)
        self.names.append(name)
        self.places[column] = place
        return column

    def drop(self, column: int) -> str:
        """Give up a column; the last one takes its place, and its node is told."""
        last = len(self.names) - 1
        for numbers in (self.memory, self.compute, self.tags, self.shares):
            numbers[:, column] = numbers[:, last]
        self.places[column] = self.places[last]
        self.stale.discard(column)
        if last in self.stale:
            self.stale.remove(last)
            self.stale.add(column)
        self.names[column] = self.names[last]
        return self.names.pop()

    def renumber(self, places: dict[str, int]) -> None:
        """Nodes have moved in the order of all nodes."""
        self.places[: len(self.names)] = [places[name] for name in self.names]

    def write(self, column: int, ledger: NodeLedger) -> None:
        """Write all cells of a node."""
        self.stale.add(column)
        for row, use in enumerate(ledger.uses):
            self._write(row, column, ledger, use)

    def update(self, column: int, earlier: NodeLedger, ledger: NodeLedger) -> None:
        """Write the cells of the cards whose use has changed."""
        self.stale.add(column)
        for row, use in enumerate(ledger.uses):
            if use is not earlier.uses[row]:
                self._write(row, column, ledger, use)

    def mark(self, request: Request, mask: Mask) -> None:
        """Set the places of the nodes that a request may fit."""
        if request.isolation is not None and request.isolation != self.isolation:
            return
        wanted = needs(request, self.makes)
        if wanted is not None and self.names:
            fits = self._meets(wanted[0])
            for need in wanted[1:]:
                fits &= self._meets(need)
            mask[self.places[: len(self.names)]] = fits

    def weigh(self, ledgers: dict[str, NodeLedger], weights: Weights, loads: Numbers) -> None:
        """Set the loads of the nodes."""
        for column in self.stale:
            self.shares[:, column] = shares(ledgers[self.names[column]])
        self.stale.clear()
        nodes = len(self.names)
        factors = np.array((weights.slots, weights.compute, weights.memory), np.int64)
        loads[self.places[:nodes]] = factors @ self.shares[:, :nodes]

    def columns(self) -> tuple[NDArray[np.generic], ...]:
        """The columns as far as they are in use."""
        kept = (self.memory, self.compute, self.tags, self.shares, self.places)
        return tuple(numbers[..., : len(self.names)] for numbers in kept)

    def _meets(self, need: Need) -> Mask:
        nodes = len(self.names)
        least = [_NEVER if memory is None else memory for memory in need.memory]
        memory = least[0] if len(least) == 1 else np.array(least)[self.make_of, np.newaxis]
        fits = self.memory[:, :nodes] >= memory
        fits &= self.compute[:, :nodes] >= need.compute
        fits &= (self.tags[:, :nodes] & need.forbidden) == 0
        wide = np.uint8 if len(self.make_of) < 1 << 8 else np.uint32
        cards = np.add.reduce(fits.view(np.uint8), axis=0, dtype=wide)
        enough: Mask = cards >= need.count
        return enough

    def _write(self, row: int, column: int, ledger: NodeLedger, use: CardUse) -> None:
        memory, compute, tags = cell(ledger.node.cards[row], use)
        free, left, held_by = self._views
        free[row, column] = memory
        left[row, column] = compute
        held_by[row, column] = tags

    def _make_room(self, nodes: int) -> None:
        self.memory = _wider(self.memory, nodes)
        self.compute = _wider(self.compute, nodes)
        self.tags = _wider(self.tags, nodes)
        self.shares = _wider(self.shares, nodes)
        self.places = _wider(self.places, nodes)
        self._views = (self.memory.data, self.compute.data, self.tags.data)


def _wider(numbers: NDArray[Number], nodes: int) -> NDArray[Number]:
    wider = np.zeros((*numbers.shape[:-1], nodes), numbers.dtype)
    wider[..., : numbers.shape[-1]] = numbers
    return wider


def _turn(index: dict[str, tuple[str, ...]], key: str, name: str) -> None:
    """Add a name under a key, or take it away if it is there."""
    names = index.get(key, ())
    left = tuple(other for other in names if other != name)
    if left == names:
        index[key] = (*names, name)
    elif left:
        index[key] = left
    else:
        del index[key]
