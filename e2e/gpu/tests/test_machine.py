"""What of the machine the probe sees, in a folder that plays its root."""

import os
import socket
import stat
from pathlib import Path

import pytest

from adapters.agent.config import AgentConfig
from e2e.gpu.machine import read_machine
from e2e.gpu.reading import ReadCard, Reading

CARD = ReadCard(
    0, "GPU-0", "nvidia", "A10", 1, None, None, "shared", healthy=True, problem="", numa=None,
    bus="", links=(), devices=("/dev/nvidia0",), instances=(), parts=(), processes=(),
)  # fmt: skip


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def facts(root: Path, *cards: ReadCard, **config: object) -> dict[str, tuple[str, bool]]:
    """What was found, and whether it is missing; of several of one name the last."""
    found = read_machine(AgentConfig(**config), Reading("nvml", cards=cards), root)  # type: ignore[arg-type]
    return {fact.what: (fact.found, fact.missing) for fact in found}


def test_an_empty_machine_lacks_nri_and_hami_core(tmp_path: Path) -> None:
    found = facts(tmp_path)

    assert [what for what, (_, missing) in found.items() if missing] == [
        "NRI",
        "HAMi-core of nvidia",
    ]
    assert found["kernel's driver"] == ("not loaded", False)
    assert found["runtime"] == ("none", False)
    assert found["control groups"] == ("none", False)


def test_a_machine_with_everything_lacks_nothing(tmp_path: Path) -> None:
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Release Build\n"
    write(tmp_path, "proc/driver/nvidia/version", line)
    write(tmp_path, "run/containerd/containerd.sock", "")
    write(tmp_path, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
    write(tmp_path, "usr/local/vgpu/libvgpu.so", "")
    write(tmp_path, "usr/local/vgpu/ld.so.preload", "/usr/local/vgpu/libvgpu.so\n")
    write(
        tmp_path,
        "etc/containerd/config.toml",
        'version = 3\nimports = ["/etc/containerd/n*.toml"]\n',
    )
    write(
        tmp_path,
        "etc/containerd/nri.toml",
        "[plugins.'io.containerd.nri.v1.nri']\ndisable = false\n"
        "[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = true\n"
        "required_plugins = ['dragoman']\n",
    )
    path = tmp_path / "var/run/nri/nri.sock"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's address is at most 107 bytes long
        try:
            listening.bind(path.name)
        finally:
            os.chdir(here)
        listening.listen()
        row = "0000: 00000002 00000000 00010000 0001 01 4711 /var/run/nri/nri.sock\n"
        write(tmp_path, "proc/net/unix", f"Num RefCount Protocol Flags Type St Inode Path\n{row}")
        found = facts(tmp_path)

    assert not any(missing for _, missing in found.values())
    assert found["kernel's driver"][0] == "570.86.15"
    assert found["runtime"][0] == "containerd"
    assert found["NRI"][0] == "/var/run/nri/nri.sock: a process listens"
    assert found["containerd's NRI"][0] == "enabled"
    assert found["required plugins"][0] == "checked for containers of all pods: dragoman"
    assert found["control groups"][0] == "version 2: cpuset cpu memory"


def test_nri_that_is_switched_off_is_missing(tmp_path: Path) -> None:
    write(
        tmp_path,
        "etc/containerd/config.toml",
        "[plugins.'io.containerd.nri.v1.nri']\ndisable = true\n",
    )

    assert facts(tmp_path)["containerd's NRI"] == ("disabled", True)
    assert facts(tmp_path)["required plugins"] == ("not checked", False)
    write(tmp_path, "etc/containerd/config.toml", "a = [")
    assert "or a file that it imports: " in facts(tmp_path)["containerd's NRI"][0]


def test_a_file_in_the_place_of_the_socket_is_none(tmp_path: Path) -> None:
    write(tmp_path, "var/run/nri/nri.sock", "")

    assert facts(tmp_path)["NRI"] == ("/var/run/nri/nri.sock is no socket", True)


def test_device_nodes_that_a_container_needs_are_missing(tmp_path: Path) -> None:
    text = "/dev/nvidia0, /dev/nvidiactl: no device"
    found = [
        fact
        for fact in read_machine(AgentConfig(), Reading("nvml", cards=(CARD,)), tmp_path)
        if fact.what == "device nodes of nvidia"
    ]

    assert (found[0].found, found[0].missing) == (text, True)
    assert not found[1].missing


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_device_nodes_that_exist_are_named(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    try:
        os.mknod(tmp_path / "dev/nvidia0", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container may make no device nodes")

    found = read_machine(AgentConfig(), Reading("nvml", cards=(CARD,)), tmp_path)

    assert "/dev/nvidia0" in [each.found for each in found if each.what == "device nodes of nvidia"]


def test_the_checkpoint_of_the_kubelet_is_counted_or_says_why_not(tmp_path: Path) -> None:
    name = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    write(tmp_path, name, '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}')
    assert facts(tmp_path)["kubelet's devices"][0].endswith("checkpoint: 0 pods with devices")

    write(tmp_path, name, "x")
    assert not facts(tmp_path)["kubelet's devices"][0].endswith("devices")
