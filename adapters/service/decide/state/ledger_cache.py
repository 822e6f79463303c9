"""All ledgers as this process knows them: the store's records with its own reservations on top.

No I/O and no clock: the caller passes the records and the time.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from adapters.stores.store import Change, Stored
from core.feasibility.inventory import Inventory
from core.hardware.card import Card
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation, AllocationState

REMEMBERED = 20_000
"""Nodes that are remembered whose record was deleted; most of them are gone themselves."""


class LedgerCache:
    """The ledgers of all nodes.

    Attributes:
        inventory: by node, committed allocations, this process's reservations, and the holds of
            the record as reservations.
        revision: number of changes to anything that a decision depends on.
        cards: one of each kind that a record has had so far: of each size, mode and geometry.
        lost: nodes whose record was deleted by another client, in this order. What was committed
            to it may still be bound.
        is_described: whether something describes cards of a node. Without a record such a node is
            not one without cards: its record was deleted, or is not made yet.
    """

    def __init__(self) -> None:
        self.inventory = Inventory()
        self.revision = 0
        self.cards: dict[Hashable, Card] = {}
        self.lost: dict[str, None] = {}
        self._stored: dict[str, Stored] = {}
        self.is_described: Callable[[str], bool] = lambda _: False
        self._problems: dict[str, str] = {}
        self._missing: dict[str, str] = {}
        self._reservations: dict[str, dict[str, Allocation]] = {}
        self._holding: dict[str, frozenset[str]] = {}

    def load(self, stored: Mapping[str, Stored]) -> None:
        """Replace all records with those of the store; reservations stay where they still fit."""
        self._stored = dict(sorted(stored.items()))
        self._holding = {
            name: _recipients(each) for name, each in self._stored.items() if each.ledger.holds
        }
        self._problems.clear()
        self._missing = {node: why for node, why in self._missing.items() if node not in stored}
        self.inventory = Inventory(self._combined(node) for node in self._stored)
        self._note_cards(self.inventory.models())
        for node in [*self._reservations]:
            if node not in self._stored:
                del self._reservations[node]
        self.revision += 1

    def apply(self, change: Change) -> None:
        """Update from a watch event; one that is not newer than the cached record has no effect."""
        cached = self._stored.get(change.node)
        newer = change.stored
        if cached and newer:
            # The watch also reports what this process wrote itself.
            if newer.version == cached.version:
                return
            if newer.ledger.version < cached.ledger.version:
                return
        self.put(change)

    def put(self, change: Change) -> None:
        """Replace the record of a node, whatever the cache had before."""
        known = self._stored.get(change.node)
        # One that cannot be read may have cards.
        had_cards = change.node in self._problems if known is None else known.ledger.node.cards
        if change.stored is None and change.problem is None and had_cards:
            self.lose(change.node)
        if change.problem is None:
            self._problems.pop(change.node, None)
        else:
            self._problems[change.node] = change.problem
        if change.stored is None:
            self._stored.pop(change.node, None)
            self._reservations.pop(change.node, None)
            self._holding.pop(change.node, None)
            self.inventory.remove(change.node)
        else:
            stored = change.stored
            in_use = self.inventory.get(change.node)
            if in_use is None or in_use.node != stored.ledger.node:
                self._note_cards(stored.ledger.node.cards)
            elif in_use.node is not stored.ledger.node:  # identity compares fast
                stored = replace(stored, ledger=replace(stored.ledger, node=in_use.node))
            self._stored[change.node] = stored
            self._holding.pop(change.node, None)
            if change.stored.ledger.holds:
                self._holding[change.node] = _recipients(change.stored)
            self.inventory.put(self._combined(change.node))
        self.revision += 1
        self.look_at(change.node)

    def look_at(self, node: str) -> None:
        """Note that what describes a node has changed, or its record."""
        is_missing = not self.has_record(node) and self.is_described(node)
        if is_missing != (node in self._missing):
            self._missing.pop(node, None)
            if is_missing:
                self._missing[node] = f"the ledger of node {node} was deleted, or is not made yet"
            self.revision += 1

    def lose(self, node: str) -> None:
        """Note that the record of a node was deleted."""
        self.lost[node] = None
        if len(self.lost) > REMEMBERED:
            self.lost.pop(next(iter(self.lost)))

    def remove(self, node: str) -> None:
        """Remove the record of a node that this process has deleted: nothing is committed to it."""
        self.put(Change(node, None))
        self.lost.pop(node, None)

    def stored(self, node: str) -> Stored | None:
        """Return a node's record as it was last read from the store."""
        return self._stored.get(node)

    def records(self) -> list[NodeLedger]:
        """Return the ledgers of all nodes as they were last read from the store."""
        return [stored.ledger for stored in self._stored.values()]

    def ledger(self, node: str) -> NodeLedger | None:
        """Return a node's ledger with reservations; None where it is unknown or unreadable."""
        return self.inventory.get(node)

    def with_reservations(self, ledger: NodeLedger) -> NodeLedger:
        """Return a node's ledger with its holds, and the reservations that fit on top."""
        known = self._stored.get(ledger.node.name)
        if known is not None and known.ledger is ledger:
            return self.inventory.ledger(ledger.node.name)
        ledger = ledger.with_holds()
        for allocation in self._reservations.get(ledger.node.name, {}).values():
            with suppress(LedgerError):
                ledger = ledger.reserve(allocation)
        return ledger

    def has_record(self, node: str) -> bool:
        """Return whether the store has a record of a node, readable or not."""
        return node in self._stored or node in self._problems

    def problem(self, node: str) -> str | None:
        """Return why what a node has is not known; None where it is, or it has no cards."""
        return self._problems.get(node) or self._missing.get(node)

    def problems(self) -> Mapping[str, str]:
        """Return why what nodes have is not known: records that cannot be read, or are missing."""
        return {**self._missing, **self._problems} if self._missing else self._problems

    def committed(self, uid: str) -> Iterator[tuple[str, Allocation]]:
        """Return the allocations that the store has for a pod, with their nodes."""
        for node in self.inventory.nodes_of(uid):
            allocation = self._stored[node].ledger.allocations.get(uid)
            if allocation is not None:
                yield node, allocation

    def has_committed(self, uid: str) -> bool:
        """Return whether the store has an allocation of a pod, on any node."""
        nodes = self.inventory.nodes_of(uid)
        return any(uid in self._stored[node].ledger.allocations for node in nodes)

    def holding(self) -> Collection[str]:
        """Return the nodes whose records have holds."""
        return self._holding.keys()

    def keeping_for(self, uid: str) -> list[str]:
        """Return the nodes that keep a place for a pod, or for the next one of a controller."""
        return [node for node, recipients in self._holding.items() if uid in recipients]

    def record(self, node: str) -> NodeLedger:
        """Return the ledger of a node as it was last read from the store.

        Raises:
            KeyError: the store has none that can be read.
        """
        return self._stored[node].ledger

    def reserve(self, allocation: Allocation, expires: int) -> None:
        """Reserve cards for a pod; its earlier reservation ends.

        Args:
            allocation: what to reserve.
            expires: when the reservation ends by itself, in nanoseconds of ``Clock.now``.

        Raises:
            LedgerError: it does not fit, or the node is not known. Nothing was changed.
        """
        ledger = self.inventory.get(allocation.node)
        if ledger is None:
            raise LedgerError(f"node {allocation.node} is not known")
        reservation = replace(allocation, state=AllocationState.RESERVED, expires=expires)
        changed = ledger.reserve(reservation)
        self.unreserve(allocation.uid)
        self._reservations.setdefault(allocation.node, {})[allocation.uid] = reservation
        earlier = self.inventory.ledger(allocation.node)
        self.inventory.put(changed if earlier is ledger else self._combined(allocation.node))
        self.revision += 1

    def unreserve(self, uid: str, node: str | None = None) -> bool:
        """End the reservation of a pod, on one node or on any.

        Returns:
            whether there was one.
        """
        holding = [name for name, by_uid in self._reservations.items() if uid in by_uid]
        for name in holding:
            if node in (None, name):
                self._drop(name, uid)
        return bool(holding) and node in (None, *holding)

    def reservation(self, uid: str) -> Allocation | None:
        """Return the reservation of a pod."""
        reserved = (by_uid[uid] for by_uid in self._reservations.values() if uid in by_uid)
        return next(reserved, None)

    def reservations(self) -> Iterator[Allocation]:
        """Return all reservations."""
        for by_uid in self._reservations.values():
            yield from by_uid.values()

    def reservation_count(self) -> int:
        """Return how many pods have a reservation."""
        return sum(map(len, self._reservations.values()))

    def expire(self, now: int) -> int:
        """End all reservations that have expired.

        Returns:
            how many there were.
        """
        expired = [
            (node, uid)
            for node, by_uid in self._reservations.items()
            for uid, allocation in by_uid.items()
            if allocation.expires is not None and allocation.expires <= now
        ]
        for node, uid in expired:
            self._drop(node, uid)
        return len(expired)

    def _drop(self, node: str, uid: str) -> None:
        by_uid = self._reservations[node]
        del by_uid[uid]
        if not by_uid:
            del self._reservations[node]
        self.inventory.put(self._combined(node))
        self.revision += 1

    def _combined(self, node: str) -> NodeLedger:
        """Return a node's record with its holds and reservations; end those that do not fit."""
        ledger = self._stored[node].ledger.with_holds()
        by_uid = self._reservations.get(node, {})
        for uid, allocation in [*by_uid.items()]:
            try:
                ledger = ledger.reserve(allocation)
            except LedgerError:
                del by_uid[uid]
        if node in self._reservations and not by_uid:
            del self._reservations[node]
        return ledger

    def _note_cards(self, cards: Iterable[Card]) -> None:
        self.cards.update({(card.memory, card.mode, card.geometry): card for card in cards})


def _recipients(stored: Stored) -> frozenset[str]:
    return frozenset(hold.recipient for hold in stored.ledger.holds)
