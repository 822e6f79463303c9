"""What is left of a scheduler's message."""

import pytest

from adapters.answer.answer import LONGEST, OTHER_REASONS, scheduler_message
from adapters.wire.kube import (
    Amount,
    KubeNode,
    Metadata,
    NodeStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)


def said(
    message: str,
    scheduler: str | None = None,
    status: str = "False",
    node: KubeNode | None = None,
) -> str:
    conditions = (
        PodCondition("Ready", "False", "", "no"),
        PodCondition("PodScheduled", status, "Unschedulable", message),
    )
    spec = PodSpec(scheduler_name=scheduler)
    pod = Pod(Metadata("p"), spec, PodStatus("Pending", conditions=conditions))
    return scheduler_message(pod, node)


@pytest.mark.parametrize(
    ("message", "left"),
    [
        (
            "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available:"
            " 3 No preemption victims found for incoming pod.",
            "Insufficient cpu",
        ),
        (
            "0/9 nodes are available: 1 node(s) were unschedulable, 2 Insufficient memory,"
            " 3 Insufficient cpu, 3 node(s) had untolerated taint {dedicated: ml}.",
            "Insufficient memory, Insufficient cpu",
        ),
        (
            "0/4 nodes are available: 1 node(s) didn't match pod anti-affinity rules,"
            " 3 node(s) didn't match Pod's node affinity/selector.",
            "node(s) didn't match pod anti-affinity rules",
        ),
        ("0/2 nodes are available: 2 2 of 2 cards: memory 1 GiB short; 1 of 2 cards: x.", ""),
        ("0/2 nodes are unavailable: 2 some of 2 cards: memory short.", ""),
        (f"0/9 nodes are available: 2 no cards, 7 {OTHER_REASONS}.", ""),
        ("0/2 nodes are available: 2 no cards.", ""),
        ("0/2 nodes are available: 2 gang a/g of 3: 2 of 3 fit together.", ""),
        ("0/2 nodes are available: 2 gang a/g of 3: at least 2 of 3 fit together.", ""),
        ("0/2 nodes are available: 2 no cards: neither object Device nor its agent lists any.", ""),
        ("0/2 nodes are available: 2 16 cards asked for one container, node has 2.", ""),
        ("0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu.", ""),
        ("0/2 nodes are unavailable: 2 Insufficient volcano.sh/vgpu-memory: has 1, asks 2.", ""),
        ("In hyperNode s0: 0/2 nodes are unavailable: 2 Insufficient cpu.", "Insufficient cpu"),
        ("pod group is not ready, 1 Pending, 1 minAvailable", None),
        ("no cards", ""),
        (
            'running Bind plugin "DefaultBinder": admission webhook "bindings.dragoman.dev" denied'
            " the request: n1: 2 of 2 cards: memory 7424 MiB short",
            "",
        ),
        ('admission webhook "other.example.com" denied the request: no', None),
        ("", ""),
    ],
)
def test_what_dragoman_counts_itself_is_left_out(message: str, left: str | None) -> None:
    text = message if left is None else left

    assert said(message) == (f"kube-scheduler said: {text}" if text else "")


@pytest.mark.parametrize(
    ("resource", "stated", "left"),
    [
        ("nvidia.com/gpumem", {}, "Insufficient nvidia.com/gpumem (n states none)"),
        ("nvidia.com/gpu", {"nvidia.com/gpu": "8"}, "Insufficient nvidia.com/gpu (n states 8)"),
        ("volcano.sh/vgpu-memory", {"volcano.sh/vgpu-memory": 8192}, None),
        ("koordinator.sh/gpu-core", {"koordinator.sh/gpu-core": "0"}, None),
        ("metax-tech.com/sgpu", {"metax-tech.com/sgpu": "16"}, None),
    ],
)
def test_what_a_node_states_is_named_where_cards_fit_and_the_scheduler_counts_too_few(
    resource: str, stated: dict[str, Amount], left: str | None
) -> None:
    """HAMi issues 1429 and 2187: the cards are free, and the pod never runs."""
    node = KubeNode(Metadata("n"), status=NodeStatus(allocatable=stated))

    found = said(f"0/3 nodes are available: 2 Insufficient {resource}, 1 no cards.", node=node)

    text = left or f"Insufficient {resource} (n states {stated[resource]})"
    assert found == f"kube-scheduler said: {text}"


def test_another_scheduler_has_its_name_and_a_long_message_is_cut() -> None:
    found = said("x" * 5000, "volcano")

    assert found == f"volcano said: {'x' * (LONGEST - 1)}…"


def test_a_placed_pod_and_one_without_conditions_have_no_message() -> None:
    assert said("scheduled", status="True") == ""
    assert scheduler_message(Pod()) == ""
