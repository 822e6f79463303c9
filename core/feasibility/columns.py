"""The free capacity of many nodes' cards, as arrays of numbers that mirror the ledgers.

Nodes of one hardware class share a table with one line for each card and one column for each node:
what never changes is decided once for the table, and NumPy compares all its nodes at once.

A card's free capacity is three numbers. They are a necessary condition: where it fails, ``fit``
fails too. For a request of a single container for shares of cards, without group, exclusion rule or
QoS, it is also sufficient.

Index spaces of arrays over nodes, here and in the modules that use ``Mask``, ``Numbers``, ``Rows``:

* *row*: a node's position in the inventory, 0 to ``len(inventory) - 1``. The next number,
  ``len(inventory)``, is the row of every node that the inventory does not know, so that an array
  with one spare cell at its end answers for those too. Rows change when nodes are added or removed
  (``Inventory.membership_version``), and only then.
* *column*: a node's position in its capacity table, 0 to ``len(names) - 1``. Used in this file and
  by the inventory alone.
* *class id* (``Inventory.node_class``): equal for nodes that differ only in names and uuids.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from core.feasibility.suitability import has_undescribed_cards, kubelet_chooses, unsuitable
from core.hardware import mig
from core.hardware.card import Card, Mode, Scope
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage
from core.placement.rank import shares
from core.requests.request import Request, TaskClass, Weights, required_memory


def hardware_class(node: Node) -> Hashable:
    """Return what stays when cards are allocated, become unhealthy or are linked differently.

    Nodes of one hardware class share a capacity table.
    """
    return (node.isolation, *(card_model(card) for card in node.cards))


def card_model(card: Card) -> Hashable:
    """Return what never changes of one card; other cards may be equal in it."""
    return (
        card.vendor,
        card.model,
        card.names,
        card.dialects,
        card.memory,
        card.slots,
        card.mode,
        card.geometry,
        card.compute,
    )


class NodeClassIds:
    """Class ids: equal for two nodes that differ only in names and uuids.

    A request that names no uuid and holds nothing on either gets the cards of the same positions
    on both, or is rejected for the same reason, and both rank alike. The ids are small numbers in
    place of tuples, so that they are compared fast.

    Past a limit all ids are dropped, and later ledgers get new numbers, never an old one.
    """

    def __init__(self, limit: int = 1 << 16) -> None:
        self._limit = limit
        self._ids: dict[Hashable, int] = {}
        self._idle_ids: dict[Hashable, int] = {}
        self._idle_id_of: dict[str, tuple[Node, int]] = {}
        self._next = count()

    def of(self, ledger: NodeLedger) -> int:
        """Return the class id of a node in the state of its ledger."""
        if len(self._ids) > self._limit:
            self._ids.clear()
        shares = tuple(
            tuple(
                (
                    share.memory,
                    share.compute,
                    share.slots,
                    share.exclusive,
                    share.blocked,
                    share.by_kubelet,
                    share.terms.of_any_member,
                    share.slices,
                    share.unreadable_slices,
                )
                for share in use.shares
            )
            for use in ledger.usages
        )
        key = (self.of_node(ledger.node), shares, has_undescribed_cards(ledger))
        return self._ids.setdefault(key, next(self._next))

    def of_node(self, node: Node) -> int:
        """Return the class id of a node without its allocations, kept while its object is the same.

        It is a number of its own, which no ledger of the node has as class id.
        """
        known = self._idle_id_of.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        if len(self._idle_id_of) > self._limit:
            self._idle_id_of.clear()
        if len(self._idle_ids) > self._limit:
            self._idle_ids.clear()
        scopes: dict[Scope, int] = {}  # those of two nodes are equal in all but their names
        states = (
            (node.partitions, node.partitions_bind, node.losses, node.gains, node.scores),
            *(
                (
                    (card.index, card.numa, card.healthy, card.problem),
                    tuple(
                        (each.level, scopes.setdefault(each, len(scopes))) for each in card.links
                    ),
                )
                for card in node.cards
            ),
        )
        number = self._idle_ids.setdefault((hardware_class(node), states), next(self._next))
        self._idle_id_of[node.name] = (node, number)
        return number


FreeCapacity = tuple[int, int, int]
"""Free bytes, free percent of compute, and tags of the shares; of a card in MIG mode the most
that any free slice has. -1 where no request can have the card, or more is allocated than it has.
Compute is at most ``FULL``, the most that one container requests; 1 percent is free of a card
without compute, because requests of memory alone fit it."""

NO_CAPACITY: FreeCapacity = (-1, -1, 0)

NORMAL, ONLINE, OFFLINE, EXCLUSIVE, UNDISTURBED = 1, 2, 4, 8, 16
"""Tags: some share is normal, online, offline, exclusive; exclusive and not offline."""

_REJECTING = {
    TaskClass.NORMAL: ONLINE | OFFLINE | EXCLUSIVE,
    TaskClass.OFFLINE: NORMAL | ONLINE | EXCLUSIVE,
    TaskClass.ONLINE: NORMAL | UNDISTURBED,
}
"""Tags of the cards that reject a task class, by the class."""

_CLASS = {TaskClass.NORMAL: NORMAL, TaskClass.ONLINE: ONLINE, TaskClass.OFFLINE: OFFLINE}


@dataclass(frozen=True, slots=True)
class CardDemand:
    """What one container demands of a node's cards.

    Attributes:
        count: how many cards must meet the demand; 1 where one can give several slices.
        memory: free bytes, by model of card; None for a model that the request never fits.
        compute: free percent.
        forbidden: tags that the card must not have, by model of card.
    """

    count: int
    memory: tuple[int | None, ...]
    compute: int
    forbidden: tuple[int, ...]


def free_capacity(card: Card, use: CardUsage) -> FreeCapacity:
    """Return the free capacity of a card."""
    if not card.healthy or use.slots >= card.slots:
        return NO_CAPACITY
    tags = 0
    for share in use.shares:
        if share.blocked or (share.unreadable_slices and card.mode is Mode.MIG):
            return NO_CAPACITY
        tags |= (
            NORMAL if share.terms.task_class is TaskClass.NORMAL else _CLASS[share.terms.task_class]
        )
        if share.exclusive:
            tags |= EXCLUSIVE | (0 if share.terms.task_class is TaskClass.OFFLINE else UNDISTURBED)
    if card.mode is not Mode.MIG:
        compute = card.compute - use.compute if card.compute else 1 - use.compute
        return max(card.memory - use.memory, -1), min(max(compute, -1), FULL), tags
    slices = mig.free_slices(card.geometry, use.slices())
    memory = max((slot.memory for slot in slices), default=-1)
    return memory, max((slot.compute for slot in slices), default=FULL) or 1, tags


def card_demands(request: Request, models: Sequence[Card]) -> list[CardDemand] | None:
    """Return what each container demands, or None where no card suits the request.

    Args:
        request: what the pod asks for.
        models: healthy cards, one of each model. Their uuids do not count.
    """
    if request.allow_uuids is not None or request.deny_uuids:
        request = replace(request, allow_uuids=None, deny_uuids=frozenset())
    suitable = [unsuitable(request, card) is None for card in models]
    if not any(suitable):
        return None
    stacks = request.several_slices and any(
        suits and card.mode is Mode.MIG for card, suits in zip(models, suitable, strict=True)
    )
    is_online = request.terms.task_class is TaskClass.ONLINE
    rejecting = _REJECTING[request.terms.task_class]
    return [
        CardDemand(
            1 if stacks else container.count,
            tuple(
                required_memory(request, container, card)
                if suits and container.compute <= card.compute
                else None
                for card, suits in zip(models, suitable, strict=True)
            ),
            # One that reserves none needs a card with 1 % free, unless its task is online.
            container.compute if is_online else max(container.compute, 1),
            tuple(
                NORMAL | ONLINE | OFFLINE if container.exclusive_on(card) else rejecting
                for card in models
            ),
        )
        for container in request.containers
    ]


Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Rows = NDArray[np.int32]

Number = TypeVar("Number", bound=np.generic)

_NEVER = np.iinfo(np.int64).max
"""More bytes than any card has."""

_ROOM = 16
"""Columns of a new table; their number doubles when all are in use."""


class CapacityTable:
    """The nodes of one hardware class. Columns past ``len(names)`` are not in use.

    Attributes:
        models: healthy cards, one of each model that the nodes have.
        model_of: by card, the position of its model in ``models``.
        names: by column, the node.
        stale: columns whose ``shares`` are older than the ledger.
        memory: by card and column, free bytes (``FreeCapacity``).
        compute: by card and column, free percent.
        tags: by card and column, tags of the shares.
        shares: by dimension and column, ``core.placement.rank.shares``.
        rows: by column, the node's row in the inventory.
    """

    def __init__(self, node: Node) -> None:
        models = {card_model(card): replace(card, healthy=True) for card in node.cards}
        self.models = tuple(models.values())
        self.model_of = [list(models).index(card_model(card)) for card in node.cards]
        self.isolation = node.isolation
        self.names: list[str] = []
        self.stale: set[int] = set()
        cards = len(node.cards)
        self.memory = np.zeros((cards, 0), np.int64)
        self.compute = np.zeros((cards, 0), np.int8)
        self.tags = np.zeros((cards, 0), np.uint8)
        self.shares = np.zeros((3, 0), np.int64)
        self.rows = np.zeros(0, np.intp)
        self._resize(_ROOM)

    def add(self, name: str, row: int) -> int:
        """Take a column for a new node; ``write`` fills it."""
        column = len(self.names)
        if column == self.rows.size:
            self._resize(2 * column)
        self.names.append(name)
        self.rows[column] = row
        return column

    def remove(self, column: int) -> str:
        """Free a column and move the last one there.

        Returns:
            the node whose column moved, which is the removed one where that was the last.
        """
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

    def renumber(self, rows: dict[str, int]) -> None:
        """Take the rows that the nodes have now."""
        self.rows[: len(self.names)] = [rows[name] for name in self.names]

    def write(self, column: int, ledger: NodeLedger) -> None:
        """Write all cells of a node."""
        self.stale.add(column)
        for card, use in enumerate(ledger.usages):
            self._write(card, column, ledger, use)

    def update(self, column: int, earlier: NodeLedger, ledger: NodeLedger) -> None:
        """Write the cells of the cards whose use has changed."""
        self.stale.add(column)
        for card, use in enumerate(ledger.usages):
            if use is not earlier.usages[card]:
                self._write(card, column, ledger, use)

    def mark_candidates(self, request: Request, mask: Mask) -> None:
        """Set the rows of the nodes that a request may fit."""
        if kubelet_chooses(request, self.models):
            mask[self.rows[: len(self.names)]] = True
            return
        if request.isolation is not None and request.isolation != self.isolation:
            return
        demands = card_demands(request, self.models)
        if demands is not None and self.names:
            fits = self._meets(demands[0])
            for demand in demands[1:]:
                fits &= self._meets(demand)
            mask[self.rows[: len(self.names)]] = fits

    def write_loads(self, ledgers: dict[str, NodeLedger], weights: Weights, loads: Numbers) -> None:
        """Set the rows of the nodes to their weighted use."""
        for column in self.stale:
            self.shares[:, column] = shares(ledgers[self.names[column]])
        self.stale.clear()
        nodes = len(self.names)
        factors = np.array((weights.slots, weights.compute, weights.memory), np.int64)
        loads[self.rows[:nodes]] = factors @ self.shares[:, :nodes]

    def columns(self) -> tuple[NDArray[np.generic], ...]:
        """Return the arrays as far as they are in use, to be measured."""
        kept = (self.memory, self.compute, self.tags, self.shares, self.rows)
        return tuple(numbers[..., : len(self.names)] for numbers in kept)

    def _meets(self, demand: CardDemand) -> Mask:
        nodes = len(self.names)
        required = [_NEVER if memory is None else memory for memory in demand.memory]
        memory, forbidden = self._by_card(required), self._by_card(demand.forbidden)
        fits = self.memory[:, :nodes] >= memory
        fits &= self.compute[:, :nodes] >= demand.compute
        fits &= (self.tags[:, :nodes] & forbidden) == 0
        wide = np.uint8 if len(self.model_of) < 1 << 8 else np.uint32
        enough: Mask = np.add.reduce(fits.view(np.uint8), axis=0, dtype=wide) >= demand.count
        return enough

    def _by_card(self, amounts: Sequence[int]) -> int | NDArray[np.int64]:
        """Return an amount of each model: one number where it is the same, else a column."""
        first = amounts[0]
        if all(amount == first for amount in amounts):
            return first
        return np.array(amounts, np.int64)[self.model_of, np.newaxis]

    def _write(self, card: int, column: int, ledger: NodeLedger, use: CardUsage) -> None:
        memory, compute, tags = free_capacity(ledger.node.cards[card], use)
        # One cell takes 39 ns through a memory view, 56 ns through the NumPy array (measured).
        memories, computes, all_tags = self._buffers
        memories[card, column] = memory
        computes[card, column] = compute
        all_tags[card, column] = tags

    def _resize(self, nodes: int) -> None:
        self.memory = _wider(self.memory, nodes)
        self.compute = _wider(self.compute, nodes)
        self.tags = _wider(self.tags, nodes)
        self.shares = _wider(self.shares, nodes)
        self.rows = _wider(self.rows, nodes)
        self._buffers = (self.memory.data, self.compute.data, self.tags.data)


def _wider(numbers: NDArray[Number], nodes: int) -> NDArray[Number]:
    wider = np.zeros((*numbers.shape[:-1], nodes), numbers.dtype)
    wider[..., : numbers.shape[-1]] = numbers
    return wider
