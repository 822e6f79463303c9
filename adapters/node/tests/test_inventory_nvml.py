"""The library is played by one of its functions' names; no card is needed."""

import ctypes
from pathlib import Path
from typing import Any

import pytest

from adapters.node.inventory import InventoryError, Load
from adapters.node.inventory_nvml import NvmlInventory
from adapters.node.nvml import Nvml, capability
from core.card import Mode


class Library:
    """Answers as the driver's does: a code, and the result through a pointer."""

    def __init__(self, cards: int = 2, *, mig: bool = False) -> None:
        self.cards, self.mig = cards, mig

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = self.cards
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: N802
        handle._obj.value = 100 + index.value
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:  # noqa: N802
        memory._obj.total, memory._obj.used = 80 << 30, handle.value
        return 0

    def nvmlDeviceGetUtilizationRates(self, _: Any, busy: Any) -> int:  # noqa: N802
        busy._obj.gpu = 42
        return 3 if self.mig else 0

    def nvmlDeviceGetPciInfo_v3(self, handle: Any, pci: Any) -> int:  # noqa: N802
        pci._obj.bus = handle.value - 100 + 0x3B
        return 0

    def nvmlDeviceGetMinorNumber(self, handle: Any, value: Any) -> int:  # noqa: N802
        value._obj.value = 107 - handle.value
        return 0

    def nvmlDeviceGetName(self, handle: Any, text: Any, _: Any) -> int:  # noqa: N802
        text.value = b"NVIDIA A100 MIG 1g.5gb" if handle.value >= 200 else b"NVIDIA A100"
        return 0

    def nvmlDeviceGetUUID(self, handle: Any, text: Any, _: Any) -> int:  # noqa: N802
        text.value = f"{'MIG' if handle.value >= 200 else 'GPU'}-{handle.value}".encode()
        return 0

    def nvmlDeviceGetMigMode(self, _: Any, current: Any, __: Any) -> int:  # noqa: N802
        current._obj.value = 1
        return 0 if self.mig else 3

    def nvmlDeviceGetMaxMigDeviceCount(self, _: Any, value: Any) -> int:  # noqa: N802
        value._obj.value = 7
        return 0

    def nvmlDeviceGetMigDeviceHandleByIndex(  # noqa: N802
        self, card: Any, index: Any, handle: Any
    ) -> int:
        handle._obj.value = 200 + card.value
        return 0 if index.value == 2 else 6

    def nvmlDeviceGetGpuInstanceId(self, _: Any, value: Any) -> int:  # noqa: N802
        value._obj.value = 9
        return 0

    def nvmlDeviceGetComputeInstanceId(self, _: Any, value: Any) -> int:  # noqa: N802
        value._obj.value = 0
        return 0

    def nvmlDeviceGetGpuInstanceById(self, _: Any, __: Any, instance: Any) -> int:  # noqa: N802
        instance._obj.value = 1
        return 0

    def nvmlGpuInstanceGetInfo(self, _: Any, info: Any) -> int:  # noqa: N802
        info._obj.placement.start = 2
        return 0


def inventory(tmp_path: Path, library: Any) -> NvmlInventory:
    for name, node in (("0000:3b:00.0", "1"), ("0000:3c:00.0", "-1")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "numa_node").write_text(node)
    return NvmlInventory("a", Nvml(library), bus=tmp_path, capabilities=tmp_path)


def test_cards_come_with_their_numbers_and_their_place(tmp_path: Path) -> None:
    there = inventory(tmp_path, Library())

    found = there.hardware()

    assert [(c.uuid, c.index, c.numa) for c in found.cards] == [
        ("GPU-100", 0, 1),
        ("GPU-101", 1, None),
    ]
    assert found.cards[0].memory == 80 << 30
    assert found.cards[0].mode is Mode.SHARED
    assert found.devices == {"GPU-100": ("/dev/nvidia7",), "GPU-101": ("/dev/nvidia6",)}
    assert there.loads() == {"GPU-100": Load(100, 42), "GPU-101": Load(101, 42)}


def test_a_slice_comes_with_its_profile_its_place_and_its_device_nodes(tmp_path: Path) -> None:
    for place, minor in (("gi9", 30), ("gi9/ci0", 31)):
        folder = tmp_path / "gpu7" / "mig" / place
        folder.mkdir(parents=True)
        (folder / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\n")
    there = inventory(tmp_path, Library(1, mig=True))

    found = there.hardware()

    assert found.cards[0].mode is Mode.MIG
    (key,) = found.instances
    assert key == ("GPU-100", "1g.5gb", 2)
    assert found.instances[key].uuid == "MIG-300"
    assert found.instances[key].devices == (
        "/dev/nvidia7",
        "/dev/nvidia-caps/nvidia-cap30",
        "/dev/nvidia-caps/nvidia-cap31",
    )
    assert there.loads()["GPU-100"].compute == 0


def test_a_card_that_falls_off_the_bus_stays_unhealthy_and_may_come_back(tmp_path: Path) -> None:
    library = Library(2)
    there = inventory(tmp_path, library)
    there.hardware()

    library.cards = 1
    lost = there.hardware()
    library.cards = 2
    back = there.hardware()

    assert [card.healthy for card in lost.cards] == [True, False]
    assert [card.healthy for card in back.cards] == [True, True]


def test_a_library_that_is_not_there_or_too_old_is_told(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="too old to know it"):
        inventory(tmp_path, object()).hardware()
    assert inventory(tmp_path, object()).loads() == {}


def test_a_node_without_the_driver_has_no_library() -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        with pytest.raises(InventoryError, match=r"libnvidia-ml\.so"):
            NvmlInventory("a").hardware()
    else:
        assert all(card.uuid.startswith("GPU-") for card in NvmlInventory("a").hardware().cards)


def test_a_capability_without_a_number_has_no_device_node(tmp_path: Path) -> None:
    (tmp_path / "access").write_text("DeviceFileMode: 292\n")

    assert capability(tmp_path / "access") is None
    assert capability(tmp_path / "nowhere") is None
