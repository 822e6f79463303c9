"""The ledger of one node: its cards and all allocations of them.

A ledger is a value: every change gives a new one with the next version, so that a store can
compare and swap. ``reserve`` rejects an allocation that would give a part of a card twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from core.hardware.node import Node
from core.ledger.problem import Problem, find_problems
from core.ledger.usage import IDLE, CardShare, CardUsage, contested_cards, first_conflict, shares_of
from core.requests.grant import Allocation, AllocationState
from core.value import value


class Consumer(NamedTuple):
    """Pods that are counted together."""

    namespace: str
    dialect: str
    model: str


@dataclass(frozen=True, slots=True)
class Amounts:
    """Sums of shares, or of shares multiplied by milliseconds.

    Attributes:
        shares: one for each pod on each card.
        memory: bytes.
        compute: percent of one card.
    """

    shares: int = 0
    memory: int = 0
    compute: int = 0

    def plus(self, other: "Amounts", times: int = 1) -> "Amounts":
        """Return the sum with a multiple of others."""
        return Amounts(
            self.shares + other.shares * times,
            self.memory + other.memory * times,
            self.compute + other.compute * times,
        )


CONSUMERS = 128
"""Consumers of one node that are counted apart: they are about 20 KB of its record."""

OTHERS = Consumer("~others", "", "")
"""Consumers beyond ``CONSUMERS``, all of which have shares; no namespace has such a name."""


@dataclass(frozen=True, slots=True)
class Meter:
    """How much of a node's cards pods have had, for how long: sums of amounts by milliseconds.

    What is allocated changes only with a write of the ledger. Each write adds what was allocated
    since the write before, in the same record: as only one of several writers succeeds, no time is
    counted twice and none is left out, however often the writers restart or change.

    Attributes:
        until: milliseconds since 1970 up to which the sums count; 0: nothing is counted yet.
        totals: amounts multiplied by milliseconds; the consumer that had a share last is last.
    """

    until: int = 0
    totals: Mapping[Consumer, Amounts] = field(default_factory=lambda: MappingProxyType({}))

    def advanced(self, allocated: Mapping[Consumer, Amounts], now: int) -> "Meter":
        """Return the sums up to a later time; itself where the time is not later.

        The consumer that has had no share for longest makes room for a new one.

        Args:
            allocated: since ``until``.
            now: milliseconds since 1970.
        """
        if now <= self.until:
            return self
        if self.until == 0:
            return Meter(now, self.totals)
        idle = {each: sums for each, sums in self.totals.items() if each not in allocated}
        others = idle.pop(OTHERS, Amounts())
        active: dict[Consumer, Amounts] = {}
        for consumer in sorted(allocated, key=lambda each: (each not in self.totals, each)):
            amounts, elapsed = allocated[consumer], now - self.until
            if consumer not in self.totals and len(idle) + len(active) == CONSUMERS:
                if not idle:
                    others = others.plus(amounts, elapsed)
                    continue
                del idle[next(iter(idle))]
            active[consumer] = self.totals.get(consumer, Amounts()).plus(amounts, elapsed)
        beyond = {} if others == Amounts() else {OTHERS: others}
        return Meter(now, MappingProxyType(idle | active | beyond))


UNMETERED = Meter()


@value(frozen=True, slots=True)
class Hold:
    """A place that no other pod gets.

    It may overlap with allocations of pods that leave first; it is free once they have left.

    Attributes:
        plan: uid of the plan of moves.
        recipient: uid of the pod that gets it, or of the controller whose next pod does; empty
            where the place is to stay free.
        by_name: of a controller's pods only that of the same namespace and name gets it.
        allocation: the cards. Its uid is the hold's own, and no pod's; its ``pod`` is that which
            gets it, or which moves to it.
        taken_by: uid of the pod that got it; empty where none did. The hold counts again when that
            pod has no allocation of the node any more.
    """

    plan: str
    recipient: str
    by_name: bool
    allocation: Allocation
    taken_by: str = ""

    @property
    def id(self) -> str:
        """The hold's own uid."""
        return self.allocation.uid

    def is_for(self, uid: str, controller: str, pod: str) -> bool:
        """Return whether a pod may have it: one of the namespace for which it is kept.

        A pod's author may name any controller, also that of another namespace.

        Args:
            uid: of the pod.
            controller: uid of the pod's controller; empty where it has none.
            pod: ``namespace/name``.
        """
        if self.recipient not in (uid, controller) or not self.recipient:
            return False
        kept = self.allocation.pod
        return pod == kept if self.by_name else pod.partition("/")[0] == kept.partition("/")[0]


NO_FENCES: Mapping[str, int] = MappingProxyType({})
"""The fences of a ledger on which no namespace has had a quota."""


class LedgerError(ValueError):
    """A change that the ledger rejects; nothing was changed."""


@value(frozen=True, slots=True)
class NodeLedger:
    """One node's cards and their allocations.

    Attributes:
        allocations: by pod uid, in order of arrival.
        usages: one for each card of the node, in its order.
        version: counts the changes.
        fences: by namespace with a quota, the highest number of a claim with which nothing may be
            allocated here any more.
        meter: what pods had until the record was written; only the ledger of a record has it.
        holds: places that are kept for pods to come. ``allocations`` and ``usages`` do not count
            them; what ``with_holds`` returns does.
    """

    node: Node
    allocations: Mapping[str, Allocation]
    usages: tuple[CardUsage, ...]
    version: int = 0
    fences: Mapping[str, int] = field(default_factory=lambda: NO_FENCES)
    meter: Meter = UNMETERED
    holds: tuple[Hold, ...] = ()

    @classmethod
    def of(cls, node: Node) -> "NodeLedger":
        """Return the empty ledger of a node."""
        return cls(node, MappingProxyType({}), (IDLE,) * len(node.cards))

    @classmethod
    def restored(
        cls,
        node: Node,
        allocations: Iterable[Allocation],
        version: int = 0,
        fences: Mapping[str, int] = NO_FENCES,
        holds: tuple[Hold, ...] = (),
    ) -> "NodeLedger":
        """Return the ledger after adopting all of these, each of another pod."""
        by_uid = {allocation.uid: allocation for allocation in allocations}
        usages = {card.uuid: IDLE for card in node.cards}
        for allocation in by_uid.values():
            for uuid, share in shares_of(allocation).items():
                if uuid in usages:
                    usages[uuid] = usages[uuid].plus(share)
        in_order = tuple([usages[card.uuid] for card in node.cards])
        allocated = MappingProxyType(by_uid)
        return cls(node, allocated, in_order, version, fences, holds=holds)

    def with_allocations(
        self,
        allocations: Sequence[Allocation],
        version: int,
        fences: Mapping[str, int],
        holds: tuple[Hold, ...] = (),
    ) -> "NodeLedger":
        """Return the ledger of the same node with these allocations instead, equal to ``restored``.

        The meter begins again. Those that are the same objects as here are not counted again, if
        the others come after them.
        """
        here = self.allocations
        by_uid = {allocation.uid: allocation for allocation in allocations}
        kept = [uid for uid, known in here.items() if by_uid.get(uid) is known]
        if [*by_uid][: len(kept)] != kept:
            return NodeLedger.restored(self.node, allocations, version, fences, holds)
        usages = self.usages
        for uid, known in here.items():
            if by_uid.get(uid) is not known:
                usages = tuple(use.minus(uid) for use in usages)
        nothing = MappingProxyType[str, Allocation]({})
        ledger = NodeLedger(self.node, nothing, usages, version, fences, holds=holds)
        for allocation in allocations[len(kept) :]:
            ledger = ledger._with(allocation, shares_of(allocation))
        return replace(ledger, allocations=MappingProxyType(by_uid))

    def reserve(self, allocation: Allocation) -> "NodeLedger":
        """Add an allocation, in place of an earlier reservation of the same pod.

        Raises:
            LedgerError: it does not fit, is for another node, names a card that the node does not
                have, or the pod has a committed allocation already.
        """
        if allocation.node != self.node.name:
            raise LedgerError(f"{allocation.pod} goes to {allocation.node}, not {self.node.name}")
        earlier = self.allocations.get(allocation.uid)
        if earlier is not None and earlier.state is AllocationState.COMMITTED:
            raise LedgerError(f"pod {allocation.pod} already holds cards of {self.node.name}")
        base = self if earlier is None else self.release(allocation.uid)
        shares = shares_of(allocation)
        positions = {card.uuid: position for position, card in enumerate(self.node.cards)}
        for uuid in contested_cards(allocation):
            raise LedgerError(f"containers of {allocation.pod} exclude each other on {uuid}")
        for uuid, share in shares.items():
            if uuid not in positions:
                raise LedgerError(f"node {self.node.name} has no card {uuid}")
            card, use = self.node.cards[positions[uuid]], base.usages[positions[uuid]]
            obstacle = first_conflict(card, use, share)
            if obstacle is not None:
                cause = obstacle.cause.value
                raise LedgerError(f"card {uuid} cannot take {allocation.pod}: {cause}")
        return base._with(allocation, shares)._next(self)

    def allocate(self, allocation: Allocation) -> "NodeLedger":
        """Reserve and commit in one change, in place of what the pod had here before.

        An attempt to bind the pod begins with it: its ``attempt`` is new, as after ``renew``.

        Raises:
            LedgerError: as ``reserve``.
        """
        version = self.version + 1
        final = replace(allocation, state=AllocationState.COMMITTED, expires=None, attempt=version)
        return replace(self.release(final.uid).reserve(final), version=version)

    def commit(self, uid: str) -> "NodeLedger":
        """Commit a reservation; a committed allocation stays as it is.

        Raises:
            LedgerError: the pod has no allocation here (any more).
        """
        allocation = self.allocations.get(uid)
        if allocation is None:
            raise LedgerError(f"pod {uid} holds nothing on {self.node.name}")
        return self if allocation.state is AllocationState.COMMITTED else self.renew(uid)

    def renew(self, uid: str) -> "NodeLedger":
        """Commit an allocation, because an attempt to bind its pod begins now.

        A committed one gets a new ``attempt``, so that a reconciler that found it to be an orphan
        before does not release it.

        Raises:
            LedgerError: the pod has no allocation here (any more).
        """
        allocation = self.allocations.get(uid)
        if allocation is None:
            raise LedgerError(f"pod {uid} holds nothing on {self.node.name}")
        version = self.version + 1
        final = replace(allocation, state=AllocationState.COMMITTED, expires=None, attempt=version)
        allocations = MappingProxyType({**self.allocations, uid: final})
        return replace(self, allocations=allocations, version=version)

    def release(self, *uids: str) -> "NodeLedger":
        """Remove the allocations of some pods; itself where they have none."""
        if self.allocations.keys().isdisjoint(uids):
            return self
        leaving = frozenset(uids)
        rest = {key: value for key, value in self.allocations.items() if key not in leaving}
        return NodeLedger(
            self.node,
            MappingProxyType(rest),
            tuple(use.minus(*uids) for use in self.usages),
            self.version + 1,
            self.fences,
            holds=self.holds,
        )

    def adopt(self, allocation: Allocation) -> "NodeLedger":
        """Add an existing allocation, whether it fits or not, in place of the pod's earlier one."""
        return self.release(allocation.uid)._with(allocation, shares_of(allocation))._next(self)

    def expire(self, now: int) -> "NodeLedger":
        """Remove every reservation that has expired by a time."""
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
        """Return the allocations on the node with other cards: added, removed or changed ones."""
        ledger = replace(NodeLedger.of(node), fences=self.fences, holds=self.holds)
        for allocation in self.allocations.values():
            ledger = ledger._with(allocation, shares_of(allocation))
        return ledger._next(self)

    def fence(self, namespace: str) -> int:
        """Return the number of a claim that a commit of a namespace's pod must be above."""
        return self.fences.get(namespace, 0)

    def fenced(self, namespace: str, number: int) -> "NodeLedger":
        """Accept no more claims up to a number; itself where it does not."""
        if number <= self.fence(namespace):
            return self
        fences = MappingProxyType({**self.fences, namespace: number})
        return replace(self, fences=fences, version=self.version + 1)

    def hold(self, *holds: Hold) -> "NodeLedger":
        """Keep some places, each in place of an earlier hold of its uid; none is checked."""
        kept = tuple({each.id: each for each in (*self.holds, *holds)}.values())
        return self if kept == self.holds else replace(self, holds=kept, version=self.version + 1)

    def take(self, hold: Hold, uid: str) -> "NodeLedger":
        """Note that a pod got a place, in the version that allocates the cards to it."""
        taken = replace(hold, taken_by=uid)
        kept = tuple(taken if each.id == hold.id else each for each in self.holds)
        return replace(self, holds=kept)

    def drop_holds(self, *ids: str) -> "NodeLedger":
        """Keep some places no longer; itself where it does not keep them."""
        kept = tuple(each for each in self.holds if each.id not in ids)
        if len(kept) == len(self.holds):
            return self
        return replace(self, holds=kept, version=self.version + 1)

    def kept(self) -> Iterator[Hold]:
        """Return the holds that no pod of the ledger has taken."""
        return (each for each in self.holds if each.taken_by not in self.allocations)

    def with_holds(self) -> "NodeLedger":
        """Return the ledger with the places that are kept as reservations.

        They may overlap with allocations of pods that are to leave.
        """
        ledger = self
        for hold in self.kept():
            reserved = replace(hold.allocation, state=AllocationState.RESERVED, expires=None)
            ledger = ledger._with(reserved, shares_of(reserved))
        return ledger

    def without_holds(self) -> "NodeLedger":
        """Return the ledger without what ``with_holds`` adds; itself where it has none."""
        return self.release(*[hold.id for hold in self.holds]) if self.holds else self

    def problems(self) -> tuple[Problem, ...]:
        """Return allocations that cannot be read, and parts of cards that are allocated twice."""
        return find_problems(self.node.cards, self.usages, self.allocations)

    def _with(self, allocation: Allocation, shares: Mapping[str, CardShare]) -> "NodeLedger":
        usages = tuple(
            use.plus(shares[card.uuid]) if card.uuid in shares else use
            for card, use in zip(self.node.cards, self.usages, strict=True)
        )
        return NodeLedger(
            self.node,
            MappingProxyType({**self.allocations, allocation.uid: allocation}),
            usages,
            self.version,
            self.fences,
            holds=self.holds,
        )

    def _next(self, earlier: "NodeLedger") -> "NodeLedger":
        return replace(self, version=earlier.version + 1)


def consumption(ledger: NodeLedger) -> Mapping[Consumer, Amounts]:
    """Return what is allocated now.

    A pod counts with what it holds on each card that the node has, at its peak, as in the card's
    usage. A pod whose cards are unknown is left out: nothing says which of them it uses.
    """
    sums: dict[tuple[str, str, str], list[int]] = {}
    for card, usage in zip(ledger.node.cards, ledger.usages, strict=True):
        for share in usage.shares:
            allocation = ledger.allocations[share.uid]
            if allocation.unread is None:
                place = allocation.pod_ref.namespace, allocation.dialect, card.model
                total = sums.setdefault(place, [0, 0, 0])
                total[0] += 1
                total[1] += share.memory
                total[2] += share.compute
    return {Consumer(*place): Amounts(*total) for place, total in sums.items()}


def metered(changed: NodeLedger, earlier: NodeLedger | None, now: int) -> NodeLedger:
    """Return the ledger to write, with all that was allocated until now.

    Args:
        changed: what to write.
        earlier: what the store has, which ``changed`` was made from; None where it has nothing.
        now: milliseconds since 1970.
    """
    base = changed if earlier is None else earlier
    return replace(changed, meter=base.meter.advanced(consumption(base), now))
