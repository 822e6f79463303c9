from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from adapters.agent.hardware.model import Instance
from adapters.agent.injection.adjustment import PartitioningError, plan_share, plan_void
from adapters.agent.injection.plan import AdjustmentPlan
from adapters.agent.injection.profiles import NVIDIA, HamiCore, Preload, VendorProfile
from adapters.agent.nri.model import LinuxDevice, Mount
from adapters.agent.tests.builders import (
    MEMORY,
    POD,
    card,
    container,
    equipment,
    limit,
    limits,
)
from core.hardware.mig import MigKey, Slice
from core.hardware.quantity import GIB, MIB
from core.requests.limits import GrantError

SLICE = Slice("1g.10gb", 2, 1, 10 * GIB, 14, "group1", 2)
ENV_PRELOAD = replace(NVIDIA, hami=HamiCore(preload=Preload.VARIABLE))


def test_a_shared_card_has_its_limits_with_and_without_a_number() -> None:
    plan = plan_share(limits(limit(1, 3000 * MIB)), POD, container(), equipment())

    assert plan.env == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_MEMORY_LIMIT": str(3000 * MIB),
        "CUDA_DEVICE_SM_LIMIT_0": "50",
        "CUDA_DEVICE_SM_LIMIT": "50",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/vgpu/uid-1_main.cache",
    }
    assert plan.devices == ("/dev/nvidia1", "/dev/nvidiactl")
    assert [mount.destination for mount in plan.mounts] == [
        "/usr/local/vgpu/libvgpu.so",
        "/tmp/vgpu",
        "/tmp/vgpulock",
        "/etc/ld.so.preload",
    ]
    assert plan.scratch_dir == "/usr/local/vgpu/containers/uid-1_main"


def test_memory_that_is_no_whole_mebibyte_is_limited_to_the_byte() -> None:
    plan = plan_share(limits(limit(0, GIB + 1)), POD, container(), equipment())

    assert plan.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == str(GIB + 1)


def test_different_limits_have_the_cards_numbers_in_the_container() -> None:
    plan = plan_share(
        limits(limit(3, 2 * GIB, 20), limit(1, GIB, 10)), POD, container(), equipment()
    )

    assert plan.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-3"
    assert plan.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1024m"
    assert plan.env["CUDA_DEVICE_MEMORY_LIMIT_1"] == "2048m"
    assert plan.env["CUDA_DEVICE_SM_LIMIT_0"] == "10"
    assert plan.env["CUDA_DEVICE_SM_LIMIT_1"] == "20"
    assert plan.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "CUDA_DEVICE_MEMORY_LIMIT" not in plan.env
    assert "CUDA_DEVICE_SM_LIMIT" not in plan.env


def test_the_order_is_that_of_the_hardware_where_a_dialect_counts_differently() -> None:
    there = equipment(replace(card(0), uuid="GPU-1"), replace(card(1), uuid="GPU-0"))

    plan = plan_share(limits(limit(0, GIB, 10), limit(1, 2 * GIB, 20)), POD, container(), there)

    assert plan.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-0"
    assert plan.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2048m"
    assert plan.devices[:2] == ("/dev/nvidia0", "/dev/nvidia1")


def test_a_limit_of_one_card_never_applies_to_a_card_without_one() -> None:
    plan = plan_share(limits(limit(0, GIB, 50), limit(1, MEMORY, 0)), POD, container(), equipment())

    assert "CUDA_DEVICE_MEMORY_LIMIT" not in plan.env
    assert "CUDA_DEVICE_SM_LIMIT" not in plan.env
    assert plan.env["CUDA_DEVICE_MEMORY_LIMIT_1"] == f"{MEMORY // MIB}m"
    assert "CUDA_DEVICE_SM_LIMIT_1" not in plan.env


def test_a_compute_share_of_a_whole_card_sees_all_its_memory() -> None:
    """Without a limit the library says that a card has 0 bytes."""
    plan = plan_share(limits(limit(0, MEMORY, 50)), POD, container(), equipment())

    assert plan.env["CUDA_DEVICE_SM_LIMIT"] == "50"
    assert plan.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{MEMORY // MIB}m"
    assert plan.env["CUDA_DEVICE_MEMORY_LIMIT"] == str(MEMORY)


def test_a_whole_card_needs_nothing_that_fails_in_a_musl_image() -> None:
    plan = plan_share(limits(limit(0, MEMORY, 100)), POD, container(), equipment())

    assert plan.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}
    assert plan.mounts == ()


def test_more_cards_than_the_library_can_limit_are_rejected() -> None:
    cards = [card(index) for index in range(17)]

    with pytest.raises(GrantError, match="at most 16 cards"):
        plan_share(limits(*(limit(i) for i in range(17))), POD, container(), equipment(*cards))


WEAKER = (
    "ACTIVE_OOM_KILLER=false",
    "CUDA_DISABLE_CONTROL=true",
    "CUDA_REDIRECT=/tmp/other.so",
    "GPU_CORE_UTILIZATION_POLICY=disable",
)


def test_a_variable_of_the_author_that_weakens_the_limits_is_replaced() -> None:
    before = plan_share(limits(limit(0)), POD, container(), equipment()).env
    after = plan_share(limits(limit(0)), POD, container(*WEAKER, "OTHER=1"), equipment()).env

    assert after == {
        **before,
        "ACTIVE_OOM_KILLER": "true",
        "CUDA_DISABLE_CONTROL": "false",
        "CUDA_REDIRECT": "",
        "GPU_CORE_UTILIZATION_POLICY": "default",
    }


def test_the_operators_profile_may_still_set_such_a_variable() -> None:
    profile = replace(NVIDIA, env={"GPU_CORE_UTILIZATION_POLICY": "force"})

    plan = plan_share(limits(limit(0)), POD, container(*WEAKER), equipment(nvidia=profile))

    assert plan.env["GPU_CORE_UTILIZATION_POLICY"] == "force"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), "/usr/local/vgpu/libvgpu.so"),
        (("LD_PRELOAD=/a.so:/b.so",), "/usr/local/vgpu/libvgpu.so:/a.so:/b.so"),
        (("LD_PRELOAD=/a.so /usr/local/vgpu/libvgpu.so",), "/usr/local/vgpu/libvgpu.so:/a.so"),
    ],
)
def test_what_the_author_preloads_stays_preloaded(before: tuple[str, ...], after: str) -> None:
    plan = plan_share(limits(limit(0)), POD, container(*before), equipment(nvidia=ENV_PRELOAD))

    assert plan.env["LD_PRELOAD"] == after
    assert "/etc/ld.so.preload" not in [mount.destination for mount in plan.mounts]


def test_a_slice_is_visible_by_its_instance() -> None:
    made = Instance("MIG-7", ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3"))
    there = equipment(instances={MigKey("GPU-0", "1g.10gb", 2): made})

    plan = plan_share(limits(limit(0, 10 * GIB, 14, SLICE)), POD, container(), there)

    assert plan.env == {"NVIDIA_VISIBLE_DEVICES": "MIG-7"}
    assert plan.devices == ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidiactl")
    assert plan.mounts == ()


def test_several_slices_of_a_card_are_visible_by_their_instances() -> None:
    other = replace(SLICE, start=4)
    there = equipment(
        instances={
            MigKey("GPU-0", "1g.10gb", 2): Instance("MIG-7", ("/dev/nvidia0", "/dev/cap3")),
            MigKey("GPU-0", "1g.10gb", 4): Instance("MIG-8", ("/dev/nvidia0", "/dev/cap6")),
        }
    )
    both = limits(limit(0, 10 * GIB, 14, SLICE), limit(0, 10 * GIB, 14, other))

    plan = plan_share(both, POD, container(), there)

    assert plan.env == {"NVIDIA_VISIBLE_DEVICES": "MIG-7,MIG-8"}
    assert plan.devices == ("/dev/nvidia0", "/dev/cap3", "/dev/cap6", "/dev/nvidiactl")


def test_a_slice_without_its_mig_instance_is_rejected() -> None:
    with pytest.raises(GrantError, match=r"has no 1g\.10gb instance at 2"):
        plan_share(limits(limit(0, 10 * GIB, 14, SLICE)), POD, container(), equipment())


def test_a_slice_is_pending_while_its_instance_is_created_and_rejected_where_that_failed() -> None:
    asked = limits(limit(0, 10 * GIB, 14, SLICE))
    making = changed(equipment(), creates_instances=True)
    failed = changed(
        making, failed_instances={MigKey("GPU-0", "1g.10gb", 2): "a process runs on it"}
    )

    with pytest.raises(PartitioningError):
        plan_share(asked, POD, container(), making)
    with pytest.raises(GrantError, match="at 2: a process runs on it") as error:
        plan_share(asked, POD, container(), failed)

    assert not isinstance(error.value, PartitioningError)


def test_a_card_of_another_node_is_rejected() -> None:
    with pytest.raises(GrantError, match="GPU-9 is not on this node"):
        plan_share(limits(limit(9)), POD, container(), equipment())


def test_a_card_of_a_vendor_without_profile_is_rejected() -> None:
    with pytest.raises(GrantError, match="no profile for vendor huawei"):
        plan_share(limits(limit(0)), POD, container(), equipment(card(0, "huawei")))


def test_a_vendor_with_its_own_node_components_gets_nothing() -> None:
    plan = plan_share(limits(limit(0)), POD, container(), equipment(card(0, "metax")))

    assert plan == AdjustmentPlan({"NVIDIA_VISIBLE_DEVICES": "void"})


def test_no_share_means_no_card_whatever_the_image_sets() -> None:
    assert plan_void(equipment()) == AdjustmentPlan({"NVIDIA_VISIBLE_DEVICES": "void"})


def test_a_runtime_with_cdi_gets_the_name_of_the_card_and_no_device_nodes() -> None:
    profile = replace(NVIDIA, cdi="nvidia.com/gpu={uuid}")

    new = plan_share(limits(limit(0)), POD, container(), equipment(nvidia=profile, cdi=True))
    old = plan_share(limits(limit(0)), POD, container(), equipment(nvidia=profile, cdi=False))

    assert (new.cdi, new.devices) == (("nvidia.com/gpu=GPU-0",), ())
    assert old.cdi == ()
    assert "/dev/nvidia0" in old.devices


def test_a_profile_of_another_vendor_adds_what_its_cards_need() -> None:
    metax = VendorProfile(
        visible_env="METAX",
        visible_value="{indexes}",
        card_devices=("/dev/dri/card{index}",),
        env={"MIB": "{memories}", "PERCENT": "{computes}"},
        mounts=(Mount("/opt/mx", "bind", "/opt/mx", ("ro",)),),
    )
    there = changed(equipment(card(0, "metax"), card(2, "metax")), profiles={"metax": metax})

    plan = plan_share(limits(limit(0, GIB, 10), limit(2, GIB, 20)), POD, container(), there)

    assert plan.env == {"METAX": "0,2", "MIB": "1024,1024", "PERCENT": "10,20"}
    assert plan.devices == ("/dev/dri/card0", "/dev/dri/card2")
    assert plan.mounts == metax.mounts


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden", "a b"])
def test_a_name_that_would_leave_the_folder_is_rejected(name: str) -> None:
    with pytest.raises(GrantError, match="is not usable in the name of a folder"):
        plan_share(limits(limit(0)), changed(POD, uid=name), container(), equipment())


def test_a_plan_leaves_out_what_the_container_has() -> None:
    plan = plan_share(limits(limit(0)), POD, container(), equipment())
    env = tuple(f"{name}={value}" for name, value in plan.env.items())
    devices = tuple(
        LinuxDevice(path, "c", 1, 1) for path in (*plan.devices, *plan.optional_devices)
    )

    rest = plan.minus_present(container(*env, mounts=plan.mounts, devices=devices))

    assert (rest.env, rest.mounts, rest.devices, rest.optional_devices) == ({}, (), (), ())


def test_a_value_that_differs_is_replaced() -> None:
    plan = AdjustmentPlan({"A": "1", "B": "2"})

    assert plan.minus_present(container("A=1", "B=3", "A=1")).env == {"B": "2"}


@given(st.dictionaries(st.integers(0, 3), st.tuples(st.integers(1, MEMORY), st.integers(0, 100))))
def test_every_card_gets_its_own_limit_and_no_other(bounds: dict[int, tuple[int, int]]) -> None:
    if not bounds:
        return
    held = limits(*(limit(index, *bound) for index, bound in bounds.items()))

    plan = plan_share(held, POD, container(), equipment())

    env, is_loaded = plan.env, bool(plan.scratch_dir)
    assert is_loaded == any(each.memory_limited or each.compute_limited for each in held.cards)
    assert ("CUDA_DEVICE_ORDER" in env) == (is_loaded and len(bounds) > 1)
    for place, index in enumerate(sorted(bounds)):
        memory, compute = bounds[index]
        text = env.get(
            f"CUDA_DEVICE_MEMORY_LIMIT_{place}", env.get("CUDA_DEVICE_MEMORY_LIMIT", "0")
        )
        found = int(text[:-1]) * MIB if text.endswith("m") else int(text)
        assert found == (memory if is_loaded else 0)
        percent = env.get(f"CUDA_DEVICE_SM_LIMIT_{place}", env.get("CUDA_DEVICE_SM_LIMIT", "0"))
        assert int(percent) == (compute if 0 < compute < 100 else 0)
