"""The cards of a Device object."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import NodeDescription
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.tests.builders import (
    GOLDEN,
    KOORDINATOR,
    a_device,
    a_kube_node,
    a_pod,
    an_info,
    described,
    indexes,
    place,
    plugged,
    the_node,
)
from adapters.wire.kube import DeviceInfo, DeviceObject, DeviceTopology, KubeNode, NodeStatus
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger


def golden_device(name: str) -> DeviceObject:
    return msgspec.json.decode((GOLDEN / f"{name}.device.json").read_bytes(), type=DeviceObject)


def only_problem(device: DeviceObject) -> str:
    description = described(device)
    (problem,) = description.problems
    assert description.cards == ()
    return problem


def test_the_golden_device_of_eight_cards_is_read() -> None:
    description = described(golden_device("a100x8"))

    assert description.problems == ()
    assert [card.index for card in description.cards] == list(range(8))
    assert description.cards[5] == Card(
        uuid="GPU-aaaaaaaa-0000-0000-0000-000000000005",
        node="gpu-a",
        index=5,
        vendor="nvidia",
        model="A100-SXM4-80GB",
        memory=80 << 30,
        slots=100,
        mode=Mode.SHARED,
        numa=1,
        links=(Scope(Level.NUMA, "1"), Scope(Level.PCIE, "pci0000:97")),
        dialects=frozenset({"koordinator"}),
        names=("A100-SXM4-80GB",),
    )


def test_the_golden_device_of_two_cards_has_no_topology() -> None:
    description = described(golden_device("a10x2"))

    assert [(card.memory, card.numa, card.links) for card in description.cards] == [
        (23040 * MIB, None, ())
    ] * 2
    assert (description.slots_stated, description.precision, description.isolation) == (
        False,
        1,
        None,
    )
    assert (description.partitions, description.partitions_bind) == ((), False)


@pytest.mark.parametrize(
    ("name", "memory", "model"),
    [
        ("h100x4", (81559, 81559, 81559, 81559), "H100-80GB-HBM3"),
        ("mixed", (81559, 40960, 81559, 24564), ""),
    ],
)
def test_devices_of_a_real_koordlet_are_read(
    name: str, memory: tuple[int, ...], model: str
) -> None:
    """Only the object of a node of one model names it; a socket of -1 is none."""
    found = described(golden_device(name))

    assert found.problems == ()
    assert [(card.index, card.memory // MIB, card.model, card.numa) for card in found.cards] == [
        (index, mib, model, index // 2) for index, mib in enumerate(memory)
    ]
    assert {scope.level for card in found.cards for scope in card.links} <= {Level.NUMA, Level.PCIE}


def test_a_node_without_a_device_object_has_no_cards_whatever_its_capacity_is() -> None:
    node = KubeNode(status=NodeStatus(capacity={"nvidia.com/gpu": "8"}))

    assert KOORDINATOR.read_node(node, None) == NodeDescription(slots_stated=False)


def test_a_device_object_without_devices_has_no_cards() -> None:
    assert described(DeviceObject()).cards == ()


def test_a_card_without_a_model_has_no_names() -> None:
    (card,) = described(a_device(an_info())).cards

    assert (card.vendor, card.model, card.names) == ("nvidia", "", ())


def test_vendor_and_model_come_from_the_node_where_the_device_has_no_labels() -> None:
    node = a_kube_node({keys.VENDOR: "MetaX", keys.MODEL: "C500"})

    (card,) = described(a_device(an_info()), node).cards

    assert (card.vendor, card.model) == ("metax", "C500")


def test_the_isolation_provider_is_the_nodes_label() -> None:
    assert described(a_device(), a_kube_node({keys.ISOLATION: "HAMi-core"})).isolation == (
        "HAMi-core"
    )


def test_other_devices_are_no_cards() -> None:
    rdma = an_info(1, type="rdma", resources={keys.RDMA: "100"})

    description = described(a_device(an_info(0), rdma))

    assert [card.index for card in description.cards] == [0]
    assert description.problems == ()


def test_cards_come_by_index() -> None:
    description = described(a_device(an_info(3), an_info(1)))

    assert [card.index for card in description.cards] == [1, 3]


def test_w32_an_unhealthy_card_is_in_the_inventory_and_not_allocated() -> None:
    node = the_node(a_device(an_info(0, health=False), an_info(1)))
    ledger = NodeLedger.of(node)

    assert indexes(ledger, place(a_pod({"gpu": 100}), ledger)) == [1]


def test_deprecated_names_are_read_and_the_new_one_wins() -> None:
    old = an_info(0, resources={"kubernetes.io/gpu-memory": "16Gi"})
    both = an_info(1, resources={"kubernetes.io/gpu-memory": "16Gi", keys.MEMORY: "8Gi"})

    description = described(a_device(old, both))

    assert [card.memory >> 30 for card in description.cards] == [16, 8]


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        (an_info(None, id="GPU-x"), "GPU-x: minor must be 0 or more"),
        (an_info(-1), "minor must be 0 or more"),
        (an_info(id=""), "GPU minor 0: id is missing"),
        (an_info(memory=None), "koordinator.sh/gpu-memory must be a whole number of bytes"),
        (an_info(memory="much"), "koordinator.sh/gpu-memory must be a whole number of bytes"),
        (an_info(memory="0"), "koordinator.sh/gpu-memory must be a whole number of bytes"),
        (an_info(resources=None), "koordinator.sh/gpu-memory must be a whole number of bytes"),
        (an_info(resources={"huawei.com/npu-core": "8", keys.MEMORY: "24Gi"}), "an NPU"),
    ],
)
def test_an_invalid_device_is_ignored_and_reported(info: DeviceInfo, problem: str) -> None:
    assert problem in only_problem(a_device(info))


def test_cards_with_the_same_minor_are_ignored_as_ambiguous() -> None:
    description = described(a_device(an_info(0, id="a"), an_info(0, id="b"), an_info(1)))

    assert [card.index for card in description.cards] == [1]
    assert len(description.problems) == 2
    assert "minor 0 is listed 2 times" in description.problems[0]


def test_cards_with_the_same_id_are_ignored() -> None:
    description = described(a_device(an_info(0, id="a"), an_info(1, id="a")))

    assert description.cards == ()
    assert "its id is listed 2 times" in description.problems[0]


@pytest.mark.parametrize(
    ("topology", "links"),
    [
        (DeviceTopology(node_id=-1, pcie_id="pci0"), (Scope(Level.PCIE, "pci0"),)),
        (DeviceTopology(node_id=1), (Scope(Level.NUMA, "1"),)),
        (DeviceTopology(), ()),
    ],
)
def test_an_unknown_number_of_koordlet_is_no_scope(
    topology: DeviceTopology, links: tuple[Scope, ...]
) -> None:
    (card,) = described(a_device(an_info(topology=topology))).cards

    assert card.links == links


def test_w21_a_hundred_cards_stay_distinct() -> None:
    node = the_node(a_device(*(plugged(m, m // 50, f"pci{m // 2}") for m in range(100))))
    ledger = NodeLedger.of(node)

    assert indexes(ledger, place(a_pod({"gpu": 200}), ledger)) == [0, 1]


text = st.text(max_size=6)
infos = st.builds(
    DeviceInfo,
    type=st.sampled_from(["gpu", "rdma", ""]),
    id=text,
    minor=st.one_of(st.none(), st.integers(-2, 3)),
    health=st.booleans(),
    resources=st.one_of(
        st.none(),
        st.dictionaries(
            st.sampled_from([keys.MEMORY, "kubernetes.io/gpu-memory"]),
            st.one_of(text, st.integers(), st.floats()),
        ),
    ),
)


@given(
    st.lists(infos, max_size=4),
    st.one_of(text, st.just("[" * 9999), st.just('{"1":[{"minors":[0]}]}')),
)
def test_garbage_in_a_device_object_never_raises(devices: list[DeviceInfo], table: str) -> None:
    description = described(a_device(*devices, annotations={keys.PARTITIONS: table}))

    assert len({card.index for card in description.cards}) == len(description.cards)
    assert all(card.memory > 0 and card.uuid for card in description.cards)
