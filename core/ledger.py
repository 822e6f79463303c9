"""Who holds what on one node: the only book that counts.

A ledger is a value: every change gives a new one with the next version, so that a store can
compare and swap. A change that would sell a card twice is refused here, whoever asks for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from core.card import Card, Mode
from core.grant import Allocation, Grant, State
from core.node import Node
from core.quantity import FULL
from core.reason import Obstacle
from core.usage import IDLE, CardUse, concurrent, hold, obstacle


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
    uses: tuple[CardUse, ...]
    version: int = 0

    @classmethod
    def of(cls, node: Node) -> "NodeLedger":
        """The empty ledger of a node."""
        return cls(node, MappingProxyType({}), (IDLE,) * len(node.cards))

    def hold(self, allocation: Allocation) -> "NodeLedger":
        """Book an allocation, in place of an earlier held one of the same pod.

        Raises:
            LedgerError: it does not fit, names a card that the node has not, or the pod holds a
                committed allocation already.
        """
        earlier = self.allocations.get(allocation.uid)
        if earlier is not None and earlier.state is State.COMMITTED:
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
        final = replace(allocation, state=State.COMMITTED, expires=None)
        return replace(
            self,
            allocations=MappingProxyType({**self.allocations, uid: final}),
            version=self.version + 1,
        )

    def release(self, uid: str) -> "NodeLedger":
        """Give back all that a pod holds; itself where it holds nothing."""
        if uid not in self.allocations:
            return self
        rest = {key: value for key, value in self.allocations.items() if key != uid}
        return NodeLedger(
            self.node,
            MappingProxyType(rest),
            tuple(use.minus(uid) for use in self.uses),
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
                allocation.state is State.HELD
                and allocation.expires is not None
                and allocation.expires <= now
            ):
                ledger = ledger.release(uid)
        return ledger

    def describe(self, node: Node) -> "NodeLedger":
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
        for card, use in zip(self.node.cards, self.uses, strict=True):
            found += [Problem("", text) for text in _excess(card, use)]
        return tuple(found)

    def _with(self, allocation: Allocation) -> "NodeLedger":
        uses = list(self.uses)
        for position, card in enumerate(self.node.cards):
            grants = [grant for grant in allocation.grants if grant.card == card.uuid]
            blocked = card.uuid in allocation.blocked
            if grants or blocked:
                uses[position] = uses[position].plus(hold(allocation, grants, blocked=blocked))
        return NodeLedger(
            self.node,
            MappingProxyType({**self.allocations, allocation.uid: allocation}),
            tuple(uses),
            self.version,
        )

    def _next(self, earlier: "NodeLedger") -> "NodeLedger":
        return replace(self, version=earlier.version + 1)

    def _check(self, allocation: Allocation) -> None:
        places = {card.uuid: place for place, card in enumerate(self.node.cards)}
        for uuid, grants in _by_card(allocation.grants).items():
            if uuid not in places:
                raise LedgerError(f"node {self.node.name} has no card {uuid}")
            if _clash(grants):
                raise LedgerError(f"containers of {allocation.pod} exclude each other on {uuid}")
            card, use = self.node.cards[places[uuid]], self.uses[places[uuid]]
            found = obstacle(card, use, hold(allocation, grants))
            if found is not None:
                raise LedgerError(_refusal(allocation, uuid, found))


def _by_card(grants: Iterable[Grant]) -> dict[str, list[Grant]]:
    cards: dict[str, list[Grant]] = {}
    for grant in grants:
        cards.setdefault(grant.card, []).append(grant)
    return cards


def _clash(grants: list[Grant]) -> bool:
    return any(
        (grant.exclusive or other.exclusive)
        for place, grant in enumerate(grants)
        for other in concurrent(grants[:place], grant.phase)
    )


def _refusal(allocation: Allocation, uuid: str, found: Obstacle) -> str:
    return f"card {uuid} cannot take {allocation.pod}: {found.cause.value}"


def _complaints(allocation: Allocation, known: set[str]) -> list[str]:
    complaints = [] if allocation.unread is None else [allocation.unread]
    strangers = dict.fromkeys(g.card for g in allocation.grants if g.card not in known)
    return complaints + [f"holds card {uuid}, which the node does not have" for uuid in strangers]


def _excess(card: Card, use: CardUse) -> list[str]:
    told: list[str] = []
    if card.mode is not Mode.MIG and use.memory > card.memory:
        told.append(f"card {card.uuid}: {use.memory} of {card.memory} bytes are held")
    if use.compute > FULL:
        told.append(f"card {card.uuid}: {use.compute}% of its compute are held")
    if use.slots > card.slots:
        told.append(f"card {card.uuid}: {use.slots} of {card.slots} slots are held")
    return told
