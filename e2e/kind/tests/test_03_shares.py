"""Pods with shares under kubeadm's kube-scheduler, from pending to a container to a free card."""

from e2e.kind import cards
from e2e.kind.pods import (
    create,
    delete,
    devices,
    environment,
    granted,
    koordinator,
    pod,
    used,
    volcano,
)
from e2e.kind.shell import eventually, get, wait_for

MIB = 2**20


def test_a_share_is_bound_injected_and_released() -> None:
    create(pod("first", volcano(8000, cores=25)))

    wait_for("pod/first", "--for=condition=Ready")

    (grant,) = granted()["first"]
    found = get("pod first")
    assert found["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] == (
        f"{grant['card']},NVIDIA,8000,25:"
    )
    inside = environment("first")
    assert inside["NVIDIA_VISIBLE_DEVICES"] == grant["card"]
    assert inside["CUDA_DEVICE_MEMORY_LIMIT_0"] == "8000m"
    assert inside["CUDA_DEVICE_SM_LIMIT"] == "25"
    index = grant["card"].rpartition("-")[2]
    assert {each for each in devices("first") if each.startswith("nvidia")} == {
        f"nvidia{index}",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia-uvm-tools",
    }

    delete("first")

    eventually(30, lambda: used() == {})


def test_pods_of_two_dialects_share_one_card(workers: list[str]) -> None:
    node = workers[0]
    create(pod("whole", volcano(cards.MEMORY_MIB), node=node))
    wait_for("pod/whole", "--for=condition=Ready")
    create(
        pod("volcano", volcano(8000, cores=25), node=node),
        pod("koordinator", koordinator(50), node=node),
    )
    wait_for("pod/volcano pod/koordinator", "--for=condition=Ready")

    grants = granted(node)
    (shared,) = {grant["card"] for name in ("volcano", "koordinator") for grant in grants[name]}
    assert used()[shared] == (8000 + cards.MEMORY_MIB // 2) * MIB
    assert grants["whole"][0]["card"] != shared
    assert environment("koordinator")["NVIDIA_VISIBLE_DEVICES"] == shared
    assert environment("volcano")["NVIDIA_VISIBLE_DEVICES"] == shared

    # 25 percent of compute are free, and 4288 MiB: room for one, not for the other.
    create(pod("late", koordinator(25), node=node))
    eventually(
        60, lambda: "memory" in str(get("events", "--field-selector=involvedObject.name=late"))
    )
    assert "nodeName" not in get("pod late")["spec"]

    delete("volcano")

    wait_for("pod/late", "--for=condition=Ready")
    delete("whole", "koordinator", "late")
    eventually(30, lambda: used() == {})
