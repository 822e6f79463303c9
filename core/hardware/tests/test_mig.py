"""Slices: where they go, one after the other, and what may never happen."""

from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from core.hardware.mig import (
    NO_GEOMETRY,
    Geometry,
    MigLayout,
    MigProfile,
    Slice,
    free_slices,
    lay_out,
    smallest_configured,
)
from core.hardware.mig_catalog import geometry
from core.hardware.quantity import GIB, MIB
from core.tests.builders import best_free_slice

ONE_LAYOUT = geometry(["NVIDIA-NVIDIA A100-SXM4-40GB"])
A100_40GB = replace(ONE_LAYOUT, mixed=True)
CARDS = ["NVIDIA A30", "A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA H200"]


def place(slot: Slice | None) -> tuple[str, str, int] | None:
    """A slice as people write it: profile, ``group-position`` and start."""
    return None if slot is None else (slot.profile, f"{slot.layout}-{slot.position}", slot.start)


def take(*mebibytes: int, card: Geometry = A100_40GB) -> list[Slice]:
    """Slices chosen one after the other, each of them held from then on."""
    held: list[Slice] = []
    for memory in mebibytes:
        slot = best_free_slice(card, held, memory * MIB, 0)
        assert slot is not None
        held.append(slot)
    return held


def test_slices_overlap_where_they_need_a_common_part() -> None:
    one = Slice("2g", 2, 2, 1, 1, "group1", 0)

    assert one.overlaps(Slice("1g", 3, 1, 1, 1, "group1", 1))
    assert one.overlaps(Slice("7g", 0, 8, 1, 1, "group1", 1))
    assert not one.overlaps(Slice("1g", 1, 1, 1, 1, "group1", 1))
    assert not one.overlaps(Slice("1g", 4, 1, 1, 1, "group1", 1))


def test_three_gigabytes_get_the_smallest_profile_that_holds_them() -> None:
    assert place(best_free_slice(A100_40GB, (), 3 * GIB, 0)) == ("1g.5gb", "group1-0", 0)


def test_layouts_that_cannot_be_mixed_are_used_one_at_a_time() -> None:
    (small,) = take(3000, card=ONE_LAYOUT)
    middle = next(iter(free_slices(ONE_LAYOUT, (), 8000 * MIB)))

    beside = free_slices(ONE_LAYOUT, [small])
    assert [place(slot) for slot in beside] == [("1g.5gb", f"group1-{n}", n) for n in range(1, 7)]
    assert {slot.layout for slot in free_slices(ONE_LAYOUT, [middle])} == {"group2"}
    assert free_slices(ONE_LAYOUT, [small, replace(middle, start=4)]) == []


def test_an_idle_card_offers_the_same_slice_of_each_layout_that_cannot_be_mixed() -> None:
    last = [
        slot for slot in free_slices(ONE_LAYOUT, ()) if (slot.profile, slot.start) == ("1g.5gb", 6)
    ]

    assert [slot.layout for slot in last] == ["group1", "group2"]


def test_a_small_slice_beside_large_ones_is_reached() -> None:
    slots = take(8000, 8000, 3000)

    assert [place(slot) for slot in slots] == [
        ("2g.10gb", "group2-0", 0),
        ("2g.10gb", "group2-1", 2),
        ("1g.5gb", "group2-3", 6),
    ]


def test_large_slices_beside_a_small_one_are_reached() -> None:
    slots = take(3000, 8000, 8000)

    assert [place(slot) for slot in slots] == [
        ("1g.5gb", "group1-0", 0),
        ("2g.10gb", "group2-1", 2),
        ("2g.10gb", "group2-2", 4),
    ]


def test_two_shares_never_get_the_same_slice() -> None:
    assert [place(slot) for slot in take(3000, 3000)] == [
        ("1g.5gb", "group1-0", 0),
        ("1g.5gb", "group1-1", 1),
    ]


def test_a_drained_card_is_free_for_any_layout() -> None:
    held = take(*[3000] * 7)

    assert best_free_slice(A100_40GB, held, 8000 * MIB, 0) is None
    assert place(best_free_slice(A100_40GB, held[2:], 8000 * MIB, 0)) == ("2g.10gb", "group2-0", 0)
    assert place(best_free_slice(A100_40GB, (), 8000 * MIB, 0)) == ("2g.10gb", "group2-0", 0)


def test_another_layout_is_used_only_where_its_slices_are_free() -> None:
    low, _, _, _, middle = take(*[3000] * 5)

    assert place(best_free_slice(A100_40GB, [low], 12000 * MIB, 0)) == ("3g.20gb", "group3-1", 4)
    assert best_free_slice(A100_40GB, [low, middle], 12000 * MIB, 0) is None
    assert best_free_slice(A100_40GB, [low], 40000 * MIB, 0) is None


def test_a_configured_size_names_the_slice_that_really_has_the_least() -> None:
    def least(mebibytes: int) -> tuple[str, int] | None:
        slot = smallest_configured(ONE_LAYOUT, mebibytes * MIB)
        return None if slot is None else (slot.profile, slot.memory // MIB)

    assert least(1) == least(5120) == ("1g.5gb", 4864)
    assert least(5121) == ("2g.10gb", 9984)
    assert least(40960) == ("7g.40gb", 40448)
    assert least(40961) is None


def test_slices_without_configured_sizes_have_none_to_compare_with() -> None:
    bare = Geometry(tuple(replace(each, configured=()) for each in ONE_LAYOUT.layouts))

    assert smallest_configured(bare, 1) is None


def test_a_whole_card_of_memory_is_one_slice() -> None:
    assert place(best_free_slice(A100_40GB, (), 40448 * MIB, 0)) == ("7g.40gb", "group4-0", 0)
    assert best_free_slice(A100_40GB, (), 40449 * MIB, 0) is None


def test_a_slice_must_have_the_compute_too() -> None:
    assert place(best_free_slice(A100_40GB, (), 3 * GIB, 20)) == ("2g.10gb", "group2-0", 0)
    assert place(best_free_slice(A100_40GB, (), 3 * GIB, 50)) == ("4g.20gb", "group5-0", 0)


def test_every_free_place_is_an_option_once() -> None:
    held = take(8000, 8000)

    assert [place(slot) for slot in free_slices(A100_40GB, held, 3000 * MIB)] == [
        ("1g.5gb", "group2-3", 6),
        ("1g.5gb", "group1-4", 4),
        ("1g.5gb", "group1-5", 5),
        ("2g.10gb", "group2-2", 4),
        ("1g.10gb", "group6-2", 4),
        ("1g.10gb", "group6-3", 6),
        ("3g.20gb", "group3-1", 4),
    ]


def test_a_card_without_layouts_has_no_slice() -> None:
    assert best_free_slice(NO_GEOMETRY, (), 1, 0) is None


def test_profiles_are_laid_out_at_their_smallest_starts() -> None:
    wide, narrow = (
        MigProfile("2g", 2, 2, 28, (0, 2, 4)),
        MigProfile("1g", 1, 1, 14, tuple(range(7))),
    )

    found = lay_out("group2", [wide, wide, wide, narrow])

    assert found is not None
    assert [place(slot) for slot in found.slices] == [
        ("2g", "group2-0", 0),
        ("2g", "group2-1", 2),
        ("2g", "group2-2", 4),
        ("1g", "group2-3", 6),
    ]


def test_a_profile_gives_way_to_a_later_one_that_fits_in_one_place_only() -> None:
    narrow, whole_half = MigProfile("1g", 1, 1, 14, (0, 4)), MigProfile("4g", 4, 4, 57, (0,))

    found = lay_out("group1", [narrow, whole_half])

    assert found is not None
    assert [slot.start for slot in found.slices] == [4, 0]


def test_profiles_that_do_not_all_fit_have_no_layout() -> None:
    assert lay_out("group1", [MigProfile("7g", 7, 8, 100, (0,))] * 2) is None


def test_nothing_wanted_is_an_empty_layout() -> None:
    assert lay_out("group1", []) == MigLayout("group1", ())


profiles = st.builds(
    MigProfile,
    name=st.just("p"),
    memory=st.just(1),
    size=st.integers(1, 3),
    compute=st.just(1),
    starts=st.sets(st.integers(0, 5), min_size=1, max_size=4).map(lambda s: tuple(sorted(s))),
)


@given(st.lists(profiles, max_size=4))
def test_a_layout_is_the_first_of_all_ways_without_overlap(wanted: list[MigProfile]) -> None:
    def apart(starts: tuple[int, ...]) -> bool:
        taken = [
            start + offset
            for start, profile in zip(starts, wanted, strict=True)
            for offset in range(profile.size)
        ]
        return len(taken) == len(set(taken))

    obvious = next(filter(apart, product(*(profile.starts for profile in wanted))), None)

    found = lay_out("group", wanted)

    assert (None if found is None else tuple(slot.start for slot in found.slices)) == obvious


steps = st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 100), st.integers(0, 9)))


@given(st.sampled_from(CARDS), st.booleans(), steps)
def test_a_chosen_slice_is_free_and_the_smallest_that_holds_the_share(
    name: str,
    mixed: bool,
    steps: list[tuple[int, int, int]],
) -> None:
    card = replace(geometry([name]), mixed=mixed)
    held: list[Slice] = []
    for mebibytes, compute, gone in steps:
        free = [
            slot
            for layout in card.layouts
            for slot in layout.slices
            if not any(slot.overlaps(other) for other in held)
            and (mixed or all(other.layout == slot.layout for other in held))
            and slot.memory >= mebibytes * MIB
            and slot.compute >= compute
        ]

        chosen = best_free_slice(card, held, mebibytes * MIB, compute)

        if chosen is None:
            assert not free
        else:
            assert chosen in free
            assert chosen.size == min(slot.size for slot in free)
            held.append(chosen)
        if gone < len(held):
            del held[gone]
        assert sum(slot.compute for slot in held) <= 100


def test_equal_geometries_are_one_key() -> None:
    assert {A100_40GB: "found"}.get(replace(ONE_LAYOUT, mixed=True)) == "found"
    assert {A100_40GB: "found"}.get(ONE_LAYOUT) is None
