"""Which GPU instances of a card to destroy and to create, so that its grants have theirs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.hardware.mig import Slice


@dataclass(frozen=True, slots=True)
class GpuInstancePlacement:
    """A GPU instance of a card, by its profile and start.

    Attributes:
        profile: the vendor's name, such as ``1g.5gb``.
        start: first memory slice.
        size: memory slices.
    """

    profile: str
    start: int
    size: int

    @classmethod
    def of(cls, slot: Slice) -> "GpuInstancePlacement":
        """Return the GPU instance that a slice of the ledger names."""
        return cls(slot.profile, slot.start, slot.size)

    def overlaps(self, other: "GpuInstancePlacement") -> bool:
        """Return whether both cover a common memory slice of the card."""
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True, slots=True)
class RepartitionPlan:
    """The GPU instances to destroy and to create on one card.

    Attributes:
        remove: those without an allocation that overlap an added one, by their start.
        add: those to create, in the order of the allocations.
        refused: those that cannot be created, because they overlap one that stays.
    """

    remove: tuple[GpuInstancePlacement, ...] = ()
    add: tuple[GpuInstancePlacement, ...] = ()
    refused: tuple[GpuInstancePlacement, ...] = ()


def repartition(
    allocated: Sequence[GpuInstancePlacement],
    present: Iterable[GpuInstancePlacement],
    *,
    keep: bool = False,
) -> RepartitionPlan:
    """Return the plan that creates every allocated instance and destroys no more than it must.

    Args:
        allocated: the instances that allocations name.
        present: the instances that the card has.
        keep: whether a present instance may be in use without an allocation; then none is removed.
    """
    instances = tuple(present)
    held = set(allocated)
    missing = [each for each in dict.fromkeys(allocated) if each not in instances]
    stay = [each for each in instances if keep or each in held]
    add: list[GpuInstancePlacement] = []
    refused: list[GpuInstancePlacement] = []
    for each in missing:
        blocked = any(each.overlaps(other) for other in (*stay, *add))
        (refused if blocked else add).append(each)
    remove = [
        each for each in instances if each not in stay and any(each.overlaps(new) for new in add)
    ]
    return RepartitionPlan(
        tuple(sorted(remove, key=lambda each: each.start)), tuple(add), tuple(refused)
    )
