"""All ledgers as this process knows them: what the store has, and its own holds on top.

No I/O and no clock: the store's records come in, and the time is passed.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from adapters.stores.store import Change, Stored
from core.feasibility.inventory import Inventory
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation, AllocationState


class LedgerCache:
    """The ledgers of all nodes.

    Attributes:
        inventory: each node's committed allocations and this process's holds.
        revision: counts the changes of anything that a decision depends on.
    """

    def __init__(self) -> None:
        self.inventory = Inventory()
        self.revision = 0
        self._stored: dict[str, Stored] = {}
        self._problems: dict[str, str] = {}
        self._holds: dict[str, dict[str, Allocation]] = {}

    def load(self, stored: Mapping[str, Stored]) -> None:
        """Start over from all records of the store, by name; holds stay where they still fit."""
        self._stored = dict(sorted(stored.items()))
        self._problems.clear()
        self.inventory = Inventory(self._combined(node) for node in self._stored)
        for node in [*self._holds]:
            if node not in self._stored:
                del self._holds[node]
        self.revision += 1

    def apply(self, change: Change) -> None:
        """Take note of a record of the store, unless it is known, or a newer one."""
        known = self._stored.get(change.node)
        newer = change.stored
        if known and newer:
            # What this process wrote itself is told again.
            if newer.version == known.version:
                return
            if newer.ledger.version < known.ledger.version:
                return
        self.put(change)

    def put(self, change: Change) -> None:
        """Take note of a record of the store, whatever was known before."""
        if change.problem is None:
            self._problems.pop(change.node, None)
        else:
            self._problems[change.node] = change.problem
        if change.stored is None:
            self._stored.pop(change.node, None)
            self._holds.pop(change.node, None)
            self.inventory.remove(change.node)
        else:
            self._stored[change.node] = self._same_node(change.stored)
            self.inventory.put(self._combined(change.node))
        self.revision += 1

    def stored(self, node: str) -> Stored | None:
        """A node's record as it was last seen in the store."""
        return self._stored.get(node)

    def ledger(self, node: str) -> NodeLedger | None:
        """A node's ledger with the holds; None where the node is not known or not readable."""
        return self.inventory.get(node)

    def with_reservations(self, ledger: NodeLedger) -> NodeLedger:
        """A node's ledger with the holds on top, as far as they fit."""
        known = self._stored.get(ledger.node.name)
        if known is not None and known.ledger is ledger:
            return self.inventory.ledger(ledger.node.name)
        for allocation in self._holds.get(ledger.node.name, {}).values():
            with suppress(LedgerError):
                ledger = ledger.reserve(allocation)
        return ledger

    def problem(self, node: str) -> str | None:
        """Why a node's record cannot be read; None where it can, or there is none."""
        return self._problems.get(node)

    def problems(self) -> Mapping[str, str]:
        """By node, why its record cannot be read."""
        return self._problems

    def committed(self, uid: str) -> Iterator[tuple[str, Allocation]]:
        """What a pod has been promised in the store, with the nodes."""
        for node in self.inventory.nodes_of(uid):
            found = self._stored[node].ledger.allocations.get(uid)
            if found is not None:
                yield node, found

    def reserve(self, allocation: Allocation, expires: int) -> None:
        """Hold cards for a pod until a time, in place of what was held for it before.

        Raises:
            LedgerError: it does not fit, or the node is not known. Nothing was changed.
        """
        ledger = self.inventory.get(allocation.node)
        if ledger is None:
            raise LedgerError(f"node {allocation.node} is not known")
        held = replace(allocation, state=AllocationState.RESERVED, expires=expires)
        changed = ledger.reserve(held)
        self.unreserve(allocation.uid)
        self._holds.setdefault(allocation.node, {})[allocation.uid] = held
        earlier = self.inventory.ledger(allocation.node)
        self.inventory.put(changed if earlier is ledger else self._combined(allocation.node))
        self.revision += 1

    def unreserve(self, uid: str, node: str | None = None) -> bool:
        """Let go of what is held for a pod, on one node or wherever it is.

        Returns:
            whether anything was held.
        """
        found = [name for name, held in self._holds.items() if uid in held]
        for name in found:
            if node in (None, name):
                self._drop(name, uid)
        return bool(found) and node in (None, *found)

    def reservation(self, uid: str) -> Allocation | None:
        """What is held for a pod."""
        return next((held[uid] for held in self._holds.values() if uid in held), None)

    def reserved(self) -> int:
        """How many pods something is held for."""
        return sum(map(len, self._holds.values()))

    def expire(self, now: int) -> int:
        """Let go of all holds whose time has come.

        Returns:
            how many there were.
        """
        over = [
            (node, uid)
            for node, held in self._holds.items()
            for uid, allocation in held.items()
            if allocation.expires is not None and allocation.expires <= now
        ]
        for node, uid in over:
            self._drop(node, uid)
        return len(over)

    def _drop(self, node: str, uid: str) -> None:
        held = self._holds[node]
        del held[uid]
        if not held:
            del self._holds[node]
        self.inventory.put(self._combined(node))
        self.revision += 1

    def _combined(self, node: str) -> NodeLedger:
        """A node's record with the holds; those that do not fit any more are let go."""
        ledger = self._stored[node].ledger
        held = self._holds.get(node, {})
        for uid, allocation in [*held.items()]:
            try:
                ledger = ledger.reserve(allocation)
            except LedgerError:
                del held[uid]
        if node in self._holds and not held:
            del self._holds[node]
        return ledger

    def _same_node(self, stored: Stored) -> Stored:
        """The record with the node object that is known, if it is equal: that is faster."""
        known = self.inventory.get(stored.ledger.node.name)
        if known is None or known.node is stored.ledger.node or known.node != stored.ledger.node:
            return stored
        return replace(stored, ledger=replace(stored.ledger, node=known.node))
