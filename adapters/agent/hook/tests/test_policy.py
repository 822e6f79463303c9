from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as changed

from adapters.agent.hook.facts import (
    LIST_FOLDER,
    InjectorConflictError,
    injected_minors,
    verify_injected,
)
from adapters.agent.hook.policy import NO_ADJUSTMENT, NoGrantYet, RejectError
from adapters.agent.hook.reporter import audit
from adapters.agent.hook.tests.policies import AUTHORS, HALF, KOORDINATED, adjust, policy
from adapters.agent.injection.adjustment import Equipment
from adapters.agent.injection.hami_core import COMPUTE, MEMORY, limit_env
from adapters.agent.injection.profiles import VendorProfile
from adapters.agent.nri.model import (
    Adjustment,
    ContainerState,
    Mount,
    PodSandbox,
)
from adapters.agent.tests.builders import ASKING, POD, container, ledger
from adapters.dialects import allocation_record
from adapters.wire.quantity import parse_int
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import KUBELET, Allocation, Grant
from core.requests.grant import AllocationState as Firmness
from core.requests.limits import limits

VOID = Adjustment({"NVIDIA_VISIBLE_DEVICES": "void"})


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


def test_the_agent_waits_for_a_pod_with_a_result_and_without_an_allocation(
    profile: VendorProfile,
) -> None:
    assert (
        adjust(policy(profile, ledger()), changed(ASKING, uid="x"), container()) is NoGrantYet.GRANT
    )
    assert adjust(policy(profile, None), ASKING, container()) is NoGrantYet.GRANT


@pytest.mark.parametrize("assigned", ["", "GPU-0"])
@pytest.mark.parametrize("held", [None, ledger()])
def test_a_mark_that_an_image_can_set_is_no_reason_to_wait(
    profile: VendorProfile, held: NodeLedger | None, assigned: str
) -> None:
    marked = container(
        f"{allocation_record.MARK}=1", *(["NVIDIA_VISIBLE_DEVICES=GPU-0"] if assigned else [])
    )

    with pytest.raises(RejectError, match="but no allocation is recorded"):
        adjust(policy(profile, held, assigned=assigned), changed(POD, uid="x"), marked)


@pytest.mark.parametrize("cards", ["GPU-0", "0", "MIG-1,MIG-2"])
def test_a_card_of_a_device_plugin_waits_for_no_record(profile: VendorProfile, cards: str) -> None:
    plugged = container(f"NVIDIA_VISIBLE_DEVICES={cards}")
    unknown, idle = (policy(profile, held, assigned=cards) for held in (None, ledger()))

    assert adjust(unknown, PodSandbox(uid="x"), plugged) is NoGrantYet.GRANT
    assert adjust(idle, PodSandbox(uid="x"), plugged) == NO_ADJUSTMENT


@pytest.mark.parametrize("cards", ["GPU-1", "1", "GPU-0,GPU-1", "GPU-unknown"])
@pytest.mark.parametrize("unread", [None, "the kubelet chooses"])
def test_no_device_plugin_gives_a_card_that_the_ledger_gave_away(
    profile: VendorProfile, cards: str, unread: str | None
) -> None:
    plugged = container(f"NVIDIA_VISIBLE_DEVICES={cards}")
    held = ledger(HALF)
    if unread:
        held = held.adopt(Allocation("x", "ns/x", KUBELET, "n1", (), unread=unread))
    there = policy(profile, held, assigned=cards)

    with pytest.raises(RejectError, match="which the ledger gave to"):
        adjust(there, PodSandbox(uid="x"), plugged)


@pytest.mark.parametrize(
    "named",
    [
        (),
        ("NVIDIA_VISIBLE_DEVICES=void",),
        ("NVIDIA_VISIBLE_DEVICES=all",),
        (f"NVIDIA_VISIBLE_DEVICES={LIST_FOLDER}",),
    ],
)
def test_cards_that_a_device_plugin_passes_by_cdi_or_by_mounts_are_the_kubelets(
    profile: VendorProfile, named: tuple[str, ...]
) -> None:
    """The plugin's strategies without a card in the variable; the kubelet's ids say which."""
    other = PodSandbox(uid="x")
    free, taken, unknown = (
        policy(profile, ledger(HALF), passed=card) for card in ("GPU-0", "GPU-1", "GPU-unknown")
    )

    assert adjust(free, other, container(*named)) in (NO_ADJUSTMENT, VOID)
    for there in (taken, unknown):
        with pytest.raises(RejectError, match="which the ledger gave to ai/train"):
            adjust(there, other, container(*named))
    waiting = policy(profile, None, passed="GPU-0")
    assert adjust(waiting, other, container(*named)) is NoGrantYet.GRANT


def test_a_mount_names_a_card_as_the_variable_does(profile: VendorProfile) -> None:
    """NVIDIA's runtime takes the names of such mounts, the author's too."""
    there = policy(profile, ledger(HALF), passed="GPU-0")
    own, more = (Mount(f"{LIST_FOLDER}/{card}", "bind", "/dev/null") for card in ("GPU-0", "GPU-1"))
    given = container(f"NVIDIA_VISIBLE_DEVICES={LIST_FOLDER}")

    assert adjust(there, PodSandbox(uid="x"), changed(given, mounts=(own,))) == NO_ADJUSTMENT
    for pod in (PodSandbox(uid="x"), POD):
        with pytest.raises(RejectError, match="its mounts name GPU-1, which no device plugin"):
            adjust(there, pod, changed(given, mounts=(own, more)))


def test_a_node_without_known_cards_is_not_ours(profile: VendorProfile) -> None:
    there = replace(
        policy(profile, NodeLedger.of(Node("n1")), assigned="GPU-0"),
        equipment=lambda: Equipment({}, {"nvidia": profile}),
    )

    for variables in ("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=GPU-0", "A=1"):
        assert adjust(there, PodSandbox(uid="x"), container(variables)) == NO_ADJUSTMENT
    with pytest.raises(RejectError, match="admission saw a request"):
        adjust(there, PodSandbox(uid="x"), container(f"{allocation_record.MARK}=1"))


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

    there = policy(profile, held, assigned="GPU-0,GPU-1")

    for cards in ("GPU-0", "GPU-1,GPU-0"):
        given = container(f"NVIDIA_VISIBLE_DEVICES={cards}")
        assert adjust(there, ASKING, given) == NO_ADJUSTMENT


@pytest.mark.parametrize("written", AUTHORS)
@pytest.mark.parametrize("held", [None, ledger(uid="uid-1", unread="cards unknown")])
def test_an_author_opens_no_card_that_the_kubelet_did_not_give(
    profile: VendorProfile, held: NodeLedger | None, written: str
) -> None:
    there = policy(profile, held, assigned="GPU-0")
    void = Adjustment({"NVIDIA_VISIBLE_DEVICES": "void"})
    forged = f"NVIDIA_VISIBLE_DEVICES={written}"

    assert adjust(there, POD, container(forged)) == void
    assert adjust(there, POD, container("NVIDIA_VISIBLE_DEVICES=GPU-0", name="sidecar")) == void
    assert adjust(there, POD, container("CUDA_VERSION=9.0")) == void
    # The runtime has the author's value beside the device plugin's, and keeps the last one.
    with pytest.raises(RejectError, match="NVIDIA_VISIBLE_DEVICES is set 2 times"):
        adjust(there, POD, container("NVIDIA_VISIBLE_DEVICES=GPU-0", forged))


@pytest.mark.parametrize("name", ["CUDA_DEVICE_MEMORY_LIMIT_0", "NVIDIA_VISIBLE_DEVICES"])
def test_a_variable_that_the_author_repeats_keeps_no_other_value(
    profile: VendorProfile, name: str
) -> None:
    there = policy(profile, ledger(HALF))
    given = adjust(there, POD, container())
    assert isinstance(given, Adjustment)
    planned = f"{name}={given.env[name]}"

    with pytest.raises(RejectError, match=f"{name} is set 2 times"):
        adjust(there, POD, container(planned, f"{name}=0"))
    # The runtime keeps the last one, which is right; the first one must go.
    repaired = adjust(there, POD, container(f"{name}=0", planned))
    assert isinstance(repaired, Adjustment)
    assert name in repaired.env


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

    for env in ((f"{allocation_record.MARK}=1",), (f"{allocation_record.MARK}=1", cards)):
        with pytest.raises(RejectError, match="has no share for this container"):
            adjust(there, POD, container(*env, name="other"))


def test_an_admitted_container_with_an_unreadable_allocation_is_rejected(
    profile: VendorProfile,
) -> None:
    there = policy(profile, ledger(unread="broken"), assigned="GPU-1")
    plugged = container(f"{allocation_record.MARK}=1", "NVIDIA_VISIBLE_DEVICES=GPU-1")

    with pytest.raises(RejectError, match="does not know which cards this pod uses"):
        adjust(there, ASKING, container(f"{allocation_record.MARK}=1"))
    # Its device plugin has served it, as it did before Dragoman came.
    assert adjust(there, ASKING, plugged) == NO_ADJUSTMENT


def test_an_unreadable_allocation_makes_no_card_visible(profile: VendorProfile) -> None:
    there = policy(profile, ledger(unread="forged"))

    all_cards = adjust(there, ASKING, container("NVIDIA_VISIBLE_DEVICES=all"))

    assert all_cards == Adjustment({"NVIDIA_VISIBLE_DEVICES": "void"})
    with pytest.raises(RejectError, match="turn that gate off"):
        adjust(there, KOORDINATED, container("NVIDIA_VISIBLE_DEVICES=0,1"))


def test_a_container_of_koordinators_hook_is_left_alone_where_both_agree(
    profile: VendorProfile,
) -> None:
    there = policy(profile, ledger(HALF))
    set_by_it = container(
        "NVIDIA_VISIBLE_DEVICES=1", f"CUDA_DEVICE_MEMORY_LIMIT={GIB}", "CUDA_DEVICE_SM_LIMIT=50"
    )

    assert adjust(there, KOORDINATED, set_by_it) == NO_ADJUSTMENT
    assert audit(there, [KOORDINATED], [changed(set_by_it, state=ContainerState.RUNNING)])[0] == []


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


MODELS = (81559, 40960, 81559, 24564)
"""MiB of the four cards of the node of ``koordlet_hook.json``."""


@pytest.mark.parametrize(
    "seen",
    msgspec.json.decode(Path(__file__).with_name("koordlet_hook.json").read_bytes()),
    ids=lambda seen: f"{seen['pod']}, monitor {seen['gate HamiCoreVGPUMonitor']}",
)
def test_what_koordinators_hook_sets_agrees_with_what_the_ledger_grants(
    seen: dict[str, Any],
) -> None:
    """koordlet 1.8.0, GPUEnvInject, on pods that Dragoman placed: run on 28 November 2026.

    Without the label of the provider, or with all of the memory, it limits nothing: then the
    container is rejected.
    """
    ((annotation, text),) = seen["annotations"].items()
    (record,) = msgspec.json.decode(text)["gpu"]
    amounts = {key.partition("gpu-")[2]: parse_int(a) for key, a in record["resources"].items()}
    minor, compute = record["minor"], amounts.get("core", 0)
    there = Card(record["id"], "node", minor, "nvidia", "A", MODELS[minor] * MIB, 10)
    granted = limits(
        [Grant("main", there.uuid, amounts["memory"], compute)], "main", {there.uuid: there}
    )
    env = [f"{name}={value}" for name, value in seen["env"].items()]
    injected = injected_minors(PodSandbox("p", "pod", "uid", "ai", frozenset({annotation})), env)

    assert injected is not None
    assert injected.minors == str(minor)
    if seen["pod"] in ("coreonly", "nolabel"):
        with pytest.raises(InjectorConflictError, match="turn that gate off"):
            verify_injected(injected, granted, container(*env))
    else:
        verify_injected(injected, granted, container(*env))
        own = limit_env(granted.cards)
        assert {name: own[name] for name in (MEMORY, COMPUTE) if name in own}.items() <= seen[
            "env"
        ].items()


def test_a_container_may_have_a_share_where_it_was_granted_or_requested(
    profile: VendorProfile,
) -> None:
    there = policy(profile, ledger(HALF, Grant("lost", "GPU-9", GIB, 1)))

    assert there.may_have_share(there.facts(POD, container()))
    assert there.may_have_share(there.facts(POD, container(name="lost")))
    assert there.may_have_share(there.facts(changed(ASKING, uid="x"), container()))
    assert not there.may_have_share(there.facts(PodSandbox(uid="x"), container()))
