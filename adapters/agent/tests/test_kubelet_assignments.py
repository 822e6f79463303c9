import os
from pathlib import Path

import pytest

from adapters.agent.hook.facts import LIST_FOLDER, GivenDevices
from adapters.agent.kubelet import KubeletAssignments
from adapters.agent.tests.test_kubelet_checkpoint import answer, file, row


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row()))
    assignments = KubeletAssignments(place)
    first = assignments.read()
    stat = place.stat()
    place.write_bytes(b"?" * stat.st_size)
    os.utime(place, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    unchanged = assignments.read()
    place.with_name("next").write_bytes(file(row(), row(PodUID="8")))
    place.with_name("next").rename(place)

    assert unchanged == first
    assert [one.pod for one in assignments.read()] == ["7", "8"]


def test_an_invalid_file_leaves_the_known_devices_and_is_logged_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "checkpoint"
    place.write_bytes(file(row()))
    assignments = KubeletAssignments(place)
    known = assignments.read()

    place.write_bytes(b"garbage")

    assert assignments.read() == assignments.read() == known
    assert capsys.readouterr().err.count("kubelet_checkpoint.invalid") == 1


def test_a_container_sees_what_device_plugins_answered_for_it_alone(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    assignments = KubeletAssignments(place)
    missing = assignments.given("7", "c")
    place.write_bytes(file(row(AllocResp=answer(NVIDIA_VISIBLE_DEVICES="GPU-0"))))

    assert missing == GivenDevices()
    assert assignments.given("7", "c") == GivenDevices(visible=frozenset({"GPU-0"}))
    assert assignments.given("7", "other") == GivenDevices()
    assert assignments.given("8", "c") == GivenDevices()


@pytest.mark.parametrize("names", ["", "void", LIST_FOLDER])
def test_without_a_card_in_the_variable_the_kubelets_ids_are_the_cards(
    tmp_path: Path, names: str
) -> None:
    place = tmp_path / "checkpoint"
    response = answer(NVIDIA_VISIBLE_DEVICES=names)
    cards = row(DeviceIDs={"0": ["GPU-1::3", "MIG-2"]}, AllocResp=response)
    other = row(ResourceName="rdma/hca", DeviceIDs={"0": ["mlx5_0"]})
    place.write_bytes(file(cards, other))

    found = KubeletAssignments(place).given("7", "c")

    assert found == GivenDevices(passed=frozenset({"GPU-1", "MIG-2"}))
