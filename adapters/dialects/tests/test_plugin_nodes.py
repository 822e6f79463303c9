"""What device plugins and NVIDIA's labels state of a node."""

import pytest

from adapters.dialects.device_plugins import PluginNode, read_plugin_node
from adapters.dialects.formats.nvidia_words import GPU
from adapters.wire.kube import Amount, KubeNode, Metadata, NodeStatus
from core.hardware.quantity import MIB

WHOLE = {f"{GPU}.count": "8", f"{GPU}.replicas": "1", f"{GPU}.memory": "81920"}
SLICED = {f"{GPU}.count": "2", f"{GPU}.replicas": "4", f"{GPU}.sharing-strategy": "time-slicing"}
MIG = "nvidia.com/mig-3g.20gb"


def stated(
    amounts: dict[str, Amount] | None, labels: dict[str, str], healthy: dict[str, Amount] | None
) -> PluginNode | None:
    status = NodeStatus(capacity=amounts, allocatable=amounts if healthy is None else healthy)
    return read_plugin_node(KubeNode(Metadata(name="n", labels=labels), status=status))


def read(
    amounts: dict[str, Amount], labels: dict[str, str], healthy: dict[str, Amount] | None = None
) -> PluginNode:
    found = stated(amounts, labels, healthy)
    assert found is not None
    return found


def test_a_node_without_a_resource_of_a_plugin_is_none() -> None:
    assert stated({"cpu": "4", "volcano.sh/vgpu-number": "10"}, WHOLE, None) is None
    assert stated(None, {}, None) is None


def test_whole_cards_have_a_product_memory_and_a_number_of_cards() -> None:
    found = read({GPU: "8", "cpu": "4"}, {**WHOLE, f"{GPU}.product": "NVIDIA-A100"})

    resource = found.resources[GPU]
    assert (resource.allocatable, resource.capacity, found.cards) == (8, 8, 8)
    assert (resource.product, resource.memory, resource.replicas, resource.sharing) == (
        "NVIDIA-A100", 81920 * MIB, 1, "",
    )  # fmt: skip
    assert found.problems == ()


def test_a_shared_product_is_named_without_the_suffix_of_sharing() -> None:
    found = read({GPU: 8}, {**SLICED, f"{GPU}.product": "Tesla-T4-SHARED"})

    resource = found.resources[GPU]
    assert (resource.product, resource.replicas, resource.sharing) == (
        "Tesla-T4", 4, "time-slicing",
    )  # fmt: skip
    assert (found.cards, found.problems) == (2, ())


def test_a_renamed_resource_has_the_labels_of_its_first_name() -> None:
    found = read({GPU: "0", f"{GPU}.shared": "8"}, SLICED)

    assert [*found.resources] == [f"{GPU}.shared"]
    assert found.resources[f"{GPU}.shared"].replicas == 4
    assert found.problems == ()


def test_a_number_of_mig_devices_is_not_a_number_of_cards() -> None:
    labels = {f"{GPU}.count": "14", "nvidia.com/mig.strategy": "single"}

    by_attribute = read({GPU: "14"}, {**labels, f"{GPU}.slices.gi": "1"})
    by_product = read({GPU: "14"}, {**labels, f"{GPU}.product": "A100-MIG-1g.5gb"})

    assert (by_attribute.cards, by_product.cards) == (None, None)
    assert (by_attribute.problems, by_attribute.mig_strategy) == ((), "single")


def test_with_cards_of_several_models_the_label_counts_those_of_one() -> None:
    """So of a healthy node; see newGPULabelers in internal/lm/mig-strategy.go."""
    whole, sliced = read({GPU: "12"}, WHOLE), read({GPU: "12"}, SLICED)

    assert (whole.problems, sliced.problems) == ((), ())
    assert (whole.cards, sliced.cards) == (None, None)
    assert read({GPU: "13"}, SLICED).problems == (
        f"label {GPU}.count=2 x {GPU}.replicas=4 contradicts the capacity, 13 {GPU}",
    )
    single = {f"{GPU}.count": "7", f"{GPU}.slices.gi": "1"}
    assert read({GPU: "14"}, single).problems == (
        f"label {GPU}.count=7 contradicts the capacity, 14 {GPU}",
    )


def test_with_strategy_mixed_cards_in_mig_mode_are_not_in_the_resource() -> None:
    labels = {f"{GPU}.count": "2", "nvidia.com/mig.strategy": "mixed", f"{MIG}.count": "2"}

    for whole in ("0", "1", "3"):
        assert read({GPU: whole, MIG: "2"}, labels).problems == ()
    assert read({GPU: "1", MIG: "2"}, labels).cards == 2
    assert read({GPU: "1", MIG: "1"}, labels).problems == (
        f"label {MIG}.count=2 contradicts the capacity, 1 {MIG}",
    )


def test_an_unhealthy_card_does_not_contradict_the_labels() -> None:
    found = read({GPU: "8"}, WHOLE, {GPU: "7"})

    assert (found.resources[GPU].allocatable, found.resources[GPU].capacity) == (7, 8)
    assert found.problems == ()


def test_a_node_may_state_allocatable_amounts_alone() -> None:
    assert read({}, WHOLE, {GPU: "8"}).resources[GPU].capacity == 8


@pytest.mark.parametrize(
    ("amount", "labels", "problem"),
    [
        ("4", WHOLE, f"label {GPU}.count=8 contradicts the capacity, 4 {GPU}"),
        (
            "2", SLICED,
            f"label {GPU}.count=2 x {GPU}.replicas=4 contradicts the capacity, 2 {GPU}",
        ),
        ("8", {**WHOLE, f"{GPU}.memory": "80GiB"},
         f"label {GPU}.memory: '80GiB' is not a whole number"),
        ("8", {**WHOLE, f"{GPU}.memory": "9" * 30},
         f"label {GPU}.memory: '{'9' * 30}' is not a whole number"),
        ("8", {f"{GPU}.count": "-1"}, f"label {GPU}.count: '-1' is not a whole number"),
        ("8", {**SLICED, f"{GPU}.sharing-strategy": "none"},
         f"labels {GPU}.replicas=4 and {GPU}.sharing-strategy=none contradict"),
        ("2", {f"{GPU}.product": "NVIDIA-A100-MIG-INVALID", f"{GPU}.count": "0"},
         f"label {GPU}.product: NVIDIA-A100-MIG-INVALID: MIG strategy single needs the same MIG"
         " devices"),
    ],
)  # fmt: skip
def test_labels_that_contradict_are_a_problem(
    amount: str, labels: dict[str, str], problem: str
) -> None:
    assert read({GPU: amount}, labels).problems == (problem,)


@pytest.mark.parametrize("amount", ["many", "1500m", "-1", "1E"])
def test_an_amount_that_is_no_whole_number_is_a_problem_and_no_device(amount: str) -> None:
    found = read({"amd.com/gpu": amount, GPU: "1"}, {})

    assert [*found.resources] == [GPU]
    (problem,) = found.problems
    assert problem == "the amount of amd.com/gpu is not a whole number of 9 digits at most"


def test_an_empty_amount_with_labels_of_cards_is_a_problem() -> None:
    found = read({GPU: "0"}, WHOLE)

    assert dict(found.resources) == {}
    assert found.problems == (f"label {GPU}.count=8 contradicts the capacity, 0 {GPU}",)


@pytest.mark.parametrize("operand", ["device-plugin", "operands"])
def test_where_the_operator_runs_no_device_plugin_an_empty_amount_is_right(operand: str) -> None:
    """The kubelet states 0 from then on; see docs/guides/nvidia-gpu-operator.md."""
    off = {f"nvidia.com/gpu.deploy.{operand}": "false"}

    assert read({GPU: "0"}, WHOLE | off).problems == ()
    assert read({GPU: "4"}, WHOLE | off).problems != ()
