from typing import Any

from adapters.dialects.volcano.keys import GeometryTable
from adapters.dialects.volcano.node import Partitioning, partitioning
from adapters.dialects.volcano.tests.builders import A100, volcano
from core.hardware.mig import NO_GEOMETRY, MigLayout
from core.hardware.quantity import MIB

CARD = 40960 * MIB


def tables(models: list[str], **groups: list[tuple[str, int, int]]) -> tuple[GeometryTable, ...]:
    known: list[Any] = [
        {
            "models": models,
            "allowedGeometries": [
                {
                    "group": group,
                    "geometries": [
                        {"name": name, "memory": memory, "count": count}
                        for name, memory, count in slices
                    ],
                }
                for group, slices in groups.items()
            ],
        }
    ]
    return volcano({"knownMigGeometries": known}).pods.config.tables


def only_layout(partitions: Partitioning) -> MigLayout:
    (layout,) = partitions.geometry.layouts
    assert partitions.problems == ()
    return layout


def places(layout: MigLayout) -> list[tuple[str, int, int]]:
    return [(slot.profile, slot.start, slot.size) for slot in layout.slices]


def test_a_listed_layout_has_its_slices_where_the_card_has_them() -> None:
    table = tables(["A100-SXM4-40GB"], mixed=[("2g.10gb", 10240, 3), ("1g.5gb", 5120, 1)])

    layout = only_layout(partitioning(table, A100, CARD))

    assert layout.name == "mixed"
    assert places(layout) == [
        ("2g.10gb", 0, 2),
        ("2g.10gb", 2, 2),
        ("2g.10gb", 4, 2),
        ("1g.5gb", 6, 1),
    ]
    assert [slot.position for slot in layout.slices] == [0, 1, 2, 3]


def test_a_listed_slice_has_the_memory_in_the_list() -> None:
    table = tables(["A100"], whole=[("7g.40gb", 40000, 1)])

    (slot,) = only_layout(partitioning(table, A100, CARD)).slices

    assert slot.memory == 40000 * MIB
    assert slot.compute == 100


def test_a_listed_slice_has_no_more_memory_than_nvidia_publishes() -> None:
    table = tables(["A100"], small=[("1g.5gb", 5120, 7)])

    layout = only_layout(partitioning(table, A100, CARD))

    assert {slot.memory for slot in layout.slices} == {4864 * MIB}
    assert layout.configured == (5120 * MIB,) * 7


def test_slices_of_a_new_model_have_no_more_memory_than_their_part_of_the_card() -> None:
    table = tables(["Future"], small=[("1g.6gb", 6144, 7)])

    layout = only_layout(partitioning(table, "NVIDIA-NVIDIA Future", CARD))

    assert {slot.memory for slot in layout.slices} == {5120 * MIB}
    assert layout.configured == (6144 * MIB,) * 7


def test_the_first_table_with_the_type_counts() -> None:
    table = (
        *tables(["A30"], a=[("7g.40gb", 40960, 1)]),
        *tables(["H100", "A100"], b=[("7g.40gb", 40960, 1)]),
        *tables(["A100"], c=[("7g.40gb", 40960, 1)]),
    )

    assert only_layout(partitioning(table, A100, CARD)).name == "b"


def test_a_card_without_a_table_is_partitioned_as_published() -> None:
    table = tables(["A30"], a=[("7g.40gb", 40960, 1)])

    assert partitioning(table, A100, CARD) == partitioning((), A100, CARD)
    assert partitioning((), A100, CARD).geometry.layouts[0].name == "group1"


def test_an_unknown_model_is_not_partitioned() -> None:
    partitions = partitioning((), "NVIDIA-NVIDIA Future", CARD)

    assert partitions.geometry == NO_GEOMETRY
    assert len(partitions.problems) == 1


def test_profiles_of_a_new_model_are_placed_by_their_part_of_the_card() -> None:
    table = tables(
        ["Future"],
        small=[("1g.12gb", 12000, 7)],
        mixed=[("4g.48gb", 48000, 1), ("2g.24gb", 24000, 1), ("1g.12gb", 12000, 1)],
        halves=[("3g.48gb", 48000, 2)],
        wide=[("1g.24gb", 24000, 4)],
        whole=[("7g.96gb", 96000, 1)],
    )

    partitions = partitioning(table, "NVIDIA-NVIDIA Future", 96256 * MIB)

    assert partitions.problems == ()
    assert [places(layout) for layout in partitions.geometry.layouts] == [
        [("1g.12gb", start, 1) for start in range(7)],
        [("4g.48gb", 0, 4), ("2g.24gb", 4, 2), ("1g.12gb", 6, 1)],
        [("3g.48gb", 0, 4), ("3g.48gb", 4, 4)],
        [("1g.24gb", start, 2) for start in (0, 2, 4, 6)],
        [("7g.96gb", 0, 8)],
    ]
    assert [layout.slices[0].compute for layout in partitions.geometry.layouts] == [
        14,
        57,
        42,
        14,
        100,
    ]


def test_a_new_model_of_four_parts_has_a_quarter_of_its_compute_in_each() -> None:
    table = tables(
        ["Small"], a=[("1g.6gb", 6144, 4)], b=[("2g.12gb", 12288, 2)], c=[("4g.24gb", 24576, 1)]
    )

    partitions = partitioning(table, "NVIDIA-NVIDIA Small", 24576 * MIB)

    assert partitions.problems == ()
    assert [layout.slices[-1].compute for layout in partitions.geometry.layouts] == [25, 50, 100]


def test_layouts_that_do_not_fit_on_the_card_are_ignored_and_reported() -> None:
    table = tables(
        ["A100"],
        much=[("7g.40gb", 40960, 2)],
        odd=[("half", 20480, 1)],
        large=[("7g.80gb", 99999, 1)],
        good=[("3g.20gb", 20480, 2)],
    )

    partitions = partitioning(table, A100, CARD)

    assert [layout.name for layout in partitions.geometry.layouts] == ["good"]
    assert partitions.problems == tuple(
        f"{name} of knownMigGeometries does not fit on {A100}" for name in ("much", "odd", "large")
    )
