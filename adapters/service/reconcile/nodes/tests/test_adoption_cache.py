"""A pod's annotations are read once, and again after a change of what they are read with."""

from dataclasses import replace

import msgspec
import pytest

from adapters.dialects.adoption import adopt, disagreements
from adapters.dialects.merge import read_node
from adapters.service.reconcile.nodes import node_reader as module
from adapters.service.reconcile.nodes.node_reader import AdoptionCache
from adapters.service.tests.builders import DIALECTS, a_node, a_pod, read_pod
from adapters.wire.kube import Pod
from core.hardware.node import Node

CHOICE = {"volcano.sh/vgpu-ids-new": "GPU-n1-0,NVIDIA,4000,0:"}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that were read, by name."""
    names: list[str] = []

    def counting(pod: Pod, *rest: object) -> object:
        names.append(pod.metadata.name)
        return adopt(pod, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "adopt", counting)
    return names


def a_described_node() -> Node:
    node, _ = read_node(a_node("n1"), None, DIALECTS)
    assert node is not None
    return node


def test_a_pod_is_read_once_while_each_reconciliation_reads_it(read: list[str]) -> None:
    node = a_described_node()
    pods = [read_pod(a_pod(name, annotations=CHOICE)) for name in ("a", "b")]
    first = AdoptionCache()
    allocations = [first.read(pod, node, DIALECTS) for pod in pods]

    second = AdoptionCache(first)
    again = [second.read(pod, replace(node), DIALECTS) for pod in pods for _ in range(2)]
    third = AdoptionCache(AdoptionCache(second))
    last = third.read(pods[0], node, DIALECTS)

    assert again == [allocations[0], allocations[0], allocations[1], allocations[1]]
    assert allocations[0] is not None
    assert allocations[0].grants[0].card == "GPU-n1-0"
    assert last == allocations[0]
    assert read == ["a", "b", "a"]


def test_a_pod_whose_status_alone_changed_is_not_read_again(read: list[str]) -> None:
    node, pod = a_described_node(), read_pod(a_pod(annotations=CHOICE))
    one = AdoptionCache()
    allocation = one.read(pod, node, DIALECTS)
    running = msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, resource_version="2"),
        status=msgspec.structs.replace(pod.status, phase="Running"),
    )

    assert AdoptionCache(one).read(running, node, DIALECTS) == allocation
    assert len(read) == 1


@pytest.mark.parametrize("phase", [None, "Pending", "Running", "Succeeded", "Failed"])
@pytest.mark.parametrize("said", [CHOICE, {}, {"volcano.sh/vgpu-ids-new": "?"}])
def test_what_a_pod_holds_does_not_depend_on_its_status(
    said: dict[str, str], phase: str | None
) -> None:
    node, pod = a_described_node(), read_pod(a_pod(annotations=said))
    status = msgspec.structs.replace(pod.status, phase=phase)
    other = msgspec.structs.replace(pod, status=status)

    assert adopt(other, node, DIALECTS) == adopt(pod, node, DIALECTS)
    assert disagreements(other, node, DIALECTS) == disagreements(pod, node, DIALECTS)


def test_a_changed_pod_node_or_policy_is_read_again(read: list[str]) -> None:
    node, pod = a_described_node(), read_pod(a_pod(annotations=CHOICE))
    one = AdoptionCache()
    one.read(pod, node, DIALECTS)

    other = AdoptionCache(one)
    allocations = [
        other.read(read_pod(a_pod()), node, DIALECTS),
        other.read(pod, replace(node, cards=()), DIALECTS),
        other.read(pod, node, (*DIALECTS,)[::-1]),
    ]

    assert len(read) == 4
    assert allocations[0] is not None
    assert allocations[0].unread is not None
