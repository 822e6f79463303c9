"""Annotations by which a pod influences the choice of its cards."""

import pytest

from adapters.dialects.dialect import DialectError
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.tests.builders import (
    KOORDINATOR,
    Amounts,
    a_pod,
    eight,
    hopper,
    indexes,
    place,
    rejection,
    used,
)
from core.hardware.card import Level
from core.ledger.node_ledger import NodeLedger
from core.requests.reason import Cause
from core.requests.request import Request

TWO: Amounts = {"gpu": 200}


def read(requested: Amounts, **texts: str) -> Request:
    """Keyword arguments are annotations, named as in ``keys``."""
    annotations = {str(getattr(keys, name)): text for name, text in texts.items()}
    return KOORDINATOR.read_request(a_pod(requested, annotations=annotations))


@pytest.mark.parametrize(
    ("scope", "level"), [("PCIe", Level.PCIE), ("NUMANode", Level.NUMA), ("Node", None)]
)
def test_the_required_scope_is_the_cards_level(scope: str, level: Level | None) -> None:
    hint = f'{{"gpu":{{"requiredTopologyScope":"{scope}"}}}}'

    assert read(TWO, ALLOCATE_HINT=hint).topology.required is level


def test_one_card_meets_every_scope() -> None:
    hint = '{"gpu":{"requiredTopologyScope":"PCIe"}}'

    assert read({"gpu": 100}, ALLOCATE_HINT=hint).topology.required is None


def test_w14_one_card_is_one_device_and_several_are_not() -> None:
    hint = '{"gpu":{"requiredTopologyScope":"Device"}}'

    assert read({"gpu": 50}, ALLOCATE_HINT=hint).topology.required is None
    with pytest.raises(DialectError, match="several cards cannot be one device"):
        read(TWO, ALLOCATE_HINT=hint)


def test_w17_shared_cards_of_one_container_can_be_required_in_one_scope() -> None:
    hint = '{"gpu":{"requiredTopologyScope":"PCIe"}}'
    requested: Amounts = {"gpu.shared": 2, "gpu-core": 100, "gpu-memory-ratio": 100}
    ledger = used(eight(), 0, 2, 4)

    placement = place(a_pod(requested, annotations={keys.ALLOCATE_HINT: hint}), ledger)

    assert indexes(ledger, placement) == [6, 7]


@pytest.mark.parametrize("text", ["", "null", "{}", '{"gpu":null}', '{"gpu":{"selector":{}}}'])
def test_an_empty_hint_requests_nothing_and_an_invalid_text_is_an_error(text: str) -> None:
    if text:
        assert read(TWO, ALLOCATE_HINT=text).topology == read(TWO).topology
    else:
        with pytest.raises(DialectError, match="cannot be parsed"):
            read(TWO, ALLOCATE_HINT=text)


@pytest.mark.parametrize(
    ("hint", "field"),
    [
        ('{"rdma":{"vfSelector":{}}}', ""),
        ('{"fpga":{}}', ""),
        ('{"gpu":{"selector":{"matchLabels":{"a":"b"}}}}', ".gpu.selector"),
        ('{"gpu":{"vfSelector":{}}}', ".gpu.vfSelector"),
        ('{"gpu":{"exclusivePolicy":"PCIeLevel"}}', ".gpu.exclusivePolicy"),
        ('{"gpu":{"requiredTopologyScope":"Rack"}}', ".gpu.requiredTopologyScope"),
        ('{"gpu":{"requiredScope":"PCIe"}}', ""),
        ("{", ""),
    ],
)
def test_an_unsupported_hint_is_rejected_by_name(hint: str, field: str) -> None:
    with pytest.raises(DialectError) as rejected:
        read(TWO, ALLOCATE_HINT=hint)

    assert rejected.value.field == f"metadata.annotations[{keys.ALLOCATE_HINT}]{field}"


def test_w13_device_level_exclusion_keeps_everybody_else_off_the_card() -> None:
    hint = '{"gpu":{"exclusivePolicy":"DeviceLevel"}}'

    assert read({"gpu": 50}, ALLOCATE_HINT=hint).containers[0].exclusive
    assert not read({"gpu": 50}).containers[0].exclusive


def test_an_allocate_strategy_is_noted() -> None:
    hint = '{"gpu":{"allocateStrategy":"ApplyForAll"}}'

    (note,) = read(TWO, ALLOCATE_HINT=hint).notes

    assert note.endswith("allocateStrategy has no effect on GPUs")


@pytest.mark.parametrize(
    ("spec", "best_only", "bandwidth"),
    [
        ("{}", False, 0),
        ("null", False, 0),
        ('{"allocatePolicy":"BestEffort"}', False, 0),
        ('{"allocatePolicy":"Restricted","ringBusBandwidth":"200Gi"}', True, 200 << 30),
        ('{"ringBusBandwidth":200}', False, 200),
    ],
)
def test_a_partition_spec_makes_the_table_binding(
    spec: str, best_only: bool, bandwidth: int
) -> None:
    linking = read(TWO, PARTITION_SPEC=spec).topology

    assert linking.must_partition
    assert linking.best_partitions_only is best_only
    assert linking.bandwidth == bandwidth


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ('{"allocatePolicy":"Strict"}', ".allocatePolicy"),
        ('{"ringBusBandwidth":"fast"}', ".ringBusBandwidth"),
        ('{"ringBusBandwidth":-1}', ".ringBusBandwidth"),
        ("[]", ""),
    ],
)
def test_an_invalid_partition_spec_is_rejected(spec: str, field: str) -> None:
    with pytest.raises(DialectError) as rejected:
        read(TWO, PARTITION_SPEC=spec)

    assert rejected.value.field == f"metadata.annotations[{keys.PARTITION_SPEC}]{field}"


def test_a_partition_spec_on_shares_is_noted() -> None:
    (note,) = read({"gpu": 50}, PARTITION_SPEC="{}").notes

    assert note.endswith("applies to whole cards only, not to container c0")


def test_a_partition_spec_takes_only_groups_of_the_table() -> None:
    pod = a_pod({"gpu": 300}, annotations={keys.PARTITION_SPEC: "{}"})

    reason = rejection(pod, NodeLedger.of(hopper()))

    assert reason.cause is Cause.NO_PARTITION


def test_a_single_numa_node_is_required_of_several_cards() -> None:
    spec = '{"numaTopologyPolicy":"SingleNUMANode"}'
    request = read({"gpu": 400}, NUMA_SPEC=spec)

    assert request.topology.required is Level.NUMA
    assert "not its CPUs" in request.notes[0]
    assert read({"gpu": 100}, NUMA_SPEC=spec).topology.required is None


def test_the_stricter_of_two_constraints_counts() -> None:
    hint = '{"gpu":{"requiredTopologyScope":"PCIe"}}'
    spec = '{"numaTopologyPolicy":"SingleNUMANode"}'

    assert read(TWO, ALLOCATE_HINT=hint, NUMA_SPEC=spec).topology.required is Level.PCIE


@pytest.mark.parametrize("policy", ["BestEffort", "Restricted"])
def test_a_numa_policy_that_binds_cpus_is_noted(policy: str) -> None:
    request = read(TWO, NUMA_SPEC=f'{{"numaTopologyPolicy":"{policy}"}}')

    assert request.topology.required is None
    assert len(request.notes) == 1


def test_an_exclusive_numa_node_is_noted() -> None:
    (note,) = read(TWO, NUMA_SPEC='{"singleNUMANodeExclusive":"Required"}').notes

    assert note.endswith("singleNUMANodeExclusive has no effect on GPUs")


@pytest.mark.parametrize(
    "spec", ['{"numaTopologyPolicy":"One"}', '{"singleNUMANodeExclusive":"yes"}', "7"]
)
def test_an_invalid_numa_spec_is_rejected(spec: str) -> None:
    with pytest.raises(DialectError):
        read(TWO, NUMA_SPEC=spec)


@pytest.mark.parametrize("key", keys.SCHEDULING_HINTS)
def test_a_designated_allocation_is_noted(key: str) -> None:
    hint = '{"nodeNames":["gpu-b"],"extensions":{"DeviceShare":{}}}'

    (note,) = KOORDINATOR.read_request(a_pod(TWO, annotations={key: hint})).notes

    assert note.endswith("Dragoman chooses the cards itself")


def test_a_scheduling_hint_for_other_plugins_is_ignored() -> None:
    hint = '{"nodeNames":["gpu-b"]}'
    pod = a_pod(TWO, annotations={keys.SCHEDULING_HINTS[0]: hint})

    assert KOORDINATOR.read_request(pod).notes == ()


@pytest.mark.parametrize(
    "name", ["JOINT_ALLOCATE", "RESERVATION_AFFINITY", "EXACT_MATCH_RESERVATION", "RESERVE_POD"]
)
def test_joint_devices_and_reservations_are_rejected_by_name(name: str) -> None:
    with pytest.raises(DialectError, match="is not supported") as rejected:
        read(TWO, **{name: "{}"})

    assert rejected.value.field == f"metadata.annotations[{getattr(keys, name)}]"


def test_a_required_pre_allocation_is_rejected_by_name() -> None:
    with pytest.raises(DialectError, match="has no reservations"):
        KOORDINATOR.read_request(a_pod(TWO, labels={keys.PRE_ALLOCATION_REQUIRED: "true"}))
