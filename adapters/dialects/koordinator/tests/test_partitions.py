"""Partitions of cards that the fabric of a node can join."""

import pytest

from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.tests.builders import (
    a_device,
    a_kube_node,
    a_pod,
    an_info,
    described,
    hopper,
    indexes,
    place,
    plugged,
    rejection,
    the_node,
    used,
)
from adapters.wire.kube import DeviceObject
from core.hardware.node import Partition
from core.ledger.node_ledger import NodeLedger
from core.requests.reason import Cause

QUADS = (
    '{"4":[{"minors":[0,1,2,3],"gpuLinkType":"HCCS","allocationScore":1},'
    '{"minors":[4,5,6,7],"gpuLinkType":"HCCS","allocationScore":1}]}'
)


def with_table(table: str, policy: str = "", model: str = "A100", vendor: str = "") -> DeviceObject:
    labels = {keys.MODEL: model, keys.VENDOR: vendor, keys.PARTITION_POLICY: policy}
    infos = [plugged(m, m // 4, f"pci{m // 2}") for m in range(8)]
    return a_device(*infos, labels=labels, annotations={keys.PARTITIONS: table})


def test_koordlets_table_is_read() -> None:
    description = described(with_table(QUADS, "Honor"))

    assert description.partitions == (Partition((0, 1, 2, 3)), Partition((4, 5, 6, 7)))
    assert description.partitions_bind
    assert description.problems == ()


@pytest.mark.parametrize("policy", ["Prefer", "", "honor"])
def test_a_table_that_is_preferred_does_not_bind(policy: str) -> None:
    assert not described(with_table(QUADS, policy)).partitions_bind


def test_the_policy_of_a_stated_table_is_the_devices_and_not_the_nodes() -> None:
    node = a_kube_node({keys.PARTITION_POLICY: "Honor"})

    assert not described(with_table(QUADS), node).partitions_bind


def test_bandwidth_and_score_may_be_written_as_text() -> None:
    table = '{"2":[{"minors":[1,0],"ringBusBandwidth":"200Gi","allocationScore":"3"}]}'

    description = described(with_table(table))

    assert description.partitions == (Partition((0, 1), 200 << 30, 3),)


@pytest.mark.parametrize(
    "ring",
    [
        '{"minors":[0]}',
        '{"minors":[0,0]}',
        '{"minors":[-1,0]}',
        '{"minors":[0,1],"ringBusBandwidth":"fast"}',
        '{"minors":[0,1],"allocationScore":"high"}',
    ],
)
def test_an_invalid_partition_is_ignored_and_reported(ring: str) -> None:
    description = described(with_table(f'{{"2":[{ring},{{"minors":[2,3]}}],"3":null}}'))

    assert [partition.indexes for partition in description.partitions] == [(2, 3)]
    (problem,) = description.problems
    assert "not a partition of 2" in problem


def test_a_partition_without_cards_is_reported() -> None:
    description = described(with_table('{"0":[{}]}'))

    assert description.partitions == ()
    assert "not a partition of 0" in description.problems[0]


def test_w31_an_unparsable_table_is_reported_and_still_binds() -> None:
    device = with_table("{", "Honor", model="H100")
    description = described(device)

    reason = rejection(a_pod({"gpu": 200}), NodeLedger.of(the_node(device)))

    assert description.partitions == ()
    assert "cannot be parsed" in description.problems[0]
    assert reason.cause is Cause.NO_PARTITION


def test_an_empty_table_is_no_table() -> None:
    assert described(with_table("null")).partitions == ()


@pytest.mark.parametrize(
    "model", ["H100", "H800", "H20", "H100-80GB-HBM3", "H20-3e", "NVIDIA-H800-SXM5"]
)
def test_w11_the_built_in_table_is_found_by_the_full_product_name(model: str) -> None:
    sizes = [len(partition.indexes) for partition in hopper(model=model).partitions]

    assert sizes == [1] * 8 + [2] * 4 + [4] * 2 + [8]
    assert hopper(model=model).partitions[8:12] == tuple(
        Partition((first, first + 1)) for first in (0, 2, 4, 6)
    )


@pytest.mark.parametrize("model", ["H200", "H100-PCIe", "H100-NVL", "H100PLUS", "A100", ""])
def test_cards_without_that_fabric_have_no_built_in_table(model: str) -> None:
    assert hopper(model=model).partitions == ()
    assert not hopper("Honor", model).partitions_bind


def test_another_vendors_h100_has_no_built_in_table() -> None:
    assert described(with_table("", model="H100", vendor="other")).partitions == ()


def test_the_policy_of_the_built_in_table_is_the_nodes() -> None:
    assert hopper("Honor").partitions_bind
    assert not hopper("Prefer").partitions_bind


def test_any_three_cards_are_rejected_where_the_table_binds() -> None:
    reason = rejection(a_pod({"gpu": 300}), NodeLedger.of(hopper("Honor")))

    assert reason.cause is Cause.NO_PARTITION


def test_w10_the_highest_score_is_chosen_and_no_other_where_restricted() -> None:
    table = (
        '{"2":[{"minors":[0,1],"allocationScore":1},{"minors":[2,3],"allocationScore":9},'
        '{"minors":[4,5],"allocationScore":5}]}'
    )
    node = the_node(with_table(table))
    restricted = {keys.PARTITION_SPEC: '{"allocatePolicy":"Restricted"}'}
    pod = a_pod({"gpu": 200})

    assert indexes(NodeLedger.of(node), place(pod, NodeLedger.of(node))) == [2, 3]
    assert indexes(used(node, 2), place(pod, used(node, 2))) == [4, 5]
    reason = rejection(a_pod({"gpu": 200}, annotations=restricted), used(node, 2))
    assert reason.cause is Cause.NO_PARTITION


def test_w17_a_shared_pod_breaks_the_least_of_the_table() -> None:
    ledger = used(hopper(), 5)

    assert indexes(ledger, place(a_pod({"gpu": 30}), ledger)) == [4]


def test_a_partition_of_missing_cards_is_never_chosen() -> None:
    infos = [an_info(minor) for minor in (0, 2, 3)]
    device = a_device(*infos, labels={keys.MODEL: "H100"})
    ledger = NodeLedger.of(the_node(device))

    assert indexes(ledger, place(a_pod({"gpu": 200}), ledger)) == [2, 3]
