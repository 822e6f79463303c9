"""The plan for one share of a real card, carried out as far as this machine allows."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.agent.hardware.model import Hardware
from adapters.agent.injection.adjustment import Equipment, plan_share
from adapters.agent.injection.plan import realize
from adapters.agent.injection.profiles import NVIDIA, HamiCore
from adapters.agent.nri.model import NriContainer, PodSandbox
from core.hardware.card import Mode
from core.hardware.quantity import GIB
from core.requests.grant import Grant
from core.requests.limits import limits

MAJOR = 195
"""A card's device node has this major number: Linux Documentation/admin-guide/devices.txt."""


def test_a_share_gets_the_device_nodes_of_its_card_and_its_limits(
    hardware: Hardware, tmp_path: Path
) -> None:
    card = next((each for each in hardware.cards if each.mode is Mode.SHARED), None)
    if card is None:
        pytest.skip("every card is in MIG mode")
    library = HamiCore().library
    installed = Path(library).is_file()
    if not installed:  # the plan then names a file that stands in its place
        for name in ("libvgpu.so", "ld.so.preload"):
            (tmp_path / name).write_text("")
        library = str(tmp_path / "libvgpu.so")
    hami = replace(
        HamiCore(),
        library=library,
        preload_file=str(Path(library).with_name("ld.so.preload")),
        lock=str(tmp_path / "lock"),
        caches=str(tmp_path / "caches"),
    )
    profiles = {"nvidia": replace(NVIDIA, hami=hami)}
    cards = {each.uuid: each for each in hardware.cards}
    equipment = Equipment(cards, profiles, hardware.devices, hardware.instances)
    bounds = limits((Grant("main", card.uuid, GIB, 30),), "main", cards)
    pod, container = PodSandbox("p", "pod", "uid", "team"), NriContainer("c", "p", "main")

    adjustment = realize(plan_share(bounds, pod, container, equipment))

    assert adjustment.env["NVIDIA_VISIBLE_DEVICES"] == card.uuid
    assert adjustment.env["CUDA_DEVICE_MEMORY_LIMIT"] == "1024m"
    assert adjustment.env["CUDA_DEVICE_SM_LIMIT"] == "30"
    paths = {device.path: device for device in adjustment.devices}
    (own,) = hardware.devices[card.uuid]
    assert {own, "/dev/nvidiactl"} <= paths.keys()
    assert (paths[own].major, paths[own].minor) == (MAJOR, int(own.removeprefix("/dev/nvidia")))
    for device in adjustment.devices:
        assert stat.S_ISCHR(os.stat(device.path).st_mode)  # noqa: PTH116
    descriptor = os.open("/dev/nvidiactl", os.O_RDWR)
    os.close(descriptor)
    if not installed:
        pytest.skip(f"the plan is complete; {HamiCore().library} is not there to be loaded by it")
