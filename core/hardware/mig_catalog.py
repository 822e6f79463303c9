"""The MIG profiles that NVIDIA publishes, by product, and built-in layouts of them.

Names, fractions and placements: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles".
Memory: what ``nvidia-smi mig -lgip`` prints, which is less than the name says; of several drivers
the smallest figure. A30 and A100 40GB: the same guide, "Getting Started with MIG". H100 94GB:
NVIDIA/gpu-operator pull request 900. H200: NVIDIA/mig-parted issue 120. B200: NVIDIA/mig-parted
pull requests 166 and 187. Where no such figure is known (all of an H100 94GB, half and all of a
B200): the decimal gigabytes of the name. A100 80GB: the table that the Volcano device plugin ships
(volcano-vgpu-device-plugin deployments/static/volcano-vgpu-device-plugin.yml:37-104). That table
states more for the A30 and the A100 40GB than their slices have: this is their configured memory.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.hardware.mig import NO_GEOMETRY, Geometry, MigProfile, lay_out
from core.hardware.quantity import FULL, MIB


@dataclass(frozen=True, slots=True)
class _Product:
    profiles: Mapping[str, MigProfile]
    geometry: Geometry


def profile(names: Sequence[str], profile_name: str) -> MigProfile | None:
    """Return a published profile of a card.

    Args:
        names: the product names of the card; one that is recognised is enough.
        profile_name: such as ``1g.5gb``, in any case.
    """
    product = _product(names)
    return None if product is None else product.profiles.get(profile_name.lower())


def geometry(names: Sequence[str]) -> Geometry:
    """Return the built-in layouts of a card; ``NO_GEOMETRY`` where no product name is known.

    ``group1`` to ``group4`` (A30: ``group3``) are as in the table that Volcano ships; later groups
    reach the profiles that those leave out.
    """
    product = _product(names)
    return NO_GEOMETRY if product is None else product.geometry


def _product(names: Sequence[str]) -> _Product | None:
    for name in names:
        words = set(re.findall(r"[a-z0-9]+", name.lower()))
        for needed, product in _PRODUCTS:
            if needed <= words:
                return product
    return None


def _product_of(
    profiles: Sequence[MigProfile], groups: Sequence[Sequence[tuple[int, int]]]
) -> _Product:
    """Return a product; its groups are pairs of a profile's position and a count."""
    layouts = (
        lay_out(
            f"group{number}",
            [profiles[position] for position, count in group for _ in range(count)],
        )
        for number, group in enumerate(groups, start=1)
    )
    return _Product(
        {each.name: each for each in profiles},
        Geometry(tuple(layout for layout in layouts if layout is not None)),
    )


def _eighths(
    gigabytes: tuple[int, int, int, int],
    mebibytes: tuple[int, int, int, int],
    configured: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> _Product:
    """Return a card of seven compute and eight memory slices.

    Args:
        gigabytes: as the names say them, for 1, 2, 4 and all 8 memory slices.
        mebibytes: as the profiles have them, for the same.
        configured: mebibytes that Volcano's table states, for the same; 0 where they are no more.
    """

    def mig_profile(compute: int, entry: int, size: int, starts: tuple[int, ...]) -> MigProfile:
        name = f"{compute}g.{gigabytes[entry]}gb"
        memory, stated = mebibytes[entry] * MIB, configured[entry] * MIB
        return MigProfile(name, memory, size, FULL * compute // 7, starts, stated)

    return _product_of(
        (
            mig_profile(1, 0, 1, (0, 1, 2, 3, 4, 5, 6)),
            mig_profile(2, 1, 2, (0, 2, 4)),
            mig_profile(3, 2, 4, (0, 4)),
            mig_profile(7, 3, 8, (0,)),
            mig_profile(4, 2, 4, (0,)),
            mig_profile(1, 1, 2, (0, 2, 4, 6)),
        ),
        (((0, 7),), ((1, 3), (0, 1)), ((2, 2),), ((3, 1),), ((4, 1), (2, 1)), ((5, 4),)),
    )


_A30 = _product_of(
    (
        MigProfile("1g.6gb", 5952 * MIB, 1, FULL // 4, (0, 1, 2, 3), 6144 * MIB),
        MigProfile("2g.12gb", 11968 * MIB, 2, FULL // 2, (0, 2), 12288 * MIB),
        MigProfile("4g.24gb", 24000 * MIB, 4, FULL, (0,), 24576 * MIB),
    ),
    (((0, 4),), ((1, 2),), ((2, 1),)),
)
_A100_40GB = _eighths((5, 10, 20, 40), (4864, 9984, 20096, 40448), (5120, 10240, 20480, 40960))
_A100_80GB = _eighths((10, 20, 40, 80), (9728, 19968, 40192, 80896))
_H100_80GB = _eighths((10, 20, 40, 80), (9984, 20096, 40448, 81152))
_H100_94GB = _eighths((12, 24, 47, 94), (11008, 22144, 44822, 89645))
_H100_96GB = _eighths((12, 24, 48, 96), (11264, 23552, 47616, 95232))
_H200 = _eighths((18, 35, 71, 141), (16384, 33024, 67710, 143360))
_B200 = _eighths((23, 45, 90, 180), (20992, 42915, 85830, 171661))

# Words that a product name of NVML must all have; the first entry that matches counts.
_PRODUCTS: tuple[tuple[frozenset[str], _Product], ...] = tuple(
    (frozenset(words.split()), product)
    for words, product in (
        ("a30", _A30),
        ("a100 40gb", _A100_40GB),
        ("a100 80gb", _A100_80GB),
        ("a800 40gb", _A100_40GB),
        ("a800 80gb", _A100_80GB),
        ("gh200 480gb", _H100_96GB),
        ("gh200 96gb", _H100_96GB),
        ("h100 96gb", _H100_96GB),
        ("h100 94gb", _H100_94GB),
        ("h100 nvl", _H100_94GB),
        ("h100 80gb", _H100_80GB),
        ("h100 pcie", _H100_80GB),
        ("h800 80gb", _H100_80GB),
        ("h800 pcie", _H100_80GB),
        ("h20 3e", _H200),
        ("h20", _H100_96GB),
        ("h200", _H200),
        ("b200", _B200),
    )
)
