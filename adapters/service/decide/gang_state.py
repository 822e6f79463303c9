"""What this process remembers of one gang, and what follows from that: values and pure functions.

``Gangs`` has one ``GangState`` for each gang. It asks here, and does what the answers say.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from adapters.accounting.gang_cache import Gang
from adapters.accounting.gang_members import GangMembers, named
from adapters.repairs.repairs import RELEASED, RELEASED_LABEL
from adapters.wire.kube import annotations, labels
from core.durations import SECOND, Sightings
from core.requests.gang import GangRef

ROUNDS = 3
"""How often a pod is answered with the node that is held for it before the gang gives its cards
back: a scheduler binds a gang after one answer for each pod, unless it lacks something else."""

REST = 60
"""Seconds in which a gang holds nothing after it held cards that it did not use."""

LEFT = 180
"""Seconds in which a gang rests that could not give all cards back: the leader releases the others
in that time, because no pod of the gang is bound meanwhile."""


@dataclass(frozen=True, slots=True)
class GangRefusal:
    """Why no pod of a gang may be bound now.

    Attributes:
        text: for people; it names the gang and what is missing.
    """

    text: str


@dataclass(slots=True)
class GangHold:
    """Cards that this process has committed for a gang.

    Attributes:
        since: when the oldest of them were committed, in nanoseconds of the clock.
        asked: by uid of a pod, how often its scheduler was answered since.
        written: by uid and node, ``attempt`` of the allocation, of which it is sure that no Binding
            is on its way. Each attempt to bind the pod, in any replica, gives it another one.
    """

    since: int
    asked: Counter[str] = field(default_factory=Counter)
    written: dict[tuple[str, str], int] = field(default_factory=dict)

    def forget_except(self, uids: Collection[str]) -> None:
        """Forget the pods that are no more."""
        self.asked = Counter({uid: times for uid, times in self.asked.items() if uid in uids})
        self.written = {key: attempt for key, attempt in self.written.items() if key[0] in uids}

    def note_change(self, uid: str, node: str, change: tuple[int, int]) -> None:
        """Note that an allocation that this process has written has another ``attempt`` now.

        Args:
            uid: of the pod.
            node: of the allocation.
            change: ``attempt`` before and after.
        """
        before, after = change
        if self.written.get((uid, node)) == before:
            self.written[uid, node] = after


@dataclass(frozen=True, slots=True)
class Fitting:
    """Which pods of a gang fit.

    Attributes:
        gang: as it was then; the same object as long as nothing changes.
        revision: of the ledgers.
        basis: what it depends on; equal also where another pod of the cluster has changed.
        placeable: the pods that fit or are placed, if they are enough; None for each alone.
        marked_until: until when the gang rests by the leader's marks, in monotonic nanoseconds.
    """

    gang: Gang
    revision: object
    basis: object
    placeable: frozenset[str] | None
    marked_until: int


@dataclass(slots=True)
class GangState:
    """What this process remembers of a gang. To forget it costs another plan, or another write.

    Attributes:
        lock: of whatever changes what the gang holds.
        users: calls that have the lock or wait for it.
        binding: pods of the gang that are being bound now.
        committing: uids of pods whose cards are being committed now.
        hold: the cards that it holds; None for none.
        given_back_at: when it gave them back last, in nanoseconds of the clock.
        refusal: why the latest plan placed too few pods, after what the plan depended on.
        fitting: which of its pods fit.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    binding: int = 0
    committing: frozenset[str] = frozenset()
    hold: GangHold | None = None
    given_back_at: int | None = None
    refusal: tuple[object, GangRefusal] | None = None
    fitting: Fitting | None = None

    def hold_from(self, since: int) -> GangHold:
        """Return what the gang holds; where it holds nothing yet, from a time on."""
        self.hold = self.hold or GangHold(since)
        return self.hold


class GangStates(OrderedDict[GangRef, GangState]):
    """The states by key of the gang, the one that was used last at the end."""

    def of(self, gang: Gang, most: int) -> GangState:
        """Return the state of a gang, a new one where there is none.

        Past a number of states the least recent one is dropped that is not in use. It is one
        without cards and without a rest, where half of all are: so neither gangs that wait nor
        those that had cards once, which may be bound or gone, displace all of the others.
        """
        state = self.get(gang.key) or self.setdefault(gang.key, GangState())
        self.move_to_end(gang.key)
        if len(self) > most:
            others = [(key, each) for key, each in self.items() if each is not state]
            idle = [(key, each) for key, each in others if not (each.users or each.binding)]
            light = [key for key, each in idle if not each.hold and each.given_back_at is None]
            heavy = [key for key, each in idle if each.hold or each.given_back_at is not None]
            first, second = (light, heavy) if len(light) >= most // 2 else (heavy, light)
            for key in [*first, *second][:1]:
                del self[key]
        return state


def is_begun(gang: Gang) -> bool:
    """Return whether a pod of a gang is bound: the rest of it must be bound too."""
    return any(pod.spec.node_name for pod in gang.pods)


def marked_until(gang: Gang, seen: Sightings, now: int, wall: int) -> int:
    """Return until when a gang rests by the marks of the leader: monotonic nanoseconds.

    Args:
        gang: with all its pods.
        seen: since when this process sees the marks: the leader's clock may be another.
        now: monotonic nanoseconds.
        wall: nanoseconds since 1970.
    """
    marks: list[datetime] = []  # when the leader released cards of a pod that were not used
    for pod in gang.pods:
        text, label = annotations(pod).get(RELEASED), labels(pod).get(RELEASED)
        with suppress(ValueError):
            if text is not None:
                marks.append(datetime.fromisoformat(text).replace(tzinfo=UTC))
        with suppress(ValueError):
            if label is not None:
                marks.append(datetime.strptime(label, RELEASED_LABEL).replace(tzinfo=UTC))
    if not marks:
        return 0
    passed = seen.since(gang.key, int(max(marks).timestamp() * SECOND), now, wall)
    return now - passed + REST * SECOND


def rest(
    gang: Gang,
    given_back_at: int | None,
    now: int,
    *,
    is_marked: bool,
    has_cards: Callable[[Gang], bool],
) -> GangRefusal | None:
    """Return why a gang must rest: its cards were released a moment ago because they were not used.

    Args:
        gang: with all its pods.
        given_back_at: when this process released them; None where it did not.
        now: in nanoseconds of the clock.
        is_marked: whether the leader has released them, by its marks.
        has_cards: whether some of its pods are bound, or have cards still.
    """
    gave_back = False
    if given_back_at is not None:
        seconds = (now - given_back_at) / SECOND
        gave_back = seconds < REST or (seconds < LEFT and has_cards(gang))
    return resting(gang) if (is_marked or gave_back) and not is_begun(gang) else None


def gives_back(gang: Gang, state: GangState, hold: GangHold, uid: str) -> bool:
    """Return whether a gang is to release its cards: its scheduler does not bind it with them.

    Args:
        gang: of which all pods have cards.
        state: of the gang.
        hold: its cards.
        uid: of the pod that the scheduler asks about again.
    """
    return hold.asked[uid] > ROUNDS and not is_begun(gang) and not state.binding


def resting(gang: Gang) -> GangRefusal:
    """Return that a gang must rest."""
    return GangRefusal(
        f"{named(gang)}: its cards were held and not used; it gets its next turn {REST} s after"
        " they were released"
    )


def unheld(members: GangMembers) -> GangRefusal:
    """Return that too few pods of a gang have cards."""
    placed = len(members.placed)
    return GangRefusal(f"{named(members.gang)}: cards of {placed} of its pods are held")


def full(namespace: str, gang: Gang, most: int) -> GangRefusal:
    """Return that a namespace with pods of a gang holds cards for as many pods as it may."""
    return GangRefusal(
        f"{named(gang)}: at most {most} pods of namespace {namespace} hold cards"
        " before they are bound"
    )
