import json
from dataclasses import replace
from typing import Any

import pytest

from adapters.dialects.dialect import Defaults
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialects
from adapters.wire.kube import (
    DeviceInfo,
    DeviceObject,
    DeviceSpec,
    DeviceTopology,
    KubeNode,
    Metadata,
    NodeStatus,
    Text,
)
from adapters.wire.records.hardware import NodeHardware
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.node import Node
from core.hardware.quantity import GIB, MIB

ALL = dialects({}, Defaults())
A, B = "GPU-a", "GPU-b"


def volcano(*entries: str) -> Text:
    return {"volcano.sh/node-vgpu-register": "".join(f"{entry}:" for entry in entries)}


def metax(**card: object) -> Text:
    return {"metax-tech.com/node-gpu-devices": json.dumps([card])}


def device(uuid: str, minor: int, memory: str = "80Gi", *, health: bool = True) -> DeviceInfo:
    return DeviceInfo(
        type="gpu",
        id=uuid,
        minor=minor,
        health=health,
        resources={"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": memory},
        topology=DeviceTopology(node_id=1, pcie_id="pci0000:3a"),
    )


def described(
    annotations: Text, *devices: DeviceInfo, agent: NodeHardware | None = None
) -> tuple[Node, tuple[str, ...]]:
    meta = Metadata(name="n", annotations=annotations)
    found = DeviceObject(Metadata(name="n"), DeviceSpec(devices)) if devices else None
    return read_node(KubeNode(meta), found, ALL, agent)


def found(uuid: str, **more: Any) -> Card:
    return replace(
        Card(uuid, "n", 7, "nvidia", "NVIDIA A100-SXM4-80GB", 80 * GIB, 3),
        links=(Scope(Level.LINK, "nvlink-0"),),
        **more,
    )


def test_a_card_that_three_dialects_describe_is_one_card() -> None:
    node, problems = described(
        volcano(f"{A},10,81920,NVIDIA-NVIDIA A100,true,hami-core")
        | metax(uuid=A, totalDevCount=16, totalCompute=100, totalVRam=81920, healthy=True),
        device(A, 4),
    )

    (card,) = node.cards
    assert problems == ()
    assert card.dialects == {"volcano", "koordinator", "metax"}
    assert (card.index, card.memory, card.slots, card.numa) == (4, 80 * GIB, 10, 1)
    assert card.vendor == "nvidia"


def test_cards_of_different_dialects_are_separate_cards_of_one_node() -> None:
    node, _ = described(volcano(f"{A},10,1024,NVIDIA-x,true,hami-core"), device(B, 1))

    assert [(card.uuid, card.dialects) for card in node.cards] == [
        (A, frozenset({"volcano"})),
        (B, frozenset({"koordinator"})),
    ]


def test_cards_of_which_the_same_dialects_report_share_the_set_of_them() -> None:
    entries = [f"{uuid},10,81920,NVIDIA-A100,true,hami-core" for uuid in (A, B)]
    node, _ = read_node(KubeNode(Metadata("n", annotations=volcano(*entries))), None, ALL)

    first, second = node.cards

    assert first.dialects == {"volcano"}
    assert first.dialects is second.dialects


def test_rounding_is_not_a_difference_and_the_most_precise_memory_counts() -> None:
    node, problems = described(
        volcano(f"{A},10,1023,NVIDIA-x,true,hami-core"), device(A, 0, "1048000Ki")
    )

    assert node.cards[0].memory == 1048000 << 10
    assert problems == ()


def test_of_two_memories_that_differ_the_smaller_counts_and_the_difference_is_reported() -> None:
    node, problems = described(volcano(f"{A},10,1000,NVIDIA-x,true,hami-core"), device(A, 0, "1Gi"))

    assert node.cards[0].memory == 1000 * MIB
    assert problems == (
        "card GPU-a: koordinator states 1 GiB, volcano 1000 MiB; the smaller counts",
    )


def test_a_card_that_anyone_calls_sick_is_sick() -> None:
    node, _ = described(
        volcano(f"{A},10,1024,NVIDIA-x,true,hami-core"), device(A, 0, "1Gi", health=False)
    )

    assert not node.cards[0].healthy


def test_a_card_in_mig_mode_is_so_for_all() -> None:
    node, _ = described(
        volcano(f"{A},10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,mig"), device(A, 0, "40Gi")
    )

    assert node.cards[0].mode is Mode.MIG
    assert node.cards[0].geometry.layouts


def test_links_of_every_level_come_together() -> None:
    node, _ = described(
        metax(uuid=A, totalDevCount=16, totalCompute=100, totalVRam=1024, healthy=True, linkZone=2),
        device(A, 0, "1Gi"),
    )

    assert [scope.level for scope in node.cards[0].links] == [Level.NUMA, Level.PCIE, Level.LINK]


def test_a_node_without_a_description_has_no_cards() -> None:
    node, problems = described({})

    assert node == Node("n")
    assert problems == ()


def test_a_card_with_amounts_out_of_range_is_ignored_and_reported() -> None:
    node, problems = described({}, device(A, 0, "2Pi"), device(B, 1 << 40))

    assert node.cards == ()
    assert [
        problem.endswith("are out of range; the card gets no new pod") for problem in problems
    ] == [
        True,
        True,
    ]


def test_a_card_with_more_slots_than_any_card_has_is_ignored_and_reported() -> None:
    node, problems = described({}, agent=NodeHardware((found(A, slots=10**30),)))

    assert node.cards == ()
    assert "slots" in problems[0]


def test_a_card_of_which_one_source_states_an_impossible_amount_gets_no_new_pod() -> None:
    register = volcano(f"{A},10,8192,NVIDIA-A10,true,hami-core")

    for memory, is_possible in ((8 * GIB, True), (0, False)):
        node, problems = described(register, agent=NodeHardware((found(A, memory=memory),)))

        assert [card.healthy for card in node.cards] == [is_possible]
        assert len(problems) == (not is_possible)


def test_a_card_of_a_numa_node_that_no_machine_has_is_ignored_and_reported() -> None:
    node, problems = described(
        metax(uuid=A, totalDevCount=1, totalCompute=100, totalVRam=1, healthy=True, numa=1 << 40)
    )

    assert node.cards == ()
    assert "NUMA node 1099511627776" in problems[0]


@pytest.mark.parametrize("key", ["hami.io/node-nvidia-register", "metax-tech.com/node-gpu-devices"])
@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 1000 + "]" * 1000, "[{}", '["\ud800"]'])
def test_a_node_whose_cards_cannot_be_decoded_has_none_and_is_reported(key: str, text: str) -> None:
    node, problems = described({key: text})

    assert node.cards == ()
    assert key in problems[0]


def test_a_card_that_only_the_agent_reports_is_as_the_agent_reports_it() -> None:
    reported = found(A, dialects=frozenset({"volcano"}))

    node, problems = described({}, agent=NodeHardware((reported,), "HAMi-core", ((A, "hot"),)))

    assert node.cards == (reported,)
    assert node.isolation == "HAMi-core"
    assert problems == (f"card {A}: hot",)


def test_a_card_says_why_it_is_not_healthy_and_never_why_another_dialect_left_it() -> None:
    sick = NodeHardware((found(A, healthy=False),), None, ((A, "Xid 79"),))
    left = {"hami.io/node-nvidia-register": f"{A},1,81920,100,NVIDIA-x,0,true:"}
    gone = KubeNode(
        Metadata(name="n", annotations=left), status=NodeStatus(allocatable={"nvidia.com/gpu": 0})
    )
    koordinator = DeviceObject(Metadata(name="n"), DeviceSpec((device(A, 0),)))

    by_agent = described(volcano(f"{A},10,81920,NVIDIA-x,true,hami-core"), agent=sick)[0].cards[0]
    by_koordinator = read_node(gone, koordinator, ALL)[0].cards[0]
    by_none = read_node(gone, None, ALL)[0].cards[0]

    assert (by_agent.healthy, by_agent.problem) == (False, "Xid 79")
    assert (by_koordinator.healthy, by_koordinator.problem) == (True, "")
    assert by_none.problem == "allocatable nvidia.com/gpu is 0: HAMi's device plugin does not run"


def test_the_agent_adds_health_links_and_dialects_to_a_card_that_others_describe() -> None:
    reported = found(A, healthy=False, dialects=frozenset({"koordinator"}))

    node, problems = described(
        volcano(f"{A},10,81920,NVIDIA-NVIDIA A100,true,hami-core"),
        agent=NodeHardware((replace(reported, memory=80 * GIB + 5),)),
    )

    (card,) = node.cards
    assert problems == ()
    assert not card.healthy
    assert (card.index, card.slots, card.memory) == (0, 10, 80 * GIB)
    assert card.dialects == {"volcano", "koordinator"}
    assert card.links == (Scope(Level.LINK, "nvlink-0"),)


def test_a_card_that_is_smaller_than_a_dialect_states_counts_with_its_real_size() -> None:
    node, problems = described(
        volcano(f"{A},10,163840,NVIDIA-NVIDIA A100,true,hami-core"),
        agent=NodeHardware((found(A),)),
    )

    assert node.cards[0].memory == 80 * GIB
    assert "the node agent 80" in problems[0]


def test_a_mig_card_that_only_the_agent_reports_has_the_built_in_layouts() -> None:
    node, _ = described({}, agent=NodeHardware((found(A, mode=Mode.MIG),)))

    assert [layout.name for layout in node.cards[0].geometry.layouts][:2] == ["group1", "group2"]


@pytest.mark.parametrize("cuts", [True, False])
def test_layouts_can_be_mixed_where_the_agent_creates_the_instances_of_a_card(
    *, cuts: bool
) -> None:
    cards = (found(A, mode=Mode.MIG), found("GPU-b", index=1))

    node, _ = described({}, agent=NodeHardware(cards, mig_cut=cuts))

    assert [card.geometry.mixed for card in node.cards if card.mode is Mode.MIG] == [cuts]
    assert not any(card.geometry.mixed for card in node.cards if card.mode is not Mode.MIG)


def test_equal_parts_of_cards_are_one_object() -> None:
    entry = "4,81920,NVIDIA-A100-SXM4-80GB,true,hami-core"
    of_nodes = [
        described(volcano(f"{A},{entry}", f"{B},{entry}"), device(A, 0), device(B, 1))
        for _ in range(2)
    ]

    first, *more = (card for node, _ in of_nodes for card in node.cards)
    assert first.links
    assert all(each.model is first.model for each in more)
    assert all(each.names is first.names for each in more)
    assert all(each.links is first.links for each in more)
