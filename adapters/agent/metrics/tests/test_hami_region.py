import os
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.agent.metrics.hami_region import (
    MAGIC,
    UNVERSIONED,
    VERSION_1,
    Region,
    RegionCard,
    RegionError,
    RegionLayout,
    read,
    region_of,
)

USES = ((100, 20, 3, 4, 127, 30), (1, 1, 1, 0, 3, 10))
"""Uses of two processes on card 1: context, module, data, offset, total, percent."""


def region(
    layout: RegionLayout, uses: Sequence[tuple[int, ...]] = USES, cards: int = 2
) -> bytearray:
    data = bytearray(layout.size + 1)
    struct.pack_into("<iII", data, 0, MAGIC, 1 if layout is VERSION_1 else 0, 2)
    struct.pack_into("<Q", data, layout.cards, cards)
    for place in range(min(cards, 16)):
        uuid = f"GPU-{place}".encode()
        start = layout.uuids + 96 * place
        data[start : start + len(uuid)] = uuid
        struct.pack_into("<Q", data, layout.limits + 8 * place, 1000 + place)
    for number, use in enumerate(uses):
        start = layout.processes + number * layout.process
        struct.pack_into("<ii", data, start, 7, 8)
        struct.pack_into("<5Q", data, start + 8 + layout.memory, *use[:5])
        struct.pack_into("<Q", data, start + layout.util + layout.util_size + 16, use[5])
    struct.pack_into("<i", data, layout.count, len(uses))
    if layout.last_kernel is not None:
        struct.pack_into("<Q", data, layout.last_kernel, 1_700_000_000)
    return data


REGIONS = Path(__file__).parent / "regions"
"""Regions that HAMi-core of eight commits wrote, for one container with two cards and two
processes, on stand-ins of NVIDIA's libraries; and what vGPUmonitor 2.10.0 said of another one."""


def real(name: str) -> bytearray:
    """A real region: the size of its file, and the lines of 16 bytes that are not all 0."""
    head, *lines = (REGIONS / f"{name}.hex").read_text().splitlines()
    data = bytearray(int(head.partition(" bytes")[0].rpartition(" ")[2]))
    for line in lines:
        place, text = line.split()
        data[int(place, 16) : int(place, 16) + 16] = bytes.fromhex(text)
    return data


def written(tmp_path: Path, data: bytes | bytearray) -> Path:
    path = tmp_path / "a.cache"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("layout", [UNVERSIONED, VERSION_1])
def test_the_use_of_all_processes_is_summed_for_each_card(
    tmp_path: Path, layout: RegionLayout
) -> None:
    found = read(written(tmp_path, region(layout)))

    assert found.cards == (
        RegionCard("GPU-0", 1000, 0, 0, 0, 0, 0, 0),
        RegionCard("GPU-1", 1001, 130, 101, 21, 4, 4, 40),
    )
    assert found.last_kernel == (1_700_000_000 if layout is VERSION_1 else 0)


@pytest.mark.parametrize("path", sorted(REGIONS.glob("region-*.hex")), ids=lambda path: path.stem)
def test_the_regions_of_every_version_of_hami_core_are_read(tmp_path: Path, path: Path) -> None:
    found = read(written(tmp_path, real(path.stem)))

    never_reset = path.stem in ("region-f40e94f", "region-c0f9da6")  # 1344 %, HAMi 2.5 and 2.6
    assert found.cards == (
        RegionCard(
            "GPU-bbbbbbbb-1111-4111-8111-111111111111",
            limit=4000 << 20,
            used=1256 << 20,
            context=256 << 20,
            module=0,
            data=1000 << 20,
            offset=0,
            compute=37,
        ),
        RegionCard(
            "GPU-cccccccc-2222-4222-8222-222222222222",
            limit=8000 << 20,
            used=3256 << 20,
            context=256 << 20,
            module=0,
            data=3000 << 20,
            offset=0,
            compute=100 if never_reset else 21,
        ),
    )
    assert (found.last_kernel == 0) == (path.stem == "region-fb11ec3")


def test_no_card_is_busier_than_always(tmp_path: Path) -> None:
    uses = ((1, 1, 1, 0, 3, 60), (1, 1, 1, 0, 3, 70))
    insane = ((1, 1, 1, 0, 3, 2**64 - 1),)

    for each in (uses, insane):
        found = read(written(tmp_path, region(VERSION_1, each)))
        assert found.cards[1].compute == 100


def test_the_sizes_of_the_layouts_are_those_of_the_structures() -> None:
    # sizeof of the structures with natural alignment; sem_t takes 32 bytes.
    assert VERSION_1.processes + 1024 * VERSION_1.process == VERSION_1.count
    assert VERSION_1.size == VERSION_1.count + 4 * 4 + 8 + 32
    assert UNVERSIONED.processes + 1024 * UNVERSIONED.process == UNVERSIONED.count
    assert UNVERSIONED.size == UNVERSIONED.count + 4 * 4
    assert VERSION_1.process == 8 + 16 * 64 + 16 * 8 + 16 * 48 + 8 + 3 * 8
    assert UNVERSIONED.process == 8 + 16 * 40 + 16 * 8 + 16 * 24 + 8


def test_numbers_beyond_the_layout_are_cut(tmp_path: Path) -> None:
    data = region(VERSION_1, cards=1 << 40)
    struct.pack_into("<i", data, VERSION_1.count, 1 << 30)

    assert len(read(written(tmp_path, data)).cards) == 16

    struct.pack_into("<i", data, VERSION_1.count, -5)
    assert read(written(tmp_path, data)).cards[1].used == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        bytes(12),
        struct.pack("<iII", MAGIC, 1, 2),
        bytes(region(VERSION_1)[:100_000]),
        bytes(region(UNVERSIONED)[:-3]),
        struct.pack("<iII", MAGIC, 2, 0) + bytes(VERSION_1.size),
        bytes(VERSION_1.size + 1),
    ],
)
def test_a_file_without_a_complete_region_is_rejected(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(RegionError):
        read(written(tmp_path, data))


def test_the_agent_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(written(tmp_path, region(VERSION_1)))

    with pytest.raises(RegionError, match="not a regular file"):
        read(tmp_path / "pipe")
    with pytest.raises(OSError, match="symbolic"):
        read(tmp_path / "link")


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.integers(0, VERSION_1.size), st.binary(min_size=1, max_size=64)))
def test_a_damaged_file_gives_a_region_or_region_error(
    tmp_path: Path, damage: dict[int, bytes]
) -> None:
    data = region(VERSION_1)
    for place, content in damage.items():
        data[place : place + len(content)] = content

    try:
        found = read(written(tmp_path, data))
    except RegionError:
        return
    assert isinstance(found, Region)


def test_the_number_of_files_that_are_read_is_limited(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.cache").touch()

    assert region_of(tmp_path) is None
    assert region_of(tmp_path / "nowhere") is None
    os.mkfifo(tmp_path / f"{tmp_path.name}.cache")
    assert region_of(tmp_path) is None


def test_a_file_with_another_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "6f9619ff.cache").write_bytes(region(VERSION_1))

    assert region_of(tmp_path) is not None
