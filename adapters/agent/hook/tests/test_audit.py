from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from adapters.agent.hook.reporter import audit
from adapters.agent.hook.tests.policies import AUTHORS, HALF, adjust, policy
from adapters.agent.injection.profiles import VendorProfile
from adapters.agent.nri.model import (
    Adjustment,
    ContainerState,
    LinuxDevice,
    Mount,
    NriContainer,
)
from adapters.agent.tests.builders import ASKING, POD, container, ledger
from core.hardware.quantity import GIB
from core.requests.grant import Grant


@pytest.mark.parametrize("written", AUTHORS)
def test_the_audit_reports_running_containers_with_cards_that_no_component_gave(
    profile: VendorProfile, written: str
) -> None:
    there = policy(profile, ledger(unread="cards unknown"), "system", assigned="GPU-0")
    forged = container(f"NVIDIA_VISIBLE_DEVICES={written}", state=ContainerState.RUNNING)
    given = container("NVIDIA_VISIBLE_DEVICES=GPU-0", state=ContainerState.RUNNING)

    (found,) = audit(there, [POD], [forged, given])[1]

    assert found.text.startswith("NVIDIA_VISIBLE_DEVICES=")
    assert audit(there, [changed(POD, namespace="system")], [forged])[1] == []


def test_device_nodes_of_other_cards_are_a_bypass(profile: VendorProfile) -> None:
    profile = replace(profile, card_devices=("/dev/nvidia{index}",))
    there = policy(profile, ledger(HALF), "gpu-operator")
    host = tuple(LinuxDevice(f"/dev/nvidia{index}", "c", 195, index) for index in range(4))
    privileged = container(state=ContainerState.RUNNING, devices=host)
    own = container(state=ContainerState.RUNNING, devices=host[1:2])
    docker = container(
        name="other",
        state=ContainerState.RUNNING,
        mounts=(Mount("/var/run/docker.sock", "bind", "/var/run/docker.sock"),),
    )
    everything = container("NVIDIA_VISIBLE_DEVICES=all", name="open", state=ContainerState.RUNNING)
    over = changed(privileged, state=ContainerState.STOPPED)

    found = audit(there, [POD], [privileged, own, docker, everything, over])[1]

    assert [each.text for each in found] == [
        "device nodes of other cards (3)",
        "/var/run/docker.sock",
        "NVIDIA_VISIBLE_DEVICES=all",
    ]
    operator = changed(POD, namespace="gpu-operator")
    assert audit(there, [operator], [privileged, everything])[1] == []


def test_no_bypass_is_reported_where_the_share_is_not_known(
    profile: VendorProfile,
) -> None:
    profile = replace(profile, card_devices=("/dev/nvidia{index}",))
    device = (LinuxDevice("/dev/nvidia0", "c", 195, 0),)

    held = policy(profile, ledger(unread="whole cards of another scheduler"))
    broken = policy(profile, ledger(Grant("main", "GPU-9", GIB, 1)))

    assert held.bypass_of(held.facts(POD, container(devices=device))) == ""
    assert broken.bypass_of(broken.facts(POD, container(devices=device))) == ""


def test_the_audit_finds_containers_without_their_share(profile: VendorProfile) -> None:
    there = policy(profile, ledger(HALF, Grant("lost", "GPU-9", GIB, 1)))
    bare = container(name="main", state=ContainerState.RUNNING)
    lost = container(name="lost", state=ContainerState.RUNNING)
    free = container(name="free", state=ContainerState.RUNNING)
    over = container(name="main", state=ContainerState.STOPPED)
    orphan = NriContainer("c9", "gone", "main", ContainerState.RUNNING)

    found = audit(there, [POD], [bare, lost, free, over, orphan])[0]

    assert [each.container.name for each in found] == ["main", "lost"]
    assert "NVIDIA_VISIBLE_DEVICES" in found[0].text
    assert "GPU-9" in found[1].text


def test_the_audit_finds_a_result_that_the_ledger_does_not_know(
    profile: VendorProfile,
) -> None:
    forged = changed(ASKING, uid="x")
    running = container("NVIDIA_VISIBLE_DEVICES=all", state=ContainerState.RUNNING)

    (found,) = audit(policy(profile, ledger(HALF)), [forged], [running])[0]

    assert "no allocation is recorded" in found.text


def test_the_audit_accepts_what_the_agent_gave(profile: VendorProfile) -> None:
    there = policy(profile, ledger(HALF))
    given = adjust(there, POD, container())
    assert isinstance(given, Adjustment)
    env = tuple(f"{name}={value}" for name, value in given.env.items())
    running = container(
        *env, state=ContainerState.RUNNING, mounts=given.mounts, devices=given.devices
    )

    assert audit(there, [POD], [running])[0] == []


@pytest.mark.parametrize(
    ("commit", "names", "exposed"),
    [
        (b"GIT_HASH_c0f9da6", ("main",), True),
        (b"GIT_HASH_3506e62f1a", ("main",), True),
        (b"GIT_HASH_8f3a89c", ("main",), False),
        (b"", ("main",), False),
        (b"GIT_HASH_c0f9da6", ("single",), False),
    ],
)
def test_a_library_that_limits_nothing_with_several_cards_is_a_bypass(
    profile: VendorProfile, tmp_path: Path, commit: bytes, names: tuple[str, ...], exposed: bool
) -> None:
    library = tmp_path / "libvgpu.so"
    library.write_bytes(b"\x7fELF" + bytes(5000) + b"\0" + commit + b"\0")
    assert profile.hami is not None
    profile = replace(profile, hami=changed(profile.hami, library=str(library)))
    several = (HALF, replace(HALF, card="GPU-2"), replace(HALF, container="single"))
    there = policy(profile, ledger(*several))
    running = [container(name=name, state=ContainerState.RUNNING) for name in names]

    _, found = audit(there, [POD], running)

    assert [each.container.name for each in found] == [*names] * exposed
    assert all("CUDA_VISIBLE_DEVICES" in each.text for each in found)


@pytest.mark.parametrize(
    ("destination", "share", "exposed"),
    [
        ("/overrideEnv", True, True),
        ("//overrideEnv/", True, True),
        ("/etc/overrideEnv", True, False),
        ("/overrideEnv", False, False),
    ],
)
def test_a_mount_of_a_file_that_lifts_hami_cores_limits_is_a_bypass(
    profile: VendorProfile, destination: str, share: bool, exposed: bool
) -> None:
    there = policy(profile, ledger(HALF))
    mounts = (Mount(destination, "bind", "/var/lib/kubelet/x"),)
    running = container(
        name="main" if share else "other", state=ContainerState.RUNNING, mounts=mounts
    )

    _, found = audit(there, [POD], [running])

    assert [each.text for each in found] == [f"a mount at {destination}"] * exposed


def test_a_library_that_is_not_there_is_no_bypass(profile: VendorProfile, tmp_path: Path) -> None:
    assert profile.hami is not None
    profile = replace(profile, hami=changed(profile.hami, library=str(tmp_path / "none")))
    there = policy(profile, ledger(HALF, replace(HALF, card="GPU-2")))

    assert audit(there, [POD], [container(state=ContainerState.RUNNING)])[1] == []
