"""What is known of NVIDIA's products."""

import pytest

from core.hardware.mig import NO_GEOMETRY, Slice
from core.hardware.mig_catalog import geometry, profile
from core.hardware.quantity import MIB

EIGHTHS = [
    ("A100-PCIE-40GB", (5, 10, 20, 40)),
    ("NVIDIA A100-SXM4-80GB", (10, 20, 40, 80)),
    ("NVIDIA H100 80GB HBM3", (10, 20, 40, 80)),
    ("NVIDIA H100 NVL", (12, 24, 47, 94)),
    ("NVIDIA GH200 480GB", (12, 24, 48, 96)),
    ("NVIDIA H200", (18, 35, 71, 141)),
    ("NVIDIA B200", (23, 45, 90, 180)),
]


@pytest.mark.parametrize(("name", "gigabytes"), EIGHTHS)
def test_every_published_profile_of_seven_compute_slices_is_known(
    name: str, gigabytes: tuple[int, int, int, int]
) -> None:
    small, quarter, half, full = gigabytes

    for wanted, size, compute, starts in [
        (f"1g.{small}gb", 1, 14, (0, 1, 2, 3, 4, 5, 6)),
        (f"1g.{quarter}gb", 2, 14, (0, 2, 4, 6)),
        (f"2g.{quarter}gb", 2, 28, (0, 2, 4)),
        (f"3g.{half}gb", 4, 42, (0, 4)),
        (f"4g.{half}gb", 4, 57, (0,)),
        (f"7g.{full}gb", 8, 100, (0,)),
    ]:
        found = profile([name], wanted)

        assert found is not None
        assert (found.size, found.compute, found.starts) == (size, compute, starts)
        assert 0 < found.memory <= int(wanted[3:-2]) * 1024 * MIB


@pytest.mark.parametrize(("name", "gigabytes"), EIGHTHS)
def test_the_built_in_layouts_begin_as_those_of_volcano(
    name: str, gigabytes: tuple[int, int, int, int]
) -> None:
    small, quarter, half, full = gigabytes

    layouts = {layout.name: layout.slices for layout in geometry([name]).layouts}

    assert [profiles_and_starts(slices) for slices in layouts.values()] == [
        [(f"1g.{small}gb", start) for start in range(7)],
        [(f"2g.{quarter}gb", start) for start in (0, 2, 4)] + [(f"1g.{small}gb", 6)],
        [(f"3g.{half}gb", start) for start in (0, 4)],
        [(f"7g.{full}gb", 0)],
        [(f"4g.{half}gb", 0), (f"3g.{half}gb", 4)],
        [(f"1g.{quarter}gb", start) for start in (0, 2, 4, 6)],
    ]
    assert list(layouts) == [f"group{number}" for number in range(1, 7)]


def profiles_and_starts(slices: tuple[Slice, ...]) -> list[tuple[str, int]]:
    return [(slot.profile, slot.start) for slot in slices]


def test_an_a30_has_four_compute_slices() -> None:
    found = profile(["NVIDIA A30"], "2g.12gb")

    assert found is not None
    assert (found.memory, found.size, found.compute, found.starts) == (11968 * MIB, 2, 50, (0, 2))
    assert [profiles_and_starts(layout.slices) for layout in geometry(["NVIDIA A30"]).layouts] == [
        [("1g.6gb", 0), ("1g.6gb", 1), ("1g.6gb", 2), ("1g.6gb", 3)],
        [("2g.12gb", 0), ("2g.12gb", 2)],
        [("4g.24gb", 0)],
    ]


@pytest.mark.parametrize(
    ("name", "wanted", "mebibytes"),
    [
        ("A30", "1g.6gb", 5952),
        ("A30", "2g.12gb", 11968),
        ("A30", "4g.24gb", 24000),
        ("A100-SXM4-40GB", "1g.5gb", 4864),
        ("A100-SXM4-40GB", "1g.10gb", 9984),
        ("A100-SXM4-40GB", "2g.10gb", 9984),
        ("A100-SXM4-40GB", "3g.20gb", 20096),
        ("A100-SXM4-40GB", "4g.20gb", 20096),
        ("A100-SXM4-40GB", "7g.40gb", 40448),
        ("A100-SXM4-80GB", "1g.10gb", 9728),
        ("A100-SXM4-80GB", "2g.20gb", 19968),
        ("A100-SXM4-80GB", "3g.40gb", 40192),
        ("A100-SXM4-80GB", "7g.80gb", 80896),
        ("NVIDIA H100 NVL", "1g.12gb", 11008),
        ("NVIDIA H100 NVL", "2g.24gb", 22144),
        ("NVIDIA H200", "2g.35gb", 33024),
        ("NVIDIA B200", "1g.23gb", 20992),
    ],
)
def test_memory_is_no_more_than_a_slice_has(name: str, wanted: str, mebibytes: int) -> None:
    found = profile([name], wanted)

    assert found is not None
    assert found.memory == mebibytes * MIB


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("NVIDIA-NVIDIA A100-SXM4-40GB", "7g.40gb"),
        ("NVIDIA A100 80GB PCIe", "7g.80gb"),
        ("A800-SXM4-80GB", "7g.80gb"),
        ("NVIDIA A800 40GB Active", "7g.40gb"),
        ("NVIDIA H100 PCIe", "7g.80gb"),
        ("NVIDIA H800", None),
        ("NVIDIA H20", "7g.96gb"),
        ("NVIDIA H20-3e", "7g.141gb"),
        ("NVIDIA A100", None),
        ("NVIDIA GH200 144G HBM3e", None),
        ("Tesla T4", None),
    ],
)
def test_a_product_is_recognized_by_its_name(name: str, whole: str | None) -> None:
    known = [f"7g.{size}gb" for size in (40, 80, 94, 96, 141, 180)]

    assert [size for size in known if profile([name], size)] == ([whole] if whole else [])
    assert (geometry([name]) is NO_GEOMETRY) == (whole is None)


def test_one_known_name_of_several_is_enough() -> None:
    names = ["NVIDIA-A100", "NVIDIA A100-PCIE-40GB"]

    assert profile(names, "1G.5GB") is not None
    assert geometry(names) == geometry(["A100-PCIE-40GB"])


def test_a_profile_of_another_product_is_not_known() -> None:
    assert profile(["NVIDIA A100-PCIE-40GB"], "7g.79gb") is None
    assert profile([], "1g.5gb") is None
