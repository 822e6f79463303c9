"""What is in use on one card, and which shares one card can have at the same time."""

from collections.abc import Sequence
from itertools import combinations, groupby
from operator import attrgetter

from core.hardware.card import Card, Mode
from core.hardware.mig import Slice
from core.requests.grant import KUBELET, Allocation, Grant
from core.requests.reason import Cause, Obstacle
from core.requests.request import Phase, Request, SharingTerms, TaskClass
from core.value import value


@value(frozen=True, slots=True)
class CardShare:
    """What one pod holds on one card, at its peak over the pod's life.

    Attributes:
        memory: bytes.
        compute: percent.
        slots: sharing slots, one for each of its containers that run at once.
        exclusive: no other pod may have a share of the card.
        blocked: it may hold any part of the card (its record could not be read).
        by_kubelet: a device plugin serves the pod, and the kubelet chose the card.
        slices: MIG slices, each once.
        unreadable_slices: it has a grant of the card without a slice, so that on a card in MIG
            mode nothing says which slices it has.
    """

    uid: str
    memory: int
    compute: int
    slots: int
    exclusive: bool
    blocked: bool
    by_kubelet: bool
    terms: SharingTerms
    slices: tuple[Slice, ...]
    unreadable_slices: bool


@value(frozen=True, slots=True)
class CardUsage:
    """The sum of a card's shares.

    Attributes:
        memory: bytes.
        compute: percent.
        shares: by arrival.
    """

    memory: int = 0
    compute: int = 0
    slots: int = 0
    shares: tuple[CardShare, ...] = ()

    def plus(self, share: CardShare) -> "CardUsage":
        """Return the usage with one more share."""
        return CardUsage(
            self.memory + share.memory,
            self.compute + share.compute,
            self.slots + share.slots,
            (*self.shares, share),
        )

    def minus(self, *uids: str) -> "CardUsage":
        """Return the usage without the shares of some pods; itself where they have none."""
        leaving = frozenset(uids)
        gone = [share for share in self.shares if share.uid in leaving]
        if not gone:
            return self
        return CardUsage(
            self.memory - sum(share.memory for share in gone),
            self.compute - sum(share.compute for share in gone),
            self.slots - sum(share.slots for share in gone),
            tuple(share for share in self.shares if share.uid not in leaving),
        )

    def slices(self) -> tuple[Slice, ...]:
        """Return all MIG slices in use."""
        return tuple(held for share in self.shares for held in share.slices)


IDLE = CardUsage()


def shares_by_card(
    owner: Request | Allocation, grants: Sequence[Grant], *, blocked: bool = False
) -> CardShare:
    """Return what a pod holds on one card.

    A slice is the pod's for its whole life, so it counts whenever a container uses it; a slice
    that an init container leaves to a later container counts once.

    Args:
        owner: the pod's request or allocation.
        grants: the pod's grants on this card, in start order.
        blocked: the pod may hold any part of the card.
    """
    slices: tuple[Slice, ...] = ()
    if len(grants) == 1 and grants[0].slice is None:
        memory, compute, slots = grants[0].memory, grants[0].compute, 1
        exclusive, unreadable_slices = grants[0].exclusive, True
    else:
        used = {(g.slice.profile, g.slice.start): g.slice for g in grants if g.slice is not None}
        slices = tuple(used.values())
        memory, compute, slots = _peak(grants)
        memory += sum(each.memory for each in slices)
        compute += sum(each.compute for each in slices)
        exclusive = any(grant.exclusive for grant in grants)
        unreadable_slices = any(grant.slice is None for grant in grants)
    return CardShare(
        owner.uid,
        memory,
        compute,
        slots,
        exclusive,
        blocked,
        isinstance(owner, Allocation) and owner.dialect == KUBELET,
        owner.terms,
        slices,
        unreadable_slices,
    )


def shares_of(allocation: Allocation) -> dict[str, CardShare]:
    """Return what a pod has of each card, by uuid."""
    grants, blocked = _by_card(allocation), allocation.blocked
    shares = {
        uuid: shares_by_card(allocation, here, blocked=uuid in blocked)
        for uuid, here in grants.items()
    }
    for uuid in sorted(blocked - grants.keys()) if blocked else ():
        shares[uuid] = shares_by_card(allocation, (), blocked=True)
    return shares


def contested_cards(allocation: Allocation) -> list[str]:
    """Return the cards that two containers of the pod cannot use at the same time."""
    return [
        uuid
        for uuid, grants in _by_card(allocation).items()
        if any(
            _exclude_each_other(earlier, grant)
            for number, grant in enumerate(grants)
            for earlier in concurrent_grants(grants[:number], grant.phase, grant.container)
        )
    ]


def concurrent_grants(grants: Sequence[Grant], phase: Phase, container: str) -> list[Grant]:
    """Return the earlier grants of a pod on a card whose containers run together with a next one.

    Args:
        grants: in start order, before the next one.
        phase: of the next one.
        container: of the next one; other slices of the card that it has count too.
    """
    return [
        grant
        for grant in grants
        if grant.container == container
        or grant.phase is Phase.SIDECAR
        or (phase is Phase.MAIN is grant.phase)
    ]


def first_conflict(card: Card, use: CardUsage, new: CardShare) -> Obstacle | None:
    """Return the first reason for which a card cannot have one more share; None where it can.

    This is the invariant of the ledger: with a new share that has no conflict, the card is over
    neither its memory nor its compute nor its slots, no two slices overlap or are of two layouts
    that cannot be mixed, and no exclusive share has company, except that an offline task lends its
    card to online ones.

    What the kubelet chooses shares a card only with its own kind: a device plugin gives a card to
    several pods where it shares cards, and does not know what the ledger allocated.

    Args:
        card: the card.
        use: without the pod of the new share.
        new: all that the pod would hold on the card.
    """
    if new.by_kubelet and new.blocked:
        alone = all(resident.by_kubelet for resident in use.shares)
        return None if alone else Obstacle(Cause.KUBELET)
    for resident in use.shares:
        cause = _conflict_with(new, resident)
        if cause is not None:
            return Obstacle(cause)
    if use.slots + new.slots > card.slots:
        return Obstacle(Cause.SLOTS)
    if card.mode is Mode.MIG:
        slices = (*use.slices(), *new.slices)
        if (
            (len({held.layout for held in slices}) > 1 and not card.geometry.mixed)
            or any(share.unreadable_slices for share in (*use.shares, new))
            or any(left.overlaps(right) for left, right in combinations(slices, 2))
        ):
            return Obstacle(Cause.NO_SLICE)
        return None
    if use.memory + new.memory > card.memory:
        return Obstacle(Cause.MEMORY, use.memory + new.memory - card.memory)
    if use.compute + new.compute > card.compute:
        return Obstacle(Cause.COMPUTE, use.compute + new.compute - card.compute)
    is_full = 0 < card.compute <= use.compute
    if new.compute == 0 and is_full and new.terms.task_class is not TaskClass.ONLINE:
        return Obstacle(Cause.COMPUTE_FULL)
    return None


def conflict_between(left: CardShare, right: CardShare) -> Cause | None:
    """Return why two shares exclude each other in either order of arrival; None where they do not.

    A share whose record could not be read conflicts with none: its contents are not known. One of
    the kubelet's choice conflicts with what the ledger allocated.
    """
    if left.blocked or right.blocked:
        chosen = [share for share in (left, right) if share.blocked and share.by_kubelet]
        given = [share for share in (left, right) if not share.blocked and not share.by_kubelet]
        return Cause.HELD_BY_KUBELET if chosen and given else None
    if any(one.overlaps(other) for one in left.slices for other in right.slices):
        return Cause.NO_SLICE
    return _conflict_with(left, right) and _conflict_with(right, left)


def _by_card(allocation: Allocation) -> dict[str, list[Grant]]:
    grants: Sequence[Grant] = allocation.grants
    if allocation.initialized:
        grants = [grant for grant in grants if allocation.counts(grant)]
    cards: dict[str, list[Grant]] = {}
    for grant in grants:
        cards.setdefault(grant.card, []).append(grant)
    return cards


def _exclude_each_other(left: Grant, right: Grant) -> bool:
    """Return whether two grants of one card cannot be in use at once; those of one container can.

    Two slices exclude each other where they overlap, even where one container has both.
    """
    if left.slice is not None and right.slice is not None:
        if left.slice.overlaps(right.slice):
            return True
        if left.container == right.container:
            return False
    return left.exclusive or right.exclusive


def _conflict_with(new: CardShare, resident: CardShare) -> Cause | None:
    if resident.blocked and resident.by_kubelet:
        return Cause.HELD_BY_KUBELET
    if resident.blocked or new.blocked:
        return Cause.BLOCKED
    cause = new.terms.conflict_with(resident.terms)
    if cause is not None:
        return cause
    if new.exclusive:
        return Cause.IN_USE
    if new.terms.task_class is TaskClass.ONLINE:
        yields = resident.terms.task_class is TaskClass.OFFLINE
        return Cause.HELD_EXCLUSIVELY if resident.exclusive and not yields else None
    if resident.exclusive:
        return Cause.HELD_EXCLUSIVELY
    qos = (new.terms.qos, resident.terms.qos)
    return Cause.QOS if None not in qos and qos[0] != qos[1] else None


def _peak(grants: Sequence[Grant]) -> tuple[int, int, int]:
    """Return the peak of memory and compute outside of slices, and of slots."""
    running = peak = (0, 0, 0)
    for _, members in groupby(grants, key=attrgetter("container")):
        memory, compute, slots = running
        phase = Phase.MAIN
        for grant in members:
            if grant.slice is None:
                memory, compute = memory + grant.memory, compute + grant.compute
            slots, phase = slots + 1, grant.phase
        together = (memory, compute, slots)
        peak = (max(peak[0], together[0]), max(peak[1], together[1]), max(peak[2], together[2]))
        if phase is not Phase.INIT:
            running = together
    return peak
