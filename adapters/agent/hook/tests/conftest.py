from dataclasses import replace
from pathlib import Path

import pytest

from adapters.agent.injection.profiles import NVIDIA, HamiCore, VendorProfile


@pytest.fixture
def profile(tmp_path: Path) -> VendorProfile:
    for name in ("libvgpu.so", "ld.so.preload"):
        (tmp_path / name).touch()
    hami = HamiCore(
        library=str(tmp_path / "libvgpu.so"),
        preload_file=str(tmp_path / "ld.so.preload"),
        lock=str(tmp_path / "lock"),
        caches=str(tmp_path / "containers"),
    )
    return replace(
        NVIDIA,
        card_devices=("/dev/null",),
        devices=("/dev/zero",),
        optional_devices=("/dev/full", "/nowhere"),
        hami=hami,
    )
