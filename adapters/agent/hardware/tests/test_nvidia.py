"""Tests on a stand-in of NVML without cards; see ``nvml_stand_in.c``."""

import ctypes
from pathlib import Path
from typing import Any

import pytest

from adapters.agent.hardware.model import CardLoad, InventoryError
from adapters.agent.hardware.nvidia import NvmlInventory, capability
from adapters.agent.hardware.nvml import NvmlError
from adapters.agent.hardware.nvml_mig import NvmlMigDriver, NvmlMigReader
from adapters.agent.tests.stand_in import begin
from adapters.agent.tests.stand_in import nvml as the_nvml
from core.hardware.card import Mode
from core.hardware.mig_repartition import GpuInstancePlacement

SMALL = GpuInstancePlacement("1g.5gb", 2, 1)


def inventory(tmp_path: Path, library: Any) -> NvmlInventory:
    for name, node in (("0000:3b:00.0", "1"), ("0000:3c:00.0", "-1")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "numa_node").write_text(node)
    return NvmlInventory("a", the_nvml(library), bus=tmp_path, capabilities=tmp_path)


def test_cards_have_their_numbers_and_their_numa_node(tmp_path: Path) -> None:
    there = inventory(tmp_path, begin(2))

    found = there.read()

    assert [(c.uuid, c.index, c.numa) for c in found.cards] == [("GPU-0", 0, 1), ("GPU-1", 1, None)]
    assert found.cards[0].memory == 40 << 30
    assert found.cards[0].mode is Mode.SHARED
    assert found.devices == {"GPU-0": ("/dev/nvidia7",), "GPU-1": ("/dev/nvidia6",)}
    assert there.loads() == {"GPU-0": CardLoad(100, 42, 17), "GPU-1": CardLoad(101, 42, 17)}
    assert found.gpu_instances == {}


def test_an_instance_has_its_profile_its_place_and_its_device_nodes(tmp_path: Path) -> None:
    there = inventory(tmp_path, begin(1, mig=True))
    NvmlMigDriver(NvmlMigReader(there.nvml)).repartition("GPU-0", (), [SMALL])
    parts = NvmlMigReader(there.nvml).instances("GPU-0")
    assert parts is not None
    for place, minor in ((f"gi{parts[0].number}", 30), (f"gi{parts[0].number}/ci0", 31)):
        folder = tmp_path / "gpu7" / "mig" / place
        folder.mkdir(parents=True)
        (folder / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\n")

    found = there.read()

    assert found.cards[0].mode is Mode.MIG
    (key,) = found.instances
    assert key == ("GPU-0", "1g.5gb", 2)
    assert found.instances[key].uuid == "MIG-1"
    assert found.instances[key].devices == (
        "/dev/nvidia7",
        "/dev/nvidia-caps/nvidia-cap30",
        "/dev/nvidia-caps/nvidia-cap31",
    )
    assert found.gpu_instances == {"GPU-0": (SMALL,)}
    assert there.loads()["GPU-0"].compute == 0


def test_a_card_that_falls_off_the_bus_is_unhealthy_until_it_returns(tmp_path: Path) -> None:
    library = begin(2)
    there = inventory(tmp_path, library)
    there.read()

    library.stand_in_lose(0, 1)
    lost, loads = there.read(), there.loads()
    library.stand_in_lose(0, 0)
    back = there.read()

    assert [card.healthy for card in lost.cards] == [False, True]
    assert list(loads) == ["GPU-1"]
    assert [card.healthy for card in back.cards] == [True, True]


def test_the_error_says_that_no_card_answers(tmp_path: Path) -> None:
    library = begin(1)
    library.stand_in_lose(0, 1)

    with pytest.raises(InventoryError, match="gpu is lost"):
        inventory(tmp_path, library).read()


def test_the_error_says_that_the_library_is_missing_or_too_old(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="too old for this function"):
        inventory(tmp_path, object()).read()
    assert inventory(tmp_path, object()).loads() == {}


def test_a_name_that_is_no_text_does_not_hide_the_other_cards(tmp_path: Path) -> None:
    library = begin(2)
    names = iter((b"\xff", b"A10"))

    class Damaged:
        def __getattr__(self, name: str) -> Any:
            return getattr(library, name)

        def nvmlDeviceGetName(self, _handle: Any, buffer: Any, _length: Any) -> int:  # noqa: N802
            buffer.value = next(names)
            return 0

    found = inventory(tmp_path, Damaged()).read()

    assert [card.uuid for card in found.cards] == ["GPU-1"]


def test_a_node_without_the_driver_has_no_library() -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        with pytest.raises(InventoryError, match=r"libnvidia-ml\.so"):
            NvmlInventory("a").read()
    else:
        assert all(card.uuid.startswith("GPU-") for card in NvmlInventory("a").read().cards)


def test_a_library_that_was_shut_down_is_started_again() -> None:
    nvml = the_nvml(begin(1))
    nvml.cards()

    nvml.reopen()

    assert [card.uuid for card in nvml.cards()] == ["GPU-0"]
    with pytest.raises(NvmlError, match="not found"):
        nvml.handle_of("GPU-5")


def test_a_capability_without_a_number_has_no_device_node(tmp_path: Path) -> None:
    (tmp_path / "access").write_text("DeviceFileMode: 292\n")

    assert capability(tmp_path / "access") is None
    assert capability(tmp_path / "nowhere") is None
