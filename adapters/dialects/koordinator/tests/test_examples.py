"""Koordinator's worked examples of topology and partitions, and where Dragoman chooses better.

Where the name of a test says so, Koordinator's own tests expect the same.
Source: koordinator-sh/koordinator pkg/scheduler/plugins/deviceshare/allocator_gpu_test.go.
"""

from collections.abc import Sequence

import pytest

from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.tests.builders import (
    KOORDINATOR,
    Amounts,
    a_device,
    a_koordinator,
    a_pod,
    cards,
    eight,
    gib,
    hopper,
    indexes,
    place,
    plugged,
    rejection,
    run,
    the_node,
    used,
)
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.reason import Cause

HALF: Amounts = {"gpu": 50}
NUMA = {keys.ALLOCATE_HINT: '{"gpu":{"requiredTopologyScope":"NUMANode"}}'}
MOST = a_koordinator({"scoringStrategy": {"type": "MostAllocated"}})


def two_complexes() -> Node:
    """Two cards on root complexes of their own."""
    return the_node(a_device(plugged(0, 0, "pci0"), plugged(1, 0, "pci1")))


def one_complex() -> Node:
    """Two cards on one root complex."""
    return the_node(a_device(plugged(0, 0, "pci0"), plugged(1, 0, "pci0")))


@pytest.mark.parametrize(
    ("full", "requested", "chosen"),
    [
        pytest.param([5], 1, [4], id="koordinator: one card beside the used one"),
        pytest.param([5], 2, [6, 7], id="koordinator: two cards of one root complex"),
        pytest.param([0], 3, [1, 2, 3], id="three of the NUMA node with three left"),
        pytest.param([], 5, [0, 1, 2, 3, 4], id="five over both NUMA nodes"),
    ],
)
def test_whole_cards_are_chosen_close_together(
    full: Sequence[int], requested: int, chosen: list[int]
) -> None:
    ledger = used(eight(), *full)

    assert indexes(ledger, place(a_pod({"gpu": 100 * requested}), ledger)) == chosen


def test_four_cards_of_one_numa_node_are_found_as_the_peer_finds_them() -> None:
    ledger = used(eight(), 5)
    pod = a_pod({"gpu": 400}, annotations=NUMA)

    assert indexes(ledger, place(pod, ledger)) == [0, 1, 2, 3]


def test_four_cards_of_one_numa_node_are_rejected_as_koordinator_rejects_them() -> None:
    reason = rejection(a_pod({"gpu": 400}, annotations=NUMA), used(eight(), 0, 5))

    assert reason.cause is Cause.NO_SCOPE


def test_packing_takes_the_fullest_card_as_in_the_peer() -> None:
    ledger = used(eight(), 5, half=[7])

    assert indexes(ledger, place(a_pod(HALF), ledger, MOST)) == [7]


def test_packing_opens_the_card_beside_the_used_one_as_in_the_peer() -> None:
    ledger = used(eight(), 5)

    assert indexes(ledger, place(a_pod(HALF), ledger, MOST)) == [4]


def test_spreading_opens_the_card_beside_the_used_one() -> None:
    ledger = used(eight(), 5, half=[7])

    assert indexes(ledger, place(a_pod(HALF), ledger)) == [4]


@pytest.mark.parametrize(
    "node", [one_complex(), two_complexes(), cards(2)], ids=["one", "own", "unknown"]
)
def test_w12_spreading_does_not_depend_on_the_motherboard(node: Node) -> None:
    ledger = used(node, half=[0])

    assert indexes(ledger, place(a_pod(HALF), ledger)) == [1]


def test_w4_an_exclusive_card_has_no_other_pod_however_small_its_request_is() -> None:
    tiny = a_pod({"gpu-memory": "800Mi"})
    ledger = run(NodeLedger.of(two_complexes()), tiny)

    assert indexes(ledger, place(tiny, NodeLedger.of(two_complexes()))) == [0]
    assert indexes(ledger, place(a_pod({"gpu": 100}), ledger)) == [1]
    reason = rejection(a_pod({"gpu": 200}), ledger)
    assert reason.text() == "1 of 2 cards: in use, and asked for exclusively"


def test_w5_bytes_and_percents_are_one_sum() -> None:
    ledger = run(NodeLedger.of(cards(1)), *(a_pod({"gpu-memory": "6451Mi"}) for _ in range(10)))

    reason = rejection(a_pod({"gpu-memory-ratio": 30}), ledger)

    assert ledger.usages[0].memory == 64510 << 20
    assert reason.text() == "1 of 1 cards: memory 7166 MiB short"


def test_w6_all_compute_is_not_allocated_beside_a_share_without_compute() -> None:
    ledger = run(NodeLedger.of(cards(1)), a_pod({"gpu-memory": "8Gi"}))

    reason = rejection(a_pod({"gpu-core": 100, "gpu-memory": "8Gi"}), ledger)

    assert reason.text() == "1 of 1 cards: in use, and asked for exclusively"


def test_w19_a_pod_of_the_same_name_is_another_pod() -> None:
    first, second = a_pod({"gpu": 30}), a_pod({"gpu": 30})

    ledger = run(NodeLedger.of(cards(1)), first, second)

    assert ledger.usages[0].memory == 2 * (gib(80) * 30 // 100)
    assert len(ledger.allocations) == 2


@pytest.mark.parametrize(
    ("full", "requested", "chosen"),
    [
        pytest.param([2, 3], 2, [0, 1], id="koordinator: the pair whose other half is gone"),
        pytest.param([4], 2, [6, 7], id="koordinator: the pair of the broken quad"),
        pytest.param([4], 1, [5], id="koordinator: the rest of the broken pair"),
        pytest.param([0, 4], 2, [2, 3], id="the first of two that are alike"),
    ],
)
def test_partitions_are_chosen_so_that_large_ones_stay_free(
    full: Sequence[int], requested: int, chosen: list[int]
) -> None:
    ledger = used(hopper("Honor"), *full)

    assert indexes(ledger, place(a_pod({"gpu": 100 * requested}), ledger, KOORDINATOR)) == chosen
