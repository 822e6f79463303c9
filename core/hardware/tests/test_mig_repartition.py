from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from core.hardware.mig import Slice
from core.hardware.mig_repartition import GpuInstancePlacement, RepartitionPlan, repartition

PIECES = [
    *(GpuInstancePlacement("1g.5gb", start, 1) for start in range(7)),
    *(GpuInstancePlacement("2g.10gb", start, 2) for start in (0, 2, 4)),
    *(GpuInstancePlacement("3g.20gb", start, 4) for start in (0, 4)),
    GpuInstancePlacement("4g.20gb", 0, 4),
    GpuInstancePlacement("7g.40gb", 0, 8),
]

pieces = st.lists(st.sampled_from(PIECES), max_size=5)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[GpuInstancePlacement, ...]:
    """Pieces of one card that do not overlap."""
    found: list[GpuInstancePlacement] = []
    for piece in draw(st.lists(st.sampled_from(PIECES), max_size=8)):
        if not any(piece.overlaps(other) for other in found):
            found.append(piece)
    return tuple(found)


def apart(cut: Sequence[GpuInstancePlacement]) -> bool:
    return not any(left.overlaps(right) for place, left in enumerate(cut) for right in cut[:place])


def test_a_piece_is_what_a_slice_of_the_ledger_takes() -> None:
    assert GpuInstancePlacement.of(
        Slice("1g.5gb", 3, 1, 5 << 30, 14, "group1", 3)
    ) == GpuInstancePlacement("1g.5gb", 3, 1)


def test_only_instances_in_the_way_are_removed() -> None:
    there = [
        GpuInstancePlacement("1g.5gb", 0, 1),
        GpuInstancePlacement("1g.5gb", 3, 1),
        GpuInstancePlacement("1g.5gb", 4, 1),
    ]

    found = repartition([GpuInstancePlacement("2g.10gb", 2, 2)], there)

    assert found == RepartitionPlan(
        (GpuInstancePlacement("1g.5gb", 3, 1),), (GpuInstancePlacement("2g.10gb", 2, 2),)
    )


def test_nothing_is_done_where_all_is_there() -> None:
    assert repartition([PIECES[0]], [PIECES[0], PIECES[1]]) == RepartitionPlan()


def test_a_card_that_may_be_in_use_loses_no_instance() -> None:
    found = repartition([PIECES[7], PIECES[5]], [PIECES[0]], keep=True)

    assert found == RepartitionPlan((), (PIECES[5],), (PIECES[7],))


@given(layouts(), layouts(), st.booleans())
def test_allocated_instances_stay_and_new_ones_have_room(
    held: tuple[GpuInstancePlacement, ...], there: tuple[GpuInstancePlacement, ...], keep: bool
) -> None:
    found = repartition(held, there, keep=keep)

    after = [part for part in there if part not in found.remove] + list(found.add)
    assert apart(after)
    assert not set(found.remove) & set(held)
    assert {*found.add, *found.refused} == set(held) - set(there)
    assert not (keep and found.remove)
    assert keep or not found.refused
    assert all(any(gone.overlaps(piece) for piece in found.add) for gone in found.remove)


@given(pieces, layouts())
def test_grants_that_overlap_never_overlap_on_the_card(
    wanted: list[GpuInstancePlacement], there: tuple[GpuInstancePlacement, ...]
) -> None:
    found = repartition(wanted, there)

    assert apart([part for part in there if part not in found.remove] + list(found.add))
