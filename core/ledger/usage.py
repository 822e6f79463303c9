"""What is in use on one card, and who can stand beside whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from core.hardware.card import Card, Mode
from core.hardware.mig import Slice
from core.hardware.quantity import FULL
from core.requests.grant import Allocation, Grant
from core.requests.reason import Cause, Obstacle
from core.requests.request import Phase, Request, TaskClass


@dataclass(frozen=True, slots=True)
class CardShare:
    """What one pod holds on one card, at its peak over the pod's life.

    Attributes:
        uid: the pod's.
        memory: bytes.
        compute: percent.
        slots: sharing slots, one for each of its containers that run at once.
        exclusive: it suffers nobody beside it.
        blocked: it may hold any part of the card (its record could not be read).
        task_class: of the pod.
        qos: of the pod.
        group: of the pod.
        exclusions: of the pod.
        slices: hardware slices, each once.
        uncut: it holds something of the card outside of slices.
    """

    uid: str
    memory: int
    compute: int
    slots: int
    exclusive: bool
    blocked: bool
    task_class: TaskClass
    qos: str | None
    group: str | None
    exclusions: frozenset[str]
    slices: tuple[Slice, ...]
    unreadable_slices: bool


@dataclass(frozen=True, slots=True)
class CardUsage:
    """The sum of a card's holders.

    Attributes:
        memory: bytes.
        compute: percent.
        slots: sharing slots.
        holders: by arrival.
    """

    memory: int = 0
    compute: int = 0
    slots: int = 0
    shares: tuple[CardShare, ...] = ()

    def plus(self, holder: CardShare) -> "CardUsage":
        """The use after one more holder."""
        return CardUsage(
            self.memory + holder.memory,
            self.compute + holder.compute,
            self.slots + holder.slots,
            (*self.shares, holder),
        )

    def minus(self, uid: str) -> "CardUsage":
        """The use after a holder has left; itself where the pod holds nothing here."""
        gone = next((holder for holder in self.shares if holder.uid == uid), None)
        if gone is None:
            return self
        return CardUsage(
            self.memory - gone.memory,
            self.compute - gone.compute,
            self.slots - gone.slots,
            tuple(holder for holder in self.shares if holder is not gone),
        )

    def slices(self) -> tuple[Slice, ...]:
        """All hardware slices in use."""
        return tuple(held for holder in self.shares for held in holder.slices)


IDLE = CardUsage()

_MIXES = {
    TaskClass.NORMAL: (TaskClass.NORMAL,),
    TaskClass.OFFLINE: (TaskClass.OFFLINE,),
    TaskClass.ONLINE: (TaskClass.ONLINE, TaskClass.OFFLINE),
}
"""Beside whom a newcomer of each class may stand."""


def shares_by_card(
    owner: Request | Allocation, grants: Sequence[Grant], *, blocked: bool = False
) -> CardShare:
    """What a pod holds on one card.

    Slices stay cut for the pod's whole life, so they count whenever they are used; a slice that
    an init container leaves to a later one counts once.

    Args:
        owner: whose.
        grants: the pod's grants on this card, in start order.
        blocked: the pod may hold any part of the card.
    """
    slices = {(g.slice.profile, g.slice.start): g.slice for g in grants if g.slice is not None}
    memory, compute, slots = _peak(grants)
    return CardShare(
        uid=owner.uid,
        memory=memory + sum(each.memory for each in slices.values()),
        compute=compute + sum(each.compute for each in slices.values()),
        slots=slots,
        exclusive=any(grant.exclusive for grant in grants),
        blocked=blocked,
        task_class=owner.task_class,
        qos=owner.qos,
        group=owner.group,
        exclusions=owner.exclusions,
        slices=tuple(slices.values()),
        unreadable_slices=any(grant.slice is None for grant in grants),
    )


def concurrent_grants(grants: Sequence[Grant], phase: Phase) -> list[Grant]:
    """Those of a pod's earlier grants on a card that run at the same time as a next one.

    Args:
        grants: in start order, before the next one.
        phase: of the next one.
    """
    if phase is Phase.MAIN:
        return [grant for grant in grants if grant.phase is not Phase.INIT]
    return [grant for grant in grants if grant.phase is Phase.SIDECAR]


def first_conflict(card: Card, use: CardUsage, newcomer: CardShare) -> Obstacle | None:
    """What keeps a card, with its other holders, from taking one more.

    This is the invariant of the ledger: a holder that meets no obstacle can be added and the card
    is over neither its memory nor its compute nor its slots, no two slices overlap, and nobody
    exclusive is disturbed, except that an offline task lends its card to online ones.

    Args:
        card: the card.
        use: without the newcomer's pod.
        newcomer: all that the pod would hold on the card.
    """
    for resident in use.shares:
        cause = _conflict_with(newcomer, resident)
        if cause is not None:
            return Obstacle(cause)
    if use.slots + newcomer.slots > card.slots:
        return Obstacle(Cause.SLOTS)
    if card.mode is Mode.MIG:
        return None if _cut_apart((*use.shares, newcomer)) else Obstacle(Cause.NO_SLICE)
    if use.memory + newcomer.memory > card.memory:
        return Obstacle(Cause.MEMORY, use.memory + newcomer.memory - card.memory)
    if use.compute + newcomer.compute > FULL:
        return Obstacle(Cause.COMPUTE, use.compute + newcomer.compute - FULL)
    if (
        newcomer.compute == 0
        and use.compute >= FULL
        and newcomer.task_class is not TaskClass.ONLINE
    ):
        return Obstacle(Cause.COMPUTE_FULL)
    return None


def conflict_between(left: CardShare, right: CardShare) -> Cause | None:
    """Why two holders of one card should never have met, whoever came first; None where they may.

    A holder whose record could not be read conflicts with nobody: nothing is known of it.
    """
    if left.blocked or right.blocked:
        return None
    if any(one.overlaps(other) for one in left.slices for other in right.slices):
        return Cause.NO_SLICE
    return _conflict_with(left, right) and _conflict_with(right, left)


def _cut_apart(holders: Sequence[CardShare]) -> bool:
    slices = [held for holder in holders for held in holder.slices]
    return not any(holder.unreadable_slices for holder in holders) and not any(
        left.overlaps(right) for left, right in combinations(slices, 2)
    )


def _conflict_with(newcomer: CardShare, resident: CardShare) -> Cause | None:
    if resident.blocked or newcomer.blocked:
        return Cause.BLOCKED
    if resident.task_class not in _MIXES[newcomer.task_class]:
        return Cause.CLASS
    if newcomer.group is not None and newcomer.group == resident.group:
        return Cause.GROUP
    if newcomer.exclusions & resident.exclusions:
        return Cause.EXCLUSION
    if newcomer.exclusive:
        return Cause.IN_USE
    if newcomer.task_class is TaskClass.ONLINE:
        return Cause.HELD_EXCLUSIVELY if _undisturbed(resident) else None
    if resident.exclusive:
        return Cause.HELD_EXCLUSIVELY
    if None not in (newcomer.qos, resident.qos) and newcomer.qos != resident.qos:
        return Cause.QOS
    return None


def _undisturbed(resident: CardShare) -> bool:
    return resident.exclusive and resident.task_class is not TaskClass.OFFLINE


def _peak(grants: Sequence[Grant]) -> tuple[int, int, int]:
    """Of memory and compute outside of slices, and of slots."""
    running = peak = (0, 0, 0)
    for grant in grants:
        memory, compute, slots = running
        if grant.slice is None:
            memory, compute = memory + grant.memory, compute + grant.compute
        together = (memory, compute, slots + 1)
        peak = (
            max(peak[0], together[0]),
            max(peak[1], together[1]),
            max(peak[2], together[2]),
        )
        if grant.phase is not Phase.INIT:
            running = together
    return peak
