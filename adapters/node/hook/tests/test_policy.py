from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from adapters.dialects import record
from adapters.node.grants import GrantStatus, LedgerGrants
from adapters.node.hook.host import HostError, discard, realize
from adapters.node.hook.plan import AdjustmentPlan
from adapters.node.hook.policy import NOTHING, NoGrantYet, Policy, ServeError
from adapters.node.hook.profiles import NVIDIA, HamiCore, VendorProfile
from adapters.node.nri.model import (
    Adjustment,
    ContainerState,
    LinuxDevice,
    Mount,
    NriContainer,
    PodSandbox,
)
from adapters.node.tests.builders import ASKING, MEMORY, POD, container, equipment, ledger
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import AllocationState as Firmness
from core.requests.grant import Grant

HALF = Grant("main", "GPU-1", GIB, 50)
KOORDINATED = changed(POD, annotations=frozenset({"scheduling.koordinator.sh/device-allocated"}))


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


def agent(profile: VendorProfile, held: NodeLedger | None, *exempt: str) -> Policy:
    return Policy(LedgerGrants(held), lambda: equipment(nvidia=profile), frozenset(exempt))


def test_a_granted_container_gets_its_share(profile: VendorProfile, tmp_path: Path) -> None:
    found = agent(profile, ledger(HALF)).adjust(POD, container("NVIDIA_VISIBLE_DEVICES=void"))

    assert isinstance(found, Adjustment)
    assert found.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    assert [device.path for device in found.devices] == ["/dev/null", "/dev/zero", "/dev/full"]
    assert (found.devices[0].major, found.devices[0].minor) == (1, 3)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o777
    assert (tmp_path / "containers" / "uid-1_main").stat().st_mode & 0o777 == 0o777


def test_the_bounds_of_an_earlier_container_do_not_outlive_it(
    profile: VendorProfile, tmp_path: Path
) -> None:
    folder = tmp_path / "containers" / "uid-1_main"
    folder.mkdir(parents=True)
    (folder / "uid-1_main.cache").write_text("old bounds")

    agent(profile, ledger(HALF)).adjust(POD, container())

    assert list(folder.iterdir()) == []


def test_an_asking_pod_that_the_ledger_does_not_name_is_waited_for(profile: VendorProfile) -> None:
    marked = container(f"{record.MARK}=1")

    assert (
        agent(profile, ledger()).adjust(changed(ASKING, uid="x"), container()) is NoGrantYet.GRANT
    )
    assert agent(profile, ledger()).adjust(changed(POD, uid="x"), marked) is NoGrantYet.GRANT
    assert agent(profile, None).adjust(ASKING, container()) is NoGrantYet.GRANT


@pytest.mark.parametrize("cards", ["GPU-0", "MIG-1,MIG-2"])
def test_a_card_from_a_device_plugin_is_not_taken_away_before_the_ledger_knows(
    profile: VendorProfile, cards: str
) -> None:
    plugged = container(f"NVIDIA_VISIBLE_DEVICES={cards}")

    assert agent(profile, None).adjust(PodSandbox(uid="x"), plugged) is NoGrantYet.GRANT
    assert agent(profile, ledger()).adjust(PodSandbox(uid="x"), plugged) is NoGrantYet.GRANT


def test_a_share_that_some_service_only_holds_does_not_count(profile: VendorProfile) -> None:
    held = ledger(HALF, state=Firmness.RESERVED)

    assert agent(profile, held).adjust(ASKING, container()) is NoGrantYet.GRANT


def test_a_container_that_asked_for_nothing_sees_no_card(profile: VendorProfile) -> None:
    there = agent(profile, ledger(HALF))
    none = Adjustment({"NVIDIA_VISIBLE_DEVICES": "void"})

    assert there.adjust(POD, container(name="other")) == none
    assert there.adjust(PodSandbox(uid="x"), container("NVIDIA_VISIBLE_DEVICES=all")) == none
    assert there.adjust(PodSandbox(uid="x"), container("NVIDIA_VISIBLE_DEVICES=void")) == NOTHING


def test_an_exempt_namespace_keeps_what_its_images_say(profile: VendorProfile) -> None:
    there = agent(profile, ledger(HALF), "gpu-operator")

    found = there.adjust(PodSandbox(uid="x", namespace="gpu-operator"), container("A=1"))

    assert found == NOTHING


def test_a_pod_that_another_component_serves_is_left_alone(profile: VendorProfile) -> None:
    held = ledger(uid="uid-1", unread="whole cards of another scheduler")

    assert agent(profile, held).adjust(ASKING, container("NVIDIA_VISIBLE_DEVICES=GPU-0")) == NOTHING


def test_a_card_that_is_gone_keeps_its_container_back(profile: VendorProfile) -> None:
    with pytest.raises(ServeError, match=r"container main of pod ai/train: .*GPU-9"):
        agent(profile, ledger(Grant("main", "GPU-9", GIB, 50))).adjust(POD, container())


def test_a_missing_device_node_keeps_its_container_back(profile: VendorProfile) -> None:
    lacking = replace(profile, devices=("/dev/nowhere",))

    with pytest.raises(ServeError, match="/dev/nowhere: No such file"):
        agent(lacking, ledger(HALF)).adjust(POD, container())


def test_a_marked_container_that_the_ledger_gives_nothing_is_kept_back(
    profile: VendorProfile,
) -> None:
    there = agent(profile, ledger(HALF))
    cards = "NVIDIA_VISIBLE_DEVICES=GPU-1"

    for env in ((f"{record.MARK}=1",), (f"{record.MARK}=1", cards)):
        with pytest.raises(ServeError, match="other containers all that it gives"):
            there.adjust(POD, container(*env, name="other"))


def test_a_marked_container_whose_record_cannot_be_read_is_kept_back(
    profile: VendorProfile,
) -> None:
    there = agent(profile, ledger(unread="broken"))
    plugged = container(f"{record.MARK}=1", "NVIDIA_VISIBLE_DEVICES=GPU-1")

    with pytest.raises(ServeError, match="cannot tell what its pod holds"):
        there.adjust(ASKING, container(f"{record.MARK}=1"))
    # Its device plugin has served it, as it did before Dragoman came.
    assert there.adjust(ASKING, plugged) == NOTHING


def test_a_record_that_cannot_be_read_opens_no_card(profile: VendorProfile) -> None:
    there = agent(profile, ledger(unread="forged"))

    all_cards = there.adjust(ASKING, container("NVIDIA_VISIBLE_DEVICES=all"))

    assert all_cards == Adjustment({"NVIDIA_VISIBLE_DEVICES": "void"})
    with pytest.raises(ServeError, match="turn that gate off"):
        there.adjust(KOORDINATED, container("NVIDIA_VISIBLE_DEVICES=0,1"))


def test_a_container_with_the_nodes_of_others_cards_is_exposed(profile: VendorProfile) -> None:
    profile = replace(profile, card_devices=("/dev/nvidia{index}",))
    there = agent(profile, ledger(HALF), "gpu-operator")
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

    found = there.exposed([POD], [privileged, own, docker, everything, over])

    assert [each.way for each in found] == [
        "device nodes of other cards (3)",
        "/var/run/docker.sock",
        "NVIDIA_VISIBLE_DEVICES=all",
    ]
    operator = changed(POD, namespace="gpu-operator")
    assert there.exposed([operator], [privileged, everything]) == ()


def test_of_whom_the_ledger_cannot_tell_what_he_holds_nobody_says_that_he_is_exposed(
    profile: VendorProfile,
) -> None:
    profile = replace(profile, card_devices=("/dev/nvidia{index}",))
    device = (LinuxDevice("/dev/nvidia0", "c", 195, 0),)

    held = agent(profile, ledger(unread="whole cards of another scheduler"))
    broken = agent(profile, ledger(Grant("main", "GPU-9", GIB, 1)))

    assert held.exposure(POD, container(devices=device)) == ""
    assert broken.exposure(POD, container(devices=device)) == ""


def test_koordinators_hook_is_left_alone_where_it_says_the_same(profile: VendorProfile) -> None:
    there = agent(profile, ledger(HALF))
    set_by_it = container(
        "NVIDIA_VISIBLE_DEVICES=1", f"CUDA_DEVICE_MEMORY_LIMIT={GIB}", "CUDA_DEVICE_SM_LIMIT=50"
    )

    assert there.adjust(KOORDINATED, set_by_it) == NOTHING
    assert there.audit([KOORDINATED], [changed(set_by_it, state=ContainerState.RUNNING)]) == ()


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("main", ("NVIDIA_VISIBLE_DEVICES=0",)),
        ("main", ("NVIDIA_VISIBLE_DEVICES=1",)),
        ("main", ("NVIDIA_VISIBLE_DEVICES=1", f"CUDA_DEVICE_MEMORY_LIMIT={GIB}")),
        ("other", ("NVIDIA_VISIBLE_DEVICES=1",)),
    ],
)
def test_koordinators_hook_is_refused_where_it_says_otherwise(
    profile: VendorProfile, name: str, env: tuple[str, ...]
) -> None:
    with pytest.raises(ServeError, match="turn that gate off"):
        agent(profile, ledger(HALF)).adjust(KOORDINATED, container(*env, name=name))


def test_a_failure_concerns_whoever_may_have_a_share(profile: VendorProfile) -> None:
    there = agent(profile, ledger(HALF, Grant("lost", "GPU-9", GIB, 1)))

    assert there.concerns(POD, container())
    assert there.concerns(POD, container(name="lost"))
    assert there.concerns(changed(ASKING, uid="x"), container())
    assert not there.concerns(PodSandbox(uid="x"), container())


def test_the_audit_names_who_runs_without_a_share(profile: VendorProfile) -> None:
    there = agent(profile, ledger(HALF, Grant("lost", "GPU-9", GIB, 1)))
    bare = container(name="main", state=ContainerState.RUNNING)
    lost = container(name="lost", state=ContainerState.RUNNING)
    free = container(name="free", state=ContainerState.RUNNING)
    over = container(name="main", state=ContainerState.STOPPED)
    orphan = NriContainer("c9", "gone", "main", ContainerState.RUNNING)

    found = there.audit([POD], [bare, lost, free, over, orphan])

    assert [each.container.name for each in found] == ["main", "lost"]
    assert "NVIDIA_VISIBLE_DEVICES" in found[0].lacking
    assert "GPU-9" in found[1].lacking


def test_the_audit_names_who_runs_on_a_promise_that_the_ledger_does_not_know(
    profile: VendorProfile,
) -> None:
    forged = changed(ASKING, uid="x")
    running = container("NVIDIA_VISIBLE_DEVICES=all", state=ContainerState.RUNNING)

    (found,) = agent(profile, ledger(HALF)).audit([forged], [running])

    assert "does not name its pod" in found.lacking


def test_the_audit_is_content_with_what_the_agent_gave(profile: VendorProfile) -> None:
    there = agent(profile, ledger(HALF))
    given = there.adjust(POD, container())
    assert isinstance(given, Adjustment)
    env = tuple(f"{name}={value}" for name, value in given.env.items())
    running = container(
        *env, state=ContainerState.RUNNING, mounts=given.mounts, devices=given.devices
    )

    assert there.audit([POD], [running]) == ()


def test_grants_tell_what_they_know() -> None:
    grants = LedgerGrants()

    assert grants.of("uid-1", "main") is GrantStatus.UNKNOWN
    grants.replace(ledger(Grant("main", "GPU-0", MEMORY, 100)))
    assert grants.of("uid-1", "other") is GrantStatus.NOTHING
    assert set(grants.cards()) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}


@pytest.mark.parametrize(
    "plan",
    [
        AdjustmentPlan({"A=B": "1"}),
        AdjustmentPlan({"": "1"}),
        AdjustmentPlan({"A": "1\0"}),
        AdjustmentPlan({"A": "x" * (128 << 10)}),
        AdjustmentPlan(devices=("/etc/passwd",)),
        AdjustmentPlan(scratch_dirs="/proc/nowhere/x"),
        AdjustmentPlan(scratch_dirs="/etc/passwd"),
        AdjustmentPlan(folders=("/etc/passwd",)),
    ],
)
def test_what_would_fail_after_the_answer_fails_before_it(plan: AdjustmentPlan) -> None:
    with pytest.raises(HostError):
        realize(plan)


def test_a_link_in_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.cache").touch()
    (tmp_path / "own").symlink_to(elsewhere)

    realize(AdjustmentPlan(scratch_dirs=str(tmp_path / "own")))
    (tmp_path / "other").symlink_to(elsewhere)
    discard(str(tmp_path / "other"))

    assert not (tmp_path / "own").is_symlink()
    assert (elsewhere / "x.cache").exists()


def test_a_discarded_folder_is_gone(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.cache").touch()

    discard(str(tmp_path / "own"))
    discard(str(tmp_path / "own"))

    assert not (tmp_path / "own").exists()
