"""What must go from a card, and what must come, so that it is cut as its grants say."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.hardware.mig import Slice


@dataclass(frozen=True, slots=True)
class GpuInstancePlacement:
    """A part of a card, as its driver has it.

    Attributes:
        profile: the vendor's name of its kind, such as ``1g.5gb``.
        start: first memory slice.
        size: memory slices.
    """

    profile: str
    start: int
    size: int

    @classmethod
    def of(cls, slot: Slice) -> "GpuInstancePlacement":
        """The part that a slice of the ledger is."""
        return cls(slot.profile, slot.start, slot.size)

    def overlaps(self, other: "GpuInstancePlacement") -> bool:
        """Whether both need a common part of the card."""
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True, slots=True)
class RepartitionPlan:
    """What is to be done with a card.

    Attributes:
        remove: parts that nobody holds and that are in the way, by their start.
        add: parts to be made, in the order in which they were wanted.
        refused: wanted parts that overlap what stays.
    """

    remove: tuple[GpuInstancePlacement, ...] = ()
    add: tuple[GpuInstancePlacement, ...] = ()
    refused: tuple[GpuInstancePlacement, ...] = ()


def repartition(
    wanted: Sequence[GpuInstancePlacement],
    there: Iterable[GpuInstancePlacement],
    *,
    keep: bool = False,
) -> RepartitionPlan:
    """What makes a card have every wanted part, and takes away no more than it must.

    Args:
        wanted: what is held of the card.
        there: what it is cut into.
        keep: whether anything that is there may be in use, so that nothing is removed.
    """
    parts = tuple(there)
    held = set(wanted)
    missing = [piece for piece in dict.fromkeys(wanted) if piece not in parts]
    stay = [part for part in parts if keep or part in held]
    add: list[GpuInstancePlacement] = []
    refused: list[GpuInstancePlacement] = []
    for piece in missing:
        blocked = any(piece.overlaps(other) for other in (*stay, *add))
        (refused if blocked else add).append(piece)
    remove = [
        part for part in parts if part not in stay and any(part.overlaps(piece) for piece in add)
    ]
    return RepartitionPlan(
        tuple(sorted(remove, key=lambda part: part.start)), tuple(add), tuple(refused)
    )
