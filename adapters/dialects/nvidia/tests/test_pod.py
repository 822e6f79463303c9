"""What a pod of NVIDIA's device plugin requests."""

import pytest

from adapters.dialects.dialect import Defaults, DialectError, SchedulingPolicy
from adapters.dialects.nvidia.dialect import Nvidia
from adapters.dialects.tests.builders import bound
from adapters.wire.kube import Amount, Container, Pod, PodSpec, Resources
from core.hardware.card import Level, Mode
from core.requests.request import (
    ContainerRequest,
    NodeKey,
    Phase,
    PluginShare,
    TopologyConstraint,
)

GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"
NVIDIA = Nvidia.configured({}, Defaults())


def whole(name: str, cards: int, phase: Phase = Phase.MAIN) -> ContainerRequest:
    return ContainerRequest(
        name, cards, memory_percent=100, compute=100, exclusive=True, linked=True, phase=phase
    )


def a_container(name: str, limits: dict[str, Amount]) -> Container:
    return Container(name, Resources(limits=limits))


def test_a_number_of_cards_is_whole_cards_that_koordinator_or_hami_describes() -> None:
    request = NVIDIA.read_request(bound({GPU: "2"}))

    assert request.containers == (whole("c", 2),)
    assert (request.dialect, request.vendor) == ("nvidia", "nvidia")
    assert request.alternatives == {"koordinator", "hami"}
    assert request.modes == {Mode.SHARED, Mode.MPS, Mode.WHOLE}
    assert request.topology == TopologyConstraint((Level.NUMA, Level.PCIE), by_partition=True)
    assert request.plugin is PluginShare.CARD


@pytest.mark.parametrize(
    ("limits", "modes", "count"),
    [
        ({SHARED: 2}, {Mode.SHARED, Mode.MPS, Mode.WHOLE}, 2),
        ({MIG: 1}, {Mode.MIG}, 1),
        ({MIG: 1, "nvidia.com/mig-2g.10gb": 1}, {Mode.MIG}, 2),
        ({GPU: 1, MIG: 1}, {Mode.SHARED, Mode.MPS, Mode.WHOLE, Mode.MIG}, 2),
        ({GPU: 1, SHARED: 3}, {Mode.SHARED, Mode.MPS, Mode.WHOLE}, 4),
    ],
)
def test_shared_cards_and_mig_devices_are_chosen_by_the_kubelet(
    limits: dict[str, Amount], modes: set[Mode], count: int
) -> None:
    request = NVIDIA.read_request(bound(limits))

    assert request.plugin is PluginShare.DEVICE
    assert request.modes == modes
    assert request.containers == (whole("c", count),)


def test_every_container_has_its_own_devices_and_an_amount_of_0_is_none() -> None:
    spec = PodSpec(
        containers=(a_container("a", {GPU: 1}), a_container("b", {GPU: 0, SHARED: 0})),
        init_containers=(a_container("i", {GPU: 3}),),
    )

    request = NVIDIA.read_request(Pod(spec=spec))

    assert request.containers == (whole("i", 3, Phase.INIT), whole("a", 1))
    assert request.plugin is PluginShare.CARD


@pytest.mark.parametrize(
    ("limits", "matches"),
    [({GPU: 1}, True), ({SHARED: "x"}, True), ({MIG: 1}, True), ({GPU: "0"}, False), ({}, False)],
)
def test_a_pod_with_an_amount_other_than_0_matches(
    limits: dict[str, Amount],
    matches: bool,
) -> None:
    assert NVIDIA.matches(bound(limits)) is matches


@pytest.mark.parametrize("amount", ["many", "500m", -1])
@pytest.mark.parametrize("resource", [GPU, SHARED, MIG])
def test_an_invalid_amount_is_rejected_with_its_field(resource: str, amount: Amount) -> None:
    with pytest.raises(DialectError) as rejected:
        NVIDIA.read_request(bound({resource: amount}))

    assert rejected.value.field == f"spec.containers[c].resources.limits[{resource}]"


def test_the_operators_policy_orders_the_nodes() -> None:
    spread, packed = (
        Nvidia.configured({}, defaults).read_request(bound({GPU: 1})).ranking.nodes
        for defaults in (Defaults(), Defaults(node_policy=SchedulingPolicy.BINPACK))
    )

    assert (spread, packed) == ((NodeKey.EMPTIEST,), (NodeKey.FULLEST,))
