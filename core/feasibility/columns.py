"""What the cards of many nodes have left, as columns of numbers that mirror the ledgers.

Nodes whose cards are made alike share a table of one row a card and one column a node: what never
changes is decided once a table, and each comparison runs over all its nodes at once.
"""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from core.feasibility.arrays import Mask, Numbers
from core.feasibility.equivalence import card_model
from core.feasibility.free_capacity import CardDemand, card_demands, free_capacity
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage
from core.placement.rank import shares
from core.requests.request import Request, Weights

Number = TypeVar("Number", bound=np.generic)

_NEVER = np.iinfo(np.int64).max
"""More bytes than any card has."""

_ROOM = 16
"""Nodes that a new table has room for; the room doubles when it is full."""


class CapacityTable:
    """Columns of nodes whose cards are made alike. Cells past ``len(names)`` mean nothing."""

    def __init__(self, node: Node) -> None:
        makes = {card_model(card): replace(card, healthy=True) for card in node.cards}
        self.models = tuple(makes.values())
        self.model_of = [list(makes).index(card_model(card)) for card in node.cards]
        self.isolation = node.isolation
        self.names: list[str] = []
        self.stale: set[int] = set()
        rows = len(node.cards)
        self.memory = np.zeros((rows, 0), np.int64)
        self.compute = np.zeros((rows, 0), np.int8)
        self.tags = np.zeros((rows, 0), np.uint8)
        self.shares = np.zeros((3, 0), np.int64)
        self.rows = np.zeros(0, np.intp)
        self._make_room(_ROOM)

    def add(self, name: str, place: int) -> int:
        """The column of a new node, still to be written."""
        column = len(self.names)
        if column == self.rows.size:
            self._make_room(2 * column)
        self.names.append(name)
        self.rows[column] = place
        return column

    def remove(self, column: int) -> str:
        """Give up a column; the last one takes its place, and its node is told."""
        last = len(self.names) - 1
        for numbers in (self.memory, self.compute, self.tags, self.shares):
            numbers[:, column] = numbers[:, last]
        self.rows[column] = self.rows[last]
        self.stale.discard(column)
        if last in self.stale:
            self.stale.remove(last)
            self.stale.add(column)
        self.names[column] = self.names[last]
        return self.names.pop()

    def renumber(self, places: dict[str, int]) -> None:
        """Nodes have moved in the order of all nodes."""
        self.rows[: len(self.names)] = [places[name] for name in self.names]

    def write(self, column: int, ledger: NodeLedger) -> None:
        """Write all cells of a node."""
        self.stale.add(column)
        for row, use in enumerate(ledger.usages):
            self._write(row, column, ledger, use)

    def update(self, column: int, earlier: NodeLedger, ledger: NodeLedger) -> None:
        """Write the cells of the cards whose use has changed."""
        self.stale.add(column)
        for row, use in enumerate(ledger.usages):
            if use is not earlier.usages[row]:
                self._write(row, column, ledger, use)

    def mark_candidates(self, request: Request, mask: Mask) -> None:
        """Set the places of the nodes that a request may fit."""
        if request.isolation is not None and request.isolation != self.isolation:
            return
        wanted = card_demands(request, self.models)
        if wanted is not None and self.names:
            fits = self._meets(wanted[0])
            for need in wanted[1:]:
                fits &= self._meets(need)
            mask[self.rows[: len(self.names)]] = fits

    def write_loads(self, ledgers: dict[str, NodeLedger], weights: Weights, loads: Numbers) -> None:
        """Set the loads of the nodes."""
        for column in self.stale:
            self.shares[:, column] = shares(ledgers[self.names[column]])
        self.stale.clear()
        nodes = len(self.names)
        factors = np.array((weights.slots, weights.compute, weights.memory), np.int64)
        loads[self.rows[:nodes]] = factors @ self.shares[:, :nodes]

    def columns(self) -> tuple[NDArray[np.generic], ...]:
        """The columns as far as they are in use."""
        kept = (self.memory, self.compute, self.tags, self.shares, self.rows)
        return tuple(numbers[..., : len(self.names)] for numbers in kept)

    def _meets(self, need: CardDemand) -> Mask:
        nodes = len(self.names)
        least = [_NEVER if memory is None else memory for memory in need.memory]
        memory = least[0] if len(least) == 1 else np.array(least)[self.model_of, np.newaxis]
        fits = self.memory[:, :nodes] >= memory
        fits &= self.compute[:, :nodes] >= need.compute
        fits &= (self.tags[:, :nodes] & need.forbidden) == 0
        wide = np.uint8 if len(self.model_of) < 1 << 8 else np.uint32
        cards = np.add.reduce(fits.view(np.uint8), axis=0, dtype=wide)
        enough: Mask = cards >= need.count
        return enough

    def _write(self, row: int, column: int, ledger: NodeLedger, use: CardUsage) -> None:
        memory, compute, tags = free_capacity(ledger.node.cards[row], use)
        free, left, held_by = self._views
        free[row, column] = memory
        left[row, column] = compute
        held_by[row, column] = tags

    def _make_room(self, nodes: int) -> None:
        self.memory = _wider(self.memory, nodes)
        self.compute = _wider(self.compute, nodes)
        self.tags = _wider(self.tags, nodes)
        self.shares = _wider(self.shares, nodes)
        self.rows = _wider(self.rows, nodes)
        self._views = (self.memory.data, self.compute.data, self.tags.data)


def _wider(numbers: NDArray[Number], nodes: int) -> NDArray[Number]:
    wider = np.zeros((*numbers.shape[:-1], nodes), numbers.dtype)
    wider[..., : numbers.shape[-1]] = numbers
    return wider
