"""Which shares one card can have at the same time, and what breaks that."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from e2e.adversary.cards import LAYOUTS, SLICE_MEMORY, Card
from e2e.adversary.terms import ANY_TERMS, Terms, broken_terms

FULL = 100


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of a card in MIG mode.

    Attributes:
        group: of the layout.
        start: first eighth of the card.
        size: eighths.
    """

    group: str
    start: int
    size: int

    @property
    def memory(self) -> int:
        """MiB."""
        return SLICE_MEMORY[self.size]

    def overlaps(self, other: "Slice") -> bool:
        """Whether both cover an eighth of the card."""
        return self.start < other.start + other.size and other.start < self.start + self.size


def slice_named(name: str) -> Slice:
    """The slice that a record calls ``group-position``."""
    group, _, position = name.rpartition("-")
    return Slice(group, *LAYOUTS[group][int(position)])


@dataclass(frozen=True, slots=True)
class Held:
    """What one container of a pod holds of one card.

    Attributes:
        pod: its name and uid, for people.
        card: uuid.
        memory: MiB.
        compute: percent.
        exclusive: no other pod may have a share of the card.
        terms: on which the pod shares its cards.
        part: on a card in MIG mode.
        turn: when its container runs: ``main``, ``init`` before that, or ``always``.
    """

    pod: str
    card: str
    memory: int
    compute: int
    exclusive: bool = False
    terms: Terms = ANY_TERMS
    part: Slice | None = None
    turn: str = "main"


def broken(card: Card, held: Sequence[Held]) -> list[str]:
    """The rules that these shares of one card break, as sentences."""
    texts = [text for left, right in combinations(held, 2) for text in _between(left, right)]
    slots = peak(held, lambda _: 1)
    if slots > card.slots:
        texts.append(f"slots: {slots} of {card.slots}")
    if card.mig:
        texts += [f"slices: {one.pod} names no slice" for one in held if one.part is None]
        groups = {one.part.group for one in held if one.part is not None}
        if len(groups) > 1:  # the device plugin applies whole layouts
            texts.append(f"layouts: {', '.join(sorted(groups))}")
    else:
        memory = peak(held, lambda one: one.memory)
        compute = peak(held, lambda one: one.compute)
        if memory > card.memory:
            texts.append(f"memory: {memory} of {card.memory} MiB")
        if compute > FULL:
            texts.append(f"compute: {compute} percent")
    return [f"{card.uuid}: {text} ({', '.join(one.pod for one in held)})" for text in texts]


def peak(held: Sequence[Held], value: Callable[[Held], int]) -> int:
    """The sum of a value over all pods, of each when it is largest."""
    sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in held:
        sums[one.pod][one.turn] += value(one)
    return sum(each["always"] + max(each["init"], each["main"]) for each in sums.values())


def _between(left: Held, right: Held) -> list[str]:
    """What two shares of one card break; those of one pod only by their slices."""
    texts = []
    if left.part is not None and right.part is not None and left.part.overlaps(right.part):
        texts.append(f"slices: {left.part} and {right.part}")
    if left.pod == right.pod:
        return texts
    texts += broken_terms(left.terms, right.terms)
    if not (_lends(left, right) and _lends(right, left)):
        texts.append("exclusive: in company")
    return texts


def _lends(owner: Held, guest: Held) -> bool:
    """Whether a share allows another: only an offline task lends a card that it has alone."""
    classes = (owner.terms.task_class, guest.terms.task_class)
    return not owner.exclusive or classes == ("offline", "online")
