import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import NodeDescription
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.tests.builders import A100, a_kube_node, entry, volcano
from adapters.wire.kube import Amount, KubeNode, Metadata
from core.hardware.card import Card, Mode
from core.hardware.mig import NO_GEOMETRY
from core.hardware.quantity import MIB


def described(register: str, device: dict[str, object] | None = None) -> NodeDescription:
    return volcano(device).read_node(a_kube_node(register), None)


def only_problem(register: str) -> str:
    (problem,) = described(register).problems
    return problem


# Golden strings of reference section 2.1.


def test_eight_cards_register_with_their_units_as_bytes() -> None:
    register = "".join(
        f"GPU-0000000{i}-0000-0000-0000-00000000000{i},10,5120,{A100},true,hami-core:"
        for i in range(8)
    )

    found = described(register, {"gpuMemoryFactor": 8})

    assert len(register) == 744
    assert found.problems == ()
    assert found.precision == 8 * MIB
    assert found.slots_stated
    assert [card.index for card in found.cards] == list(range(8))
    assert found.cards[3] == Card(
        uuid="GPU-00000003-0000-0000-0000-000000000003",
        node="node-1",
        index=3,
        vendor="nvidia",
        model="NVIDIA A100-SXM4-40GB",
        memory=40960 * MIB,
        slots=10,
        dialects=frozenset({"volcano"}),
        names=(A100,),
    )


def test_a_card_in_mig_mode_registers_with_its_layouts() -> None:
    found = described(
        "GPU-aaaaaaaa-0000-0000-0000-000000000001,10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,mig:"
    )

    (card,) = found.cards
    assert card.mode is Mode.MIG
    assert [layout.name for layout in card.geometry.layouts][:4] == [
        "group1",
        "group2",
        "group3",
        "group4",
    ]


GOLDEN = Path(__file__).parent / "golden"
NODES = json.loads((GOLDEN / "device_plugin.nodes.json").read_text())
"""What volcano-vgpu-device-plugin 4fb76ba registered, and the kubelet counted, by configuration."""
SHARED, LARGE = (10, 100, Mode.SHARED), (81559, 40960, 81559, 24564)
TENS = tuple(mib // 10 * 10 for mib in LARGE)


@pytest.mark.parametrize(
    ("case", "factor", "memory", "kind"),
    [
        (NODES[0], 1, LARGE, SHARED),
        (NODES[1], 10, TENS, SHARED),
        (
            NODES[2],
            10,
            TENS[:3],
            (4, 100, Mode.SHARED),
        ),  # the plugin's compute scaling is not in it
        (NODES[3], 10, TENS, SHARED),
        (NODES[4], 1, LARGE[1:2], (10, 100, Mode.MIG)),
    ],
)
def test_what_the_real_plugin_registers_is_read(
    case: dict[str, dict[str, str]], factor: int, memory: tuple[int, ...], kind: tuple[object, ...]
) -> None:
    dialect = volcano({"gpuMemoryFactor": factor})
    (register,) = case["annotations"].values()
    found = dialect.read_node(a_kube_node(register, allocatable=case["allocatable"]), None)

    assert found.problems == ()
    assert [card.memory // MIB for card in found.cards] == list(memory)
    assert {(card.slots, card.compute, card.mode) for card in found.cards} == {kind}
    sums = dialect.resources(found.cards)
    counted = case["allocatable"].keys() - ({keys.CORES} if case is NODES[2] else set())
    assert {name: str(sums[name]) for name in counted} == {
        name: case["allocatable"][name] for name in counted
    }


# The grammar, field by field.


def test_a_node_without_the_annotation_has_no_cards() -> None:
    assert volcano().read_node(KubeNode(Metadata(name="n")), None) == NodeDescription(precision=MIB)


def test_fields_after_the_mode_mean_nothing() -> None:
    assert len(described(f"u0,10,40960,{A100},true,hami-core,more:").cards) == 1


def test_a_last_entry_that_is_complete_needs_no_colon() -> None:
    assert len(described(entry("u0") + entry("u1").rstrip(":")).cards) == 2


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("u1,10,40960", "has 3 fields, not uuid, count, memory, type, health and mode"),
        (entry("")[:-1], "has no usable uuid"),
        (entry("u;1")[:-1], "has no usable uuid"),
        (entry("u1", count="0")[:-1], "has count '0', not a number of sharers, 1 or more"),
        (entry("u1", count="ten")[:-1], "has count 'ten', not a number of sharers, 1 or more"),
        (entry("u1", memory="-5")[:-1], "has memory '-5', not a number of units, 1 or more"),
        (entry("u1", memory="0")[:-1], "has memory '0', not a number of units, 1 or more"),
        (entry("u1", card_type="MX100")[:-1], "has type 'MX100', which is not an NVIDIA card"),
        (entry("u1", health="fine")[:-1], "has health 'fine', not true or false"),
        (entry("u1", mode="whole")[:-1], "has mode 'whole', not hami-core or mig"),
    ],
)
def test_an_invalid_entry_alone_is_ignored_and_reported(bad: str, why: str) -> None:
    found = described(f"{entry('u0')}{bad}:{entry('u2')}")

    assert [(card.uuid, card.index) for card in found.cards] == [("u0", 0), ("u2", 2)]
    assert found.problems == (
        f"node node-1: volcano.sh/node-vgpu-register: entry 1 {why}: {bad!r}",
    )


def test_an_entry_that_repeats_a_uuid_is_ignored_and_reported() -> None:
    found = described(entry("u0") + entry("u0", memory="1"))

    assert [card.memory for card in found.cards] == [40960 * MIB]
    assert found.problems == (
        "node node-1: volcano.sh/node-vgpu-register: entry 1 repeats uuid u0",
    )


def test_a_card_states_its_health() -> None:
    found = described(entry("u0", health="false") + entry("u1"))

    assert [card.healthy for card in found.cards] == [False, True]


def test_a_card_states_its_mode() -> None:
    found = described(entry("u0", mode="mig") + entry("u1") + entry("u2", mode="mps"))

    assert [card.mode for card in found.cards] == [Mode.MIG, Mode.SHARED, Mode.SHARED]


def test_a_model_without_known_layouts_stays_in_mig_mode_without_slices_and_is_reported_once() -> (
    None
):
    unknown = "NVIDIA-NVIDIA Future"

    found = described(
        entry("u0", mode="mig", card_type=unknown) + entry("u1", mode="mig", card_type=unknown)
    )

    assert [(card.mode, card.geometry) for card in found.cards] == [(Mode.MIG, NO_GEOMETRY)] * 2
    assert found.problems == (
        "node node-1: no MIG layout is known for NVIDIA-NVIDIA Future; add it to "
        "knownMigGeometries",
    )


# Liveness.


@pytest.mark.parametrize("name", [keys.COUNT, keys.MEMORY, keys.CORES])
@pytest.mark.parametrize("amount", [0, "0"])
def test_cards_of_a_node_with_zero_resources_are_not_allocated(name: str, amount: Amount) -> None:
    found = volcano().read_node(a_kube_node(entry(), allocatable={name: amount}), None)

    assert [card.healthy for card in found.cards] == [False]
    assert found.problems == (
        f"node node-1: allocatable {name} is 0: the device plugin does not serve the cards",
    )


@pytest.mark.parametrize(
    "allocatable", [{}, {"cpu": 0}, {keys.COUNT: "10"}, {keys.COUNT: "unreadable"}]
)
def test_cards_of_a_node_that_does_not_say_so_are_served(allocatable: dict[str, Amount]) -> None:
    found = volcano().read_node(a_kube_node(entry(), allocatable=allocatable), None)

    assert [card.healthy for card in found.cards] == [True]
    assert found.problems == ()


def test_a_node_without_cards_and_with_no_resources_has_no_problem() -> None:
    assert volcano().read_node(a_kube_node("", allocatable={keys.COUNT: 0}), None).problems == ()


# Any text.

fields = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["u0", "u1", "10", "40960", A100, "true", "hami-core", "mig"]),
)
entries = st.lists(fields, max_size=8).map(",".join)


@given(st.one_of(st.text(), st.lists(entries, max_size=4).map(":".join)))
def test_garbage_gives_valid_cards_and_problems_and_nothing_else(register: str) -> None:
    found = described(register)

    assert len({card.uuid for card in found.cards}) == len(found.cards)
    assert all(card.memory > 0 and card.slots > 0 for card in found.cards)
    assert [card.index for card in found.cards] == sorted({card.index for card in found.cards})
    if register.replace(":", "").strip() and not found.cards:
        assert found.problems


# Plugins without modes.


def test_an_entry_without_a_mode_is_a_shared_healthy_card_whatever_its_health_is() -> None:
    # The entry that such a plugin writes for a healthy card, by its source.
    found = described(
        "GPU-151ae9c0-83a9-2dd1-8981-b5f44c021a58,10,11264,NVIDIA-GeForce GTX 1080 Ti,false:"
    )

    (card,) = found.cards
    assert found.problems == ()
    assert (card.mode, card.healthy) == (Mode.SHARED, True)
    assert (card.memory, card.slots, card.model) == (11264 * MIB, 10, "GeForce GTX 1080 Ti")


def test_without_a_mode_memory_is_read_as_the_smaller_amount_and_that_is_reported() -> None:
    found = described(
        f"u0,10,5120,{A100},false:u1,10,5120,{A100},true,hami-core:u2,10,5120,{A100},false:",
        {"gpuMemoryFactor": 8},
    )

    assert [card.memory for card in found.cards] == [5120 * MIB, 40960 * MIB, 5120 * MIB]
    assert found.problems == (
        "node node-1: volcano.sh/node-vgpu-register: entries without a mode do not say whether "
        "their memory is in units of gpuMemoryFactor; it is read as MiB",
    )


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (f"u1,0,40960,{A100},false", "has count '0', not a number of sharers, 1 or more"),
        (f"u1,10,0,{A100},false", "has memory '0', not a number of units, 1 or more"),
        ("u1,10,40960,MX100,false", "has type 'MX100', which is not an NVIDIA card"),
        (f"u1,10,40960,{A100},hami-core", "has health 'hami-core', not true or false"),
    ],
)
def test_an_invalid_entry_without_a_mode_is_ignored_and_reported(bad: str, why: str) -> None:
    assert only_problem(f"{bad}:").endswith(f"entry 0 {why}: {bad!r}")


@given(st.integers(1, 100), st.integers(1, 200_000), st.sampled_from(["true", "false"]))
def test_with_and_without_a_mode_a_card_is_the_same(count: int, memory: int, health: str) -> None:
    text = f"u0,{count},{memory},{A100},{health}:"

    assert described(text) == described(f"u0,{count},{memory},{A100},true,hami-core:")
