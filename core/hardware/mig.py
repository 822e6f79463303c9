"""MIG slices of a card: profiles, where they may start, and the best free one for a share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A size of slice that the vendor offers.

    Attributes:
        name: the vendor's, such as ``1g.5gb``.
        memory: bytes.
        size: memory slices of the card that it covers.
        compute: percent of the card, rounded down.
        starts: memory slices at which it may start, ascending.
        configured: bytes that a scheduler's settings state for it, where that is more than it has;
            0 where it is not.
    """

    name: str
    memory: int
    size: int
    compute: int
    starts: tuple[int, ...]
    configured: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of a card: a profile with a start.

    Attributes:
        start: first memory slice.
        size: memory slices.
        memory: bytes.
        compute: percent of the card.
        layout: name of the layout from which it was chosen.
        position: its position in that layout's list.
    """

    profile: str
    start: int
    size: int
    memory: int
    compute: int
    layout: str
    position: int

    def overlaps(self, other: "Slice") -> bool:
        """Return whether both cover a common memory slice of the card."""
        return self.start < other.start + other.size and other.start < self.start + self.size


class MigKey(NamedTuple):
    """Which slice of which card: what a cluster has once at most.

    Attributes:
        card: uuid of the card.
        start: first memory slice.
    """

    card: str
    profile: str
    start: int


@dataclass(frozen=True, slots=True)
class MigLayout:
    """A way to partition a whole card.

    Attributes:
        name: such as ``group1``.
        slices: by position.
        configured: bytes that a scheduler's settings state for each slice, by position: at least
            what it has. Empty where none states more than that.
    """

    name: str
    slices: tuple[Slice, ...]
    configured: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Geometry:
    """All layouts in which a card may be partitioned, in order of preference.

    Attributes:
        layouts: by preference.
        mixed: whether slices of several layouts may be in use at once, because the component that
            partitions the card creates them one by one. False where it applies whole layouts, or
            that is not known: slices in use are then all of one layout.
    """

    layouts: tuple[MigLayout, ...] = ()
    mixed: bool = False

    def __hash__(self) -> int:
        """Hash the number of layouts: to hash all slices takes 8 us, and a node has many cards."""
        return len(self.layouts)


NO_GEOMETRY = Geometry()
"""The geometry of a card that cannot be partitioned, or whose layouts are not known."""


def lay_out(name: str, profiles: Sequence[MigProfile]) -> MigLayout | None:
    """Return a layout with a slice of each profile, or None where they do not all fit on the card.

    Of all layouts without overlap, the one whose starts are smallest, compared in order.
    """
    slices = _placed(name, profiles, ())
    if slices is None:
        return None
    if all(each.configured <= each.memory for each in profiles):
        return MigLayout(name, slices)
    return MigLayout(name, slices, tuple(max(each.configured, each.memory) for each in profiles))


def smallest_configured(geometry: Geometry, memory: int) -> Slice | None:
    """Return the slice with the least memory of those that are configured with an amount or more.

    A scheduler that compares requests with the configured sizes finds every slice of this memory
    or more large enough, as long as larger slices are not configured with less. None where no
    slice is configured with that many bytes.
    """
    return min(
        (
            slot
            for layout in geometry.layouts
            for slot, size in zip(layout.slices, layout.configured, strict=False)
            if size >= memory
        ),
        key=lambda slot: slot.memory,
        default=None,
    )


def free_slices(
    geometry: Geometry, held: Sequence[Slice], memory: int = 0, compute: int = 0
) -> list[Slice]:
    """Return every free slice that is large enough for a new share, the best one first.

    The smallest profile that is large enough comes first; then a slice of a layout that the card
    has already, so that nothing is repartitioned; then the earlier layout and position. A slice
    that several layouts have comes once where layouts can be mixed. Where they cannot, only slices
    of the one layout that is in use are free, and a card with several in use has none.

    Args:
        geometry: of the card.
        held: the slices in use.
        memory: bytes that the slice must have.
        compute: percent of the card that it must have.
    """
    layouts = {slot.layout for slot in held}
    fitting = sorted(
        (
            (slot.size, slot.memory, slot.layout not in layouts, number, slot.position)
            for number, layout in enumerate(geometry.layouts)
            for slot in layout.slices
            if slot.memory >= memory
            and slot.compute >= compute
            and (geometry.mixed or layouts <= {layout.name})
            and not any(slot.overlaps(other) for other in held)
        ),
    )
    distinct: dict[tuple[str, int, str], Slice] = {}
    for *_, number, position in fitting:
        slot = geometry.layouts[number].slices[position]
        distinct.setdefault((slot.profile, slot.start, "" if geometry.mixed else slot.layout), slot)
    return list(distinct.values())


def _placed(
    name: str, profiles: Sequence[MigProfile], placed: tuple[Slice, ...]
) -> tuple[Slice, ...] | None:
    position = len(placed)
    if position == len(profiles):
        return placed
    profile = profiles[position]
    for start in profile.starts:
        slot = Slice(
            profile.name, start, profile.size, profile.memory, profile.compute, name, position
        )
        if not any(slot.overlaps(earlier) for earlier in placed):
            slices = _placed(name, profiles, (*placed, slot))
            if slices is not None:
                return slices
    return None
