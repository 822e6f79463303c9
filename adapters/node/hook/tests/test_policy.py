from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from adapters.dialects import record
from adapters.node.grants import LedgerGrants
from adapters.node.hook.audit import audit_bypasses, audit_shares
from adapters.node.hook.policy import NO_ADJUSTMENT, NoGrantYet, Policy, RejectError
from adapters.node.hook.profiles import NVIDIA, HamiCore, VendorProfile
from adapters.node.nri.model import (
    Adjustment,
    ContainerState,
    LinuxDevice,
    Mount,
    NriContainer,
    PodSandbox,
)
from adapters.node.tests.builders import ASKING, POD, container, equipment, ledger
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import AllocationState as Firmness
from core.requests.grant import Grant

HALF = Grant("main", "GPU-1", GIB, 50)
KOORDINATED = changed(
    POD, annotation_keys=frozenset({"scheduling.koordinator.sh/device-allocated"})
)


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


def policy(profile: VendorProfile, held: NodeLedger | None, *exempt: str) -> Policy:
    return Policy(LedgerGrants(held), lambda: equipment(nvidia=profile), frozenset(exempt))


def adjust(by: Policy, pod: PodSandbox, to: NriContainer) -> Adjustment | NoGrantYet:
    return by.adjust(by.facts(pod, to))


def test_a_granted_container_gets_its_share(profile: VendorProfile, tmp_path: Path) -> None:
    found = adjust(policy(profile, ledger(HALF)), POD, container("NVIDIA_VISIBLE_DEVICES=void"))

    assert isinstance(found, Adjustment)
    assert found.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    assert [device.path for device in found.devices] == ["/dev/null", "/dev/zero", "/dev/full"]
    assert (found.devices[0].major, found.devices[0].minor) == (1, 3)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o777
    assert (tmp_path / "containers" / "uid-1_main").stat().st_mode & 0o777 == 0o777


def test_the_limits_of_an_earlier_container_do_not_outlive_it(
    profile: VendorProfile, tmp_path: Path
) -> None:
    folder = tmp_path / "containers" / "uid-1_main"
    folder.mkdir(parents=True)
    (folder / "uid-1_main.cache").write_text("old limits")

    adjust(policy(profile, ledger(HALF)), POD, container())

    assert list(folder.iterdir()) == []


def test_the_agent_waits_for_a_requesting_pod_without_an_allocation(profile: VendorProfile) -> None:
    marked = container(f"{record.MARK}=1")

    assert (
        adjust(policy(profile, ledger()), changed(ASKING, uid="x"), container()) is NoGrantYet.GRANT
    )
    assert adjust(policy(profile, ledger()), changed(POD, uid="x"), marked) is NoGrantYet.GRANT
    assert adjust(policy(profile, None), ASKING, container()) is NoGrantYet.GRANT


@pytest.mark.parametrize("cards", ["GPU-0", "MIG-1,MIG-2"])
def test_a_card_from_a_device_plugin_is_not_taken_away_before_the_ledger_knows(
    profile: VendorProfile, cards: str
) -> None:
    plugged = container(f"NVIDIA_VISIBLE_DEVICES={cards}")

    assert adjust(policy(profile, None), PodSandbox(uid="x"), plugged) is NoGrantYet.GRANT
    assert adjust(policy(profile, ledger()), PodSandbox(uid="x"), plugged) is NoGrantYet.GRANT


def test_a_reserved_share_does_not_count(profile: VendorProfile) -> None:
    held = ledger(HALF, state=Firmness.RESERVED)

    assert adjust(policy(profile, held), ASKING, container()) is NoGrantYet.GRANT


def test_a_container_without_a_request_sees_no_card(profile: VendorProfile) -> None:
    there = policy(profile, ledger(HALF))
    none = Adjustment({"NVIDIA_VISIBLE_DEVICES": "void"})

    assert adjust(there, POD, container(name="other")) == none
    assert adjust(there, PodSandbox(uid="x"), container("NVIDIA_VISIBLE_DEVICES=all")) == none
    assert (
        adjust(there, PodSandbox(uid="x"), container("NVIDIA_VISIBLE_DEVICES=void"))
        == NO_ADJUSTMENT
    )


def test_an_exempt_namespace_keeps_what_its_images_set(profile: VendorProfile) -> None:
    there = policy(profile, ledger(HALF), "gpu-operator")

    found = adjust(there, PodSandbox(uid="x", namespace="gpu-operator"), container("A=1"))

    assert found == NO_ADJUSTMENT


def test_a_pod_that_another_component_serves_is_left_alone(profile: VendorProfile) -> None:
    held = ledger(uid="uid-1", unread="whole cards of another scheduler")

    assert (
        adjust(policy(profile, held), ASKING, container("NVIDIA_VISIBLE_DEVICES=GPU-0"))
        == NO_ADJUSTMENT
    )


def test_a_container_whose_card_is_gone_is_rejected(profile: VendorProfile) -> None:
    with pytest.raises(RejectError, match=r"container main of pod ai/train: .*GPU-9"):
        adjust(policy(profile, ledger(Grant("main", "GPU-9", GIB, 50))), POD, container())


def test_a_container_whose_device_node_is_missing_is_rejected(profile: VendorProfile) -> None:
    incomplete = replace(profile, devices=("/dev/nowhere",))

    with pytest.raises(RejectError, match="/dev/nowhere: No such file"):
        adjust(policy(incomplete, ledger(HALF)), POD, container())


def test_an_admitted_container_without_a_grant_is_rejected(
    profile: VendorProfile,
) -> None:
    there = policy(profile, ledger(HALF))
    cards = "NVIDIA_VISIBLE_DEVICES=GPU-1"

    for env in ((f"{record.MARK}=1",), (f"{record.MARK}=1", cards)):
        with pytest.raises(RejectError, match="has no share for this container"):
            adjust(there, POD, container(*env, name="other"))


def test_an_admitted_container_with_an_unreadable_allocation_is_rejected(
    profile: VendorProfile,
) -> None:
    there = policy(profile, ledger(unread="broken"))
    plugged = container(f"{record.MARK}=1", "NVIDIA_VISIBLE_DEVICES=GPU-1")

    with pytest.raises(RejectError, match="does not know which cards this pod uses"):
        adjust(there, ASKING, container(f"{record.MARK}=1"))
    # Its device plugin has served it, as it did before Dragoman came.
    assert adjust(there, ASKING, plugged) == NO_ADJUSTMENT


def test_an_unreadable_allocation_makes_no_card_visible(profile: VendorProfile) -> None:
    there = policy(profile, ledger(unread="forged"))

    all_cards = adjust(there, ASKING, container("NVIDIA_VISIBLE_DEVICES=all"))

    assert all_cards == Adjustment({"NVIDIA_VISIBLE_DEVICES": "void"})
    with pytest.raises(RejectError, match="turn that gate off"):
        adjust(there, KOORDINATED, container("NVIDIA_VISIBLE_DEVICES=0,1"))


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

    found = audit_bypasses(there, [POD], [privileged, own, docker, everything, over])

    assert [each.paths for each in found] == [
        "device nodes of other cards (3)",
        "/var/run/docker.sock",
        "NVIDIA_VISIBLE_DEVICES=all",
    ]
    operator = changed(POD, namespace="gpu-operator")
    assert audit_bypasses(there, [operator], [privileged, everything]) == ()


def test_no_bypass_is_reported_where_the_share_is_not_known(
    profile: VendorProfile,
) -> None:
    profile = replace(profile, card_devices=("/dev/nvidia{index}",))
    device = (LinuxDevice("/dev/nvidia0", "c", 195, 0),)

    held = policy(profile, ledger(unread="whole cards of another scheduler"))
    broken = policy(profile, ledger(Grant("main", "GPU-9", GIB, 1)))

    assert held.bypass_of(held.facts(POD, container(devices=device))) == ""
    assert broken.bypass_of(broken.facts(POD, container(devices=device))) == ""


def test_a_container_of_koordinators_hook_is_left_alone_where_both_agree(
    profile: VendorProfile,
) -> None:
    there = policy(profile, ledger(HALF))
    set_by_it = container(
        "NVIDIA_VISIBLE_DEVICES=1", f"CUDA_DEVICE_MEMORY_LIMIT={GIB}", "CUDA_DEVICE_SM_LIMIT=50"
    )

    assert adjust(there, KOORDINATED, set_by_it) == NO_ADJUSTMENT
    assert (
        audit_shares(there, [KOORDINATED], [changed(set_by_it, state=ContainerState.RUNNING)]) == ()
    )


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("main", ("NVIDIA_VISIBLE_DEVICES=0",)),
        ("main", ("NVIDIA_VISIBLE_DEVICES=1",)),
        ("main", ("NVIDIA_VISIBLE_DEVICES=1", f"CUDA_DEVICE_MEMORY_LIMIT={GIB}")),
        ("other", ("NVIDIA_VISIBLE_DEVICES=1",)),
    ],
)
def test_a_container_of_koordinators_hook_is_rejected_where_they_disagree(
    profile: VendorProfile, name: str, env: tuple[str, ...]
) -> None:
    with pytest.raises(RejectError, match="turn that gate off"):
        adjust(policy(profile, ledger(HALF)), KOORDINATED, container(*env, name=name))


def test_a_container_may_have_a_share_where_it_was_granted_or_requested(
    profile: VendorProfile,
) -> None:
    there = policy(profile, ledger(HALF, Grant("lost", "GPU-9", GIB, 1)))

    assert there.may_have_share(there.facts(POD, container()))
    assert there.may_have_share(there.facts(POD, container(name="lost")))
    assert there.may_have_share(there.facts(changed(ASKING, uid="x"), container()))
    assert not there.may_have_share(there.facts(PodSandbox(uid="x"), container()))


def test_the_audit_finds_containers_without_their_share(profile: VendorProfile) -> None:
    there = policy(profile, ledger(HALF, Grant("lost", "GPU-9", GIB, 1)))
    bare = container(name="main", state=ContainerState.RUNNING)
    lost = container(name="lost", state=ContainerState.RUNNING)
    free = container(name="free", state=ContainerState.RUNNING)
    over = container(name="main", state=ContainerState.STOPPED)
    orphan = NriContainer("c9", "gone", "main", ContainerState.RUNNING)

    found = audit_shares(there, [POD], [bare, lost, free, over, orphan])

    assert [each.container.name for each in found] == ["main", "lost"]
    assert "NVIDIA_VISIBLE_DEVICES" in found[0].missing
    assert "GPU-9" in found[1].missing


def test_the_audit_finds_a_result_that_the_ledger_does_not_know(
    profile: VendorProfile,
) -> None:
    forged = changed(ASKING, uid="x")
    running = container("NVIDIA_VISIBLE_DEVICES=all", state=ContainerState.RUNNING)

    (found,) = audit_shares(policy(profile, ledger(HALF)), [forged], [running])

    assert "no allocation is recorded" in found.missing


def test_the_audit_accepts_what_the_agent_gave(profile: VendorProfile) -> None:
    there = policy(profile, ledger(HALF))
    given = adjust(there, POD, container())
    assert isinstance(given, Adjustment)
    env = tuple(f"{name}={value}" for name, value in given.env.items())
    running = container(
        *env, state=ContainerState.RUNNING, mounts=given.mounts, devices=given.devices
    )

    assert audit_shares(there, [POD], [running]) == ()
