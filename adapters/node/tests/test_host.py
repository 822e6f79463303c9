from pathlib import Path

import pytest

from adapters.node import host
from adapters.node.host import HostError, realize
from adapters.node.nri import Device
from adapters.node.plan import Plan

NOBODYS = "/dev/nvidia-caps/nvidia-cap9999999"


def drivers(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "devices"
    file.write_text(text)
    return file


def test_a_capability_whose_node_nobody_has_made_is_given_by_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Character devices:\n  1 mem\n195 nvidia\n237 nvidia-caps\n\nBlock devices:\n  7 loop\n"
    monkeypatch.setattr(host, "DRIVERS", drivers(tmp_path, text))

    made = realize(Plan(devices=(NOBODYS,)))

    assert made.devices == (Device(NOBODYS, "c", 237, 9999999, 0o666),)


@pytest.mark.parametrize("path", [NOBODYS, "/dev/nvidia-caps/none", "/dev/no-such-card"])
def test_what_is_no_device_of_this_node_keeps_the_container_back(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "DRIVERS", drivers(tmp_path, "195 nvidia\n"))

    with pytest.raises(HostError, match="No such file"):
        realize(Plan(devices=(path,)))


def test_a_node_that_lists_no_drivers_has_no_capabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "DRIVERS", tmp_path / "nowhere")

    with pytest.raises(HostError, match="No such file"):
        realize(Plan(devices=(NOBODYS,)))
