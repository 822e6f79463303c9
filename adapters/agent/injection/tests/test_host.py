import os
import stat
import subprocess
from pathlib import Path

import pytest

from adapters.agent.injection import plan
from adapters.agent.injection.plan import AdjustmentPlan, HostError, realize
from adapters.agent.nri.model import LinuxDevice, Mount

WITHOUT_NODE = "/dev/nvidia-caps/nvidia-cap9999999"


def drivers(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "devices"
    file.write_text(text)
    return file


def test_a_capability_without_a_device_node_is_given_by_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Character devices:\n  1 mem\n195 nvidia\n237 nvidia-caps\n\nBlock devices:\n  7 loop\n"
    monkeypatch.setattr(plan, "PROC_DEVICES", drivers(tmp_path, text))

    made = realize(AdjustmentPlan(devices=(WITHOUT_NODE,)))

    assert made.devices == (LinuxDevice(WITHOUT_NODE, "c", 237, 9999999, 0o666),)


@pytest.mark.parametrize("path", [WITHOUT_NODE, "/dev/nvidia-caps/none", "/dev/no-such-card"])
def test_a_path_that_is_no_device_of_this_node_is_rejected(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PROC_DEVICES", drivers(tmp_path, "195 nvidia\n"))

    with pytest.raises(HostError, match="No such file"):
        realize(AdjustmentPlan(devices=(path,)))


def test_a_node_that_lists_no_drivers_has_no_capabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PROC_DEVICES", tmp_path / "nowhere")

    with pytest.raises(HostError, match="No such file"):
        realize(AdjustmentPlan(devices=(WITHOUT_NODE,)))


def test_a_containers_folder_is_created_writable_with_its_parents(tmp_path: Path) -> None:
    own = tmp_path / "vgpu" / "uid-1_main"

    realize(AdjustmentPlan(scratch_dir=str(own), mounts=(Mount("/tmp/vgpu", "bind", str(own)),)))

    assert stat.S_IMODE(own.stat().st_mode) == 0o777


@pytest.mark.parametrize("before", [None, 0o755, 0o700, 0o777, 0o1777])
def test_the_shared_folder_is_for_all_users_also_where_it_exists(
    tmp_path: Path, before: int | None
) -> None:
    lock = tmp_path / "vgpulock"
    if before is not None:
        lock.mkdir()
        lock.chmod(before)

    realize(AdjustmentPlan(shared_dirs=(str(lock),)))

    assert stat.S_IMODE(lock.stat().st_mode) == 0o1777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("user", [1000, 65534])
def test_a_container_of_any_user_writes_where_hami_core_does(tmp_path: Path, user: int) -> None:
    """HAMi-core sleeps for up to 100 s, or hangs, where it cannot create its lock."""
    lock, own = tmp_path / "vgpulock", tmp_path / "caches" / "uid-1_main"
    lock.mkdir(mode=0o755)

    realize(AdjustmentPlan(shared_dirs=(str(lock),), scratch_dir=str(own)))

    for folder in (lock, own):
        subprocess.run(["/bin/sh", "-c", "echo x > lock"], cwd=folder, user=user, check=True)
        assert (folder / "lock").stat().st_uid == user


def test_a_link_in_place_of_the_shared_folder_is_rejected(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    (tmp_path / "vgpulock").symlink_to(secret)

    with pytest.raises(HostError):
        realize(AdjustmentPlan(shared_dirs=(str(tmp_path / "vgpulock"),)))

    assert stat.S_IMODE(secret.stat().st_mode) == 0o700


def test_a_mount_without_its_source_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="does not exist on this node"):
        realize(AdjustmentPlan(mounts=(Mount("/x", "bind", str(tmp_path / "nowhere")),)))


@pytest.mark.parametrize(
    "plan",
    [
        AdjustmentPlan({"A=B": "1"}),
        AdjustmentPlan({"": "1"}),
        AdjustmentPlan({"A": "1\0"}),
        AdjustmentPlan({"A": "x" * (128 << 10)}),
        AdjustmentPlan(devices=("/etc/passwd",)),
        AdjustmentPlan(scratch_dir="/proc/nowhere/x"),
        AdjustmentPlan(scratch_dir="/etc/passwd"),
        AdjustmentPlan(shared_dirs=("/etc/passwd",)),
    ],
)
def test_a_plan_that_would_fail_after_the_answer_fails_before_it(plan: AdjustmentPlan) -> None:
    with pytest.raises(HostError):
        realize(plan)


def test_a_link_in_place_of_a_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.cache").touch()
    (tmp_path / "own").symlink_to(elsewhere)

    realize(AdjustmentPlan(scratch_dir=str(tmp_path / "own")))

    assert not (tmp_path / "own").is_symlink()
    assert (elsewhere / "x.cache").exists()
