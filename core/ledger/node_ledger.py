"""Who holds what on one node: the only book that counts.

A ledger is a value: every change gives a new one with the next version, so that a store can
compare and swap. A change that would sell a card twice is refused here, whoever asks for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType

from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.ledger.usage import (
    IDLE,
    CardShare,
    CardUsage,
    concurrent_grants,
    conflict_between,
    first_conflict,
    shares_by_card,
)
from core.requests.grant import Allocation, AllocationState, Grant
from core.requests.reason import Obstacle


class LedgerError(ValueError):
    """A change that the ledger refuses; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the ledger that a person should look at.

    Attributes:
        pod: ``namespace/name`` of the allocation, or empty where a card is meant.
        text: what is wrong, as a sentence.
    """

    pod: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeLedger:
    """One node's cards and what is held of them.

    Attributes:
        node: the node.
        allocations: by pod uid, in order of arrival.
        uses: one for each card of the node, in its order.
        version: counts the changes.
    """

    node: Node
    allocations: Mapping[str, Allocation]
    usages: tuple[CardUsage, ...]
    version: int = 0

    @classmethod
    def of(cls, node: Node) -> "NodeLedger":
        """The empty ledger of a node."""
        return cls(node, MappingProxyType({}), (IDLE,) * len(node.cards))

    @classmethod
    def restored(
        cls, node: Node, allocations: Iterable[Allocation], version: int = 0
    ) -> "NodeLedger":
        """The ledger that adopting all of these, each of another pod, leads to."""
        by_uid = {allocation.uid: allocation for allocation in allocations}
        uses = {card.uuid: IDLE for card in node.cards}
        for allocation in by_uid.values():
            for uuid, holder in _holders(allocation).items():
                if uuid in uses:
                    uses[uuid] = uses[uuid].plus(holder)
        return cls(node, MappingProxyType(by_uid), tuple(uses[c.uuid] for c in node.cards), version)

    def reserve(self, allocation: Allocation) -> "NodeLedger":
        """Book an allocation, in place of an earlier held one of the same pod.

        Raises:
            LedgerError: it does not fit, is meant for another node, names a card that the node
                has not, or the pod holds a committed allocation already.
        """
        if allocation.node != self.node.name:
            raise LedgerError(f"{allocation.pod} goes to {allocation.node}, not {self.node.name}")
        earlier = self.allocations.get(allocation.uid)
        if earlier is not None and earlier.state is AllocationState.COMMITTED:
            raise LedgerError(f"pod {allocation.pod} already holds cards of {self.node.name}")
        base = self if earlier is None else self.release(allocation.uid)
        base._check(allocation)
        return base._with(allocation)._next(self)

    def commit(self, uid: str) -> "NodeLedger":
        """Make a held allocation final; a committed one stays as it is.

        Raises:
            LedgerError: the pod holds nothing here (any more).
        """
        allocation = self.allocations.get(uid)
        if allocation is None:
            raise LedgerError(f"pod {uid} holds nothing on {self.node.name}")
        return self if allocation.state is AllocationState.COMMITTED else self.renew(uid)

    def renew(self, uid: str) -> "NodeLedger":
        """Make an allocation final because an attempt to bind its pod begins now.

        A committed one has a new ``since`` by that: who found it abandoned before must look again.

        Raises:
            LedgerError: the pod holds nothing here (any more).
        """
        allocation = self.allocations.get(uid)
        if allocation is None:
            raise LedgerError(f"pod {uid} holds nothing on {self.node.name}")
        version = self.version + 1
        final = replace(allocation, state=AllocationState.COMMITTED, expires=None, since=version)
        allocations = MappingProxyType({**self.allocations, uid: final})
        return replace(self, allocations=allocations, version=version)

    def release(self, uid: str) -> "NodeLedger":
        """Give back all that a pod holds; itself where it holds nothing."""
        if uid not in self.allocations:
            return self
        rest = {key: value for key, value in self.allocations.items() if key != uid}
        return NodeLedger(
            self.node,
            MappingProxyType(rest),
            tuple(use.minus(uid) for use in self.usages),
            self.version + 1,
        )

    def adopt(self, allocation: Allocation) -> "NodeLedger":
        """Book what already is, whether it fits or not, in place of what the pod held before."""
        return self.release(allocation.uid)._with(allocation)._next(self)

    def expire(self, now: int) -> "NodeLedger":
        """Give back every held allocation whose time has come."""
        ledger = self
        for uid, allocation in self.allocations.items():
            if (
                allocation.state is AllocationState.RESERVED
                and allocation.expires is not None
                and allocation.expires <= now
            ):
                ledger = ledger.release(uid)
        return ledger

    def with_node(self, node: Node) -> "NodeLedger":
        """The same allocations on the node as it is now: cards may have come, gone or changed."""
        ledger = NodeLedger.of(node)
        for allocation in self.allocations.values():
            ledger = ledger._with(allocation)
        return ledger._next(self)

    def problems(self) -> tuple[Problem, ...]:
        """All that is held but not understood, and all that is sold twice."""
        known = {card.uuid for card in self.node.cards}
        found = [
            Problem(allocation.pod, text)
            for allocation in self.allocations.values()
            for text in _complaints(allocation, known)
        ]
        for card, use in zip(self.node.cards, self.usages, strict=True):
            found += [
                Problem("", text) for text in (*_excess(card, use), *self._quarrels(card, use))
            ]
        return tuple(found)

    def _quarrels(self, card: Card, use: CardUsage) -> list[str]:
        return [
            f"card {card.uuid}: {self.allocations[left.uid].pod} and"
            f" {self.allocations[right.uid].pod} cannot share it: {cause.value}"
            for left, right in combinations(use.shares, 2)
            if (cause := conflict_between(left, right)) is not None
        ]

    def _with(self, allocation: Allocation) -> "NodeLedger":
        holders = _holders(allocation)
        uses = tuple(
            use.plus(holders[card.uuid]) if card.uuid in holders else use
            for card, use in zip(self.node.cards, self.usages, strict=True)
        )
        return NodeLedger(
            self.node,
            MappingProxyType({**self.allocations, allocation.uid: allocation}),
            uses,
            self.version,
        )

    def _next(self, earlier: "NodeLedger") -> "NodeLedger":
        return replace(self, version=earlier.version + 1)

    def _check(self, allocation: Allocation) -> None:
        places = {card.uuid: place for place, card in enumerate(self.node.cards)}
        for uuid in _clashes(allocation):
            raise LedgerError(f"containers of {allocation.pod} exclude each other on {uuid}")
        for uuid, holder in _holders(allocation).items():
            if uuid not in places:
                raise LedgerError(f"node {self.node.name} has no card {uuid}")
            found = first_conflict(self.node.cards[places[uuid]], self.usages[places[uuid]], holder)
            if found is not None:
                raise LedgerError(_refusal(allocation, uuid, found))


def _by_card(allocation: Allocation) -> dict[str, list[Grant]]:
    cards: dict[str, list[Grant]] = {}
    for grant in allocation.grants:
        cards.setdefault(grant.card, []).append(grant)
    return cards


def _holders(allocation: Allocation) -> dict[str, CardShare]:
    grants = _by_card(allocation)
    blocked = allocation.blocked
    return {
        uuid: shares_by_card(allocation, grants.get(uuid, ()), blocked=uuid in blocked)
        for uuid in (*grants, *sorted(blocked - grants.keys()))
    }


def _clashes(allocation: Allocation) -> list[str]:
    """The cards on which two containers of the pod cannot run side by side."""
    return [
        uuid
        for uuid, grants in _by_card(allocation).items()
        if any(
            earlier.exclusive or grant.exclusive or _one_slice(earlier, grant)
            for place, grant in enumerate(grants)
            for earlier in concurrent_grants(grants[:place], grant.phase)
        )
    ]


def _one_slice(left: Grant, right: Grant) -> bool:
    if left.slice is None or right.slice is None:
        return False
    return left.slice.overlaps(right.slice)


def _refusal(allocation: Allocation, uuid: str, found: Obstacle) -> str:
    return f"card {uuid} cannot take {allocation.pod}: {found.cause.value}"


def _complaints(allocation: Allocation, known: set[str]) -> list[str]:
    complaints = [] if allocation.unread is None else [allocation.unread]
    strangers = dict.fromkeys(g.card for g in allocation.grants if g.card not in known)
    complaints += [f"holds card {uuid}, which the node does not have" for uuid in strangers]
    return complaints + [f"its containers exclude each other on {u}" for u in _clashes(allocation)]


def _excess(card: Card, use: CardUsage) -> list[str]:
    told: list[str] = []
    if card.mode is not Mode.MIG and use.memory > card.memory:
        told.append(f"card {card.uuid}: {use.memory} of {card.memory} bytes are held")
    if use.compute > FULL:
        told.append(f"card {card.uuid}: {use.compute}% of its compute are held")
    if use.slots > card.slots:
        told.append(f"card {card.uuid}: {use.slots} of {card.slots} slots are held")
    return told
