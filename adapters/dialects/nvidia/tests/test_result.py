"""Records of pods of NVIDIA's device plugin: those of the components that describe the cards."""

from dataclasses import replace

import pytest

from adapters.dialects.adoption import adopt
from adapters.dialects.dialect import NO_ALLOCATION, NO_RESULT, Defaults, NodeDescription
from adapters.dialects.nvidia.dialect import Nvidia
from adapters.dialects.tests.builders import ALL, bound
from adapters.wire.kube import Amount, KubeNode, Metadata, Pod
from core.feasibility.fit import fit
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant, Placement

GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"
KOORDINATOR = "scheduling.koordinator.sh/device-allocated"
HAMI = "hami.io/vgpu-devices-allocated"
NVIDIA = Nvidia.configured({}, Defaults())
HAMI_NODE = KubeNode(Metadata("n", annotations={"hami.io/node-nvidia-register": "[]"}))


def two_cards_of(*dialects: str) -> Node:
    card = Card("u0", "n", 0, "nvidia", "A100", 40 * GIB, 10, dialects=frozenset(dialects))
    return Node("n", (card, replace(card, uuid="u1", index=1)))


def written(pod: Pod, node: Node) -> dict[str, str]:
    request = NVIDIA.read_request(pod)
    placement = fit(request, NodeLedger.of(node))
    assert isinstance(placement, Placement)
    return dict(NVIDIA.write_result(pod, request, placement, node, 0).annotations)


def read_back(pod: Pod, texts: dict[str, str], node: Node) -> tuple[Grant, ...]:
    limits = pod.spec.containers[0].resources.limits
    found = adopt(bound(limits or {}, texts), node, ALL)
    assert found is not None
    assert (found.dialect, found.unread) == ("nvidia", None)
    return found.grants


@pytest.mark.parametrize(
    ("dialects", "records"),
    [
        (("koordinator",), {KOORDINATOR}),
        (("hami",), {HAMI}),
        (("hami", "koordinator"), {KOORDINATOR, HAMI}),
    ],
)
def test_whole_cards_get_the_record_of_each_dialect_that_describes_them(
    dialects: tuple[str, ...], records: set[str]
) -> None:
    node, pod = two_cards_of(*dialects), bound({GPU: 2})

    texts = written(pod, node)

    assert texts.keys() & {KOORDINATOR, HAMI} == records
    assert texts.keys() <= NVIDIA.result_keys
    assert read_back(pod, texts, node) == tuple(
        Grant("c", uuid, 40 * GIB, 100, exclusive=True) for uuid in ("u0", "u1")
    )


def test_a_node_of_which_the_pod_gets_no_card_leaves_it_without_a_record() -> None:
    pod, nothing = bound({GPU: 1}), Placement("n", ())
    request = NVIDIA.read_request(pod)

    assert NVIDIA.write_result(pod, request, nothing, Node("n", ()), 0) == NO_RESULT


@pytest.mark.parametrize("limits", [{SHARED: 1}, {MIG: 1}, {GPU: 1, MIG: 1}])
def test_devices_that_the_kubelet_chooses_have_no_record_and_none_is_read(
    limits: dict[str, Amount],
) -> None:
    node, texts = two_cards_of("koordinator"), {KOORDINATOR: "{}", HAMI: "u0,NVIDIA,40960,100:;"}
    pod = bound(limits, texts)
    request = NVIDIA.read_request(pod)
    placement = Placement("n", (Grant("c", "u0", 40 * GIB, 100, exclusive=True),))

    assert NVIDIA.write_result(pod, request, placement, node, 0) == NO_RESULT
    assert not NVIDIA.has_result(pod)
    assert NVIDIA.read_adopted(pod, node) is None


def test_a_record_that_the_request_contradicts_counts_as_its_scheduler_wrote_it() -> None:
    node = two_cards_of("koordinator")
    texts = written(bound({GPU: 1}), node)

    found = NVIDIA.read_adopted(bound({GPU: 1}, texts), node)

    assert found is not None
    assert [(grant.container, grant.card) for grant in found.grants] == [("c", "u0")]
    assert NVIDIA.read_adopted(bound({GPU: 0}), node) is NO_ALLOCATION
    assert NVIDIA.read_adopted(bound({GPU: 1}), node) is None


def test_the_lock_of_a_node_is_for_whole_cards_that_hamis_plugin_serves() -> None:
    card, device = (NVIDIA.read_request(bound(limits)) for limits in ({GPU: 1}, {SHARED: 1}))

    assert NVIDIA.needs_node_lock(card, HAMI_NODE)
    assert not NVIDIA.needs_node_lock(card, KubeNode())
    assert not NVIDIA.needs_node_lock(device, HAMI_NODE)


def test_the_device_plugin_describes_no_cards() -> None:
    assert NVIDIA.read_node(HAMI_NODE, None) == NodeDescription()
    assert NVIDIA.resources(two_cards_of("hami").cards) == {}
