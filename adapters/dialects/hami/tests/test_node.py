import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.adoption.adopt import adopt
from adapters.dialects.dialect import NodeDescription
from adapters.dialects.formats.hami_record import NODE_DEVICES
from adapters.dialects.hami.node import read_node as read_hami
from adapters.dialects.hami.settings import HamiConfig
from adapters.dialects.hami.tests.builders import HAMI as HAMI_DIALECT
from adapters.dialects.hami.tests.builders import (
    a_device,
    a_hami,
    a_kube_node,
    a_mig_device,
    a_pod,
    place,
    rejection,
    run,
    the_node,
)
from adapters.dialects.merge import read_node
from adapters.dialects.tests.builders import ALL, bound
from adapters.wire.kube import Amount, KubeNode, Metadata, NodeStatus
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger

HAMI = frozenset({"hami"})

# volcano-sh/volcano issue 4511: a node with HAMi's plugin of 2025
OLDER = (
    "GPU-220d2c17-3969-3911-209a-e08aa68ab060,10,6144,100,"
    "NVIDIA-NVIDIA GeForce RTX 2060,0,true,0,hami-core:"
)


def kube(text: str) -> KubeNode:
    return KubeNode(Metadata(name="n", annotations={NODE_DEVICES: text}))


def read_hami_node(node: KubeNode) -> NodeDescription:
    return read_hami(node, HamiConfig())


def described(*entries: object) -> NodeDescription:
    return read_hami_node(kube(json.dumps(entries)))


def entry(uuid: str = "GPU-a", **more: object) -> dict[str, object]:
    plain = {"id": uuid, "count": 10, "devmem": 8192, "devcore": 100, "type": "NVIDIA A100"}
    return {**plain, "mode": "hami-core", "health": True, **more}


def test_what_hamis_plugin_writes_today_is_read() -> None:
    found = described(
        entry("GPU-b", index=1, numa=1, type="NVIDIA-Tesla V100-PCIE-32GB", devicepairscore={}),
        entry("GPU-a", mode="mig"),
    )

    assert found.problems == ()
    assert (found.precision, found.slots_stated, found.source) == (MIB, True, "HAMi")
    assert found.cards == (
        Card(
            *("GPU-a", "n", 0, "nvidia", "NVIDIA A100", 8192 * MIB, 10),
            mode=Mode.MIG,
            links=(Scope(Level.NUMA, "0"),),
            dialects=HAMI,
            names=("NVIDIA A100",),
        ),
        Card(
            *("GPU-b", "n", 1, "nvidia", "Tesla V100-PCIE-32GB", 8192 * MIB, 10),
            numa=1,
            links=(Scope(Level.NUMA, "1"),),
            dialects=HAMI,
            names=("NVIDIA-Tesla V100-PCIE-32GB",),
        ),
    )


def test_what_hamis_plugin_wrote_earlier_is_read() -> None:
    nine = read_hami_node(kube(OLDER))
    seven = read_hami_node(
        kube("GPU-a,10,6144,100,NVIDIA-x,1,false:GPU-b,10,6144,100,NVIDIA-x,0,true")
    )

    assert nine.problems == seven.problems == ()
    assert [(card.uuid, card.memory, card.index) for card in nine.cards] == [
        ("GPU-220d2c17-3969-3911-209a-e08aa68ab060", 6144 * MIB, 0)
    ]
    assert [(card.uuid, card.healthy, card.numa, card.mode) for card in seven.cards] == [
        ("GPU-a", False, 1, Mode.SHARED),
        ("GPU-b", True, None, Mode.SHARED),
    ]


def test_cards_of_a_text_without_indexes_have_the_numbers_of_their_entries() -> None:
    """HAMi's own decoder gives all of them 0 (pkg/device/devices.go, DecodeNodeDevices)."""
    found = read_hami_node(
        kube("GPU-z,10,6144,100,NVIDIA-x,0,true:GPU-a,10,6144,100,NVIDIA-x,0,true:")
    )

    assert [(card.uuid, card.index) for card in found.cards] == [("GPU-z", 0), ("GPU-a", 1)]


def test_an_omitted_field_is_0_or_false_as_in_go() -> None:
    (card,) = described({"id": "GPU-a", "count": 1, "devmem": 1, "type": "NVIDIA"}).cards

    assert (card.index, card.numa, card.mode, card.healthy) == (0, None, Mode.SHARED, False)


@pytest.mark.parametrize("text", ["", "  ", "null", "[]", ":"])
def test_a_node_without_hamis_annotation_has_no_cards_of_hami(text: str) -> None:
    found = read_hami_node(kube(text))

    assert (found.cards, found.problems) == ((), ())


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (entry(""), "'' is not a valid card uuid"),
        (entry("GPU a"), "'GPU a' is not a valid card uuid"),
        (entry("GPU-z", type="Ascend"), "has type 'Ascend', which is not an NVIDIA card"),
        (entry("GPU-z", mode="vgpu"), "has mode 'vgpu', not hami-core, mps, mig"),
        (entry("GPU-z", count=0), "Expected `int` >= 1 - at `$.count`"),
        (entry("GPU-z", devmem=-1), "Expected `int` >= 1 - at `$.devmem`"),
        (entry("GPU-z", devmem="8"), "Expected `int`, got `str` - at `$.devmem`"),
        (entry("GPU-z", health="yes"), "Expected `bool`, got `str` - at `$.health`"),
        ({"id": "GPU-z"}, "Object missing required field `count`"),
        ("GPU-z", "GPU-z"),
        (7, "Expected `object`, got `int`"),
    ],
)
def test_an_invalid_entry_alone_is_ignored_and_reported(bad: object, why: str) -> None:
    found = described(entry("GPU-a"), bad, entry("GPU-b"))

    assert [card.uuid for card in found.cards] == ["GPU-a", "GPU-b"]
    assert found.problems == (f"{NODE_DEVICES}, entry 1: {why}; ignored",)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("GPU-z,10,6144,100,NVIDIA-x,0", "has 6 fields, not 7 or 9"),
        ("GPU-z,10,6144,100,NVIDIA-x,0,true,0", "has 8 fields, not 7 or 9"),
        ("GPU-z,ten,6144,100,NVIDIA-x,0,true", "has count 'ten', not a whole number"),
        ("GPU-z,10,,100,NVIDIA-x,0,true", "has devmem '', not a whole number"),
        ("GPU-z,10,6144,100,NVIDIA-x,a,true", "has numa 'a', not a whole number"),
        ("GPU-z,10,6144,100,NVIDIA-x,0,true,b,mig", "has index 'b', not a whole number"),
        ("GPU-z,10,6144,100,NVIDIA-x,0,fine", "has health 'fine', not true or false"),
    ],
)
def test_an_invalid_entry_of_the_older_text_is_ignored_and_reported(bad: str, why: str) -> None:
    found = read_hami_node(kube(f"{OLDER}{bad}:"))

    assert len(found.cards) == 1
    assert found.problems == (f"{NODE_DEVICES}, entry 1: {why}; ignored",)


def test_a_card_that_is_listed_twice_counts_once_and_is_reported() -> None:
    found = described(entry(), entry(devmem=1))

    assert [card.memory for card in found.cards] == [8192 * MIB]
    assert found.problems == (f"{NODE_DEVICES}, entry 1: card GPU-a is listed twice; ignored",)


@pytest.mark.parametrize("text", ["[", "[{]", '["\ud800"]'])
def test_a_text_that_is_not_a_list_is_reported(text: str) -> None:
    found = read_hami_node(kube(text))

    assert found.cards == ()
    assert found.problems[0].startswith(f"{NODE_DEVICES} is not a list of cards: ")


def test_a_pod_of_hami_has_its_share_of_a_card_that_only_hami_describes() -> None:
    node, problems = read_node(kube(json.dumps([entry()])), None, ALL)
    record = {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,3000,30:;"}

    found = adopt(bound({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}, record), node, ALL)

    assert problems == ()
    assert found is not None
    assert [(g.card, g.memory, g.compute) for g in found.grants] == [("GPU-a", 3000 * MIB, 30)]


def test_no_pod_can_request_a_card_whose_device_plugin_is_gone() -> None:
    gone = KubeNode(
        Metadata(name="n", annotations={NODE_DEVICES: json.dumps([entry()])}),
        status=NodeStatus(allocatable={"nvidia.com/gpu": "0"}),
    )
    node, problems = read_node(gone, None, ALL)

    assert [(card.dialects, card.healthy) for card in node.cards] == [(frozenset(), True)]
    assert problems == ("allocatable nvidia.com/gpu is 0: HAMi's device plugin does not run",)


def test_hami_and_a_dialect_describe_one_card() -> None:
    both = KubeNode(
        Metadata(
            name="n",
            annotations={
                NODE_DEVICES: json.dumps([entry(index=3, count=4, devmem=8000)]),
                "volcano.sh/node-vgpu-register": "GPU-a,10,8192,NVIDIA-NVIDIA A100,true,hami-core:",
            },
        )
    )

    node, problems = read_node(both, None, ALL)

    (card,) = node.cards
    assert (card.index, card.slots, card.memory) == (0, 4, 8000 * MIB)
    assert card.dialects == {"volcano", "hami"}
    assert problems == ("card GPU-a: volcano states 8 GiB, HAMi 8000 MiB; the smaller counts",)


words = st.sampled_from(["GPU-a", "10", "8192", "100", "NVIDIA-x", "0", "true", "mig", "", "-1"])
older = st.lists(st.lists(words, max_size=10).map(",".join), max_size=4).map(":".join)
newer = st.lists(
    st.dictionaries(
        st.sampled_from(["id", "count", "devmem", "type", "index", "numa", "mode", "health"]),
        st.one_of(words, st.integers(), st.booleans(), st.none()),
    ),
    max_size=4,
).map(json.dumps)


@given(st.one_of(st.text(), older, newer))
def test_garbage_gives_valid_cards_and_problems_and_nothing_else(text: str) -> None:
    found = read_hami_node(kube(text))

    assert len({card.uuid for card in found.cards}) == len(found.cards)
    assert all(card.memory > 0 and card.slots > 0 and card.index >= 0 for card in found.cards)
    assert all(card.dialects == {"hami"} for card in found.cards)


shapes = st.tuples(
    st.integers(1, 100),
    st.integers(1, 200_000),
    st.integers(1, 7),
    st.booleans(),
    st.integers(0, 15),
    st.sampled_from(["hami-core", "mps", "mig"]),
)


@given(shapes)
def test_both_texts_of_a_card_say_the_same(
    shape: tuple[int, int, int, bool, int, str],
) -> None:
    count, memory, numa, health, index, mode = shape
    health_word = "true" if health else "false"
    text = f"GPU-a,{count},{memory},100,NVIDIA-x,{numa},{health_word},{index},{mode}:"
    fields = {"count": count, "devmem": memory, "numa": numa, "health": health}

    assert read_hami_node(kube(text)) == described(
        {"id": "GPU-a", "type": "NVIDIA-x", "index": index, "mode": mode, **fields}
    )


# --- links, cordons, slices -----------------------------------------------------------------------

SCORES = "hami.io/node-nvidia-score"


def scored(*rows: tuple[str, dict[str, int]]) -> str:
    """The scores of pairs, as HAMi's plugin writes them."""
    return json.dumps([{"uuid": uuid, "score": score} for uuid, score in rows])


def scopes(text: str) -> dict[str, set[tuple[Level, str]]]:
    devices = (a_device(number) for number in range(4))
    found = HAMI_DIALECT.read_node(a_kube_node(*devices, annotations={SCORES: text}), None)
    return {card.uuid: {(one.level, one.name) for one in card.links[1:]} for card in found.cards}


def test_nvlinks_and_switches_are_read_from_the_scores_of_pairs() -> None:
    text = scored(
        ("GPU-0", {"GPU-1": 450, "GPU-2": 20, "GPU-3": 10}),
        ("GPU-1", {"GPU-0": 450, "GPU-2": 120, "GPU-3": 10}),
        ("GPU-2", {"GPU-0": 20, "GPU-1": 120, "GPU-3": 60}),
        ("GPU-3", {"GPU-0": 10, "GPU-1": 10, "GPU-2": 60}),
    )

    assert scopes(text) == {
        "GPU-0": {(Level.PCIE, "GPU-0"), (Level.LINK, "GPU-0")},
        "GPU-1": {(Level.PCIE, "GPU-0"), (Level.LINK, "GPU-0")},
        "GPU-2": {(Level.PCIE, "GPU-2"), (Level.LINK, "GPU-0")},
        "GPU-3": {(Level.PCIE, "GPU-2")},
    }


@pytest.mark.parametrize("text", ["null", "[]", '[{"uuid":"GPU-0"}]'])
def test_without_scores_no_card_is_linked(text: str) -> None:
    assert scopes(text) == {f"GPU-{number}": set() for number in range(4)}


@pytest.mark.parametrize("text", ["", "{}", '"\ud800"'])
def test_scores_that_cannot_be_parsed_are_reported(text: str) -> None:
    found = HAMI_DIALECT.read_node(a_kube_node(a_device(), annotations={SCORES: text}), None)

    assert found.problems[0].startswith(f"{SCORES} is not a list of scores: ")
    assert len(found.cards) == 1


def test_a_topology_aware_pod_gets_linked_cards() -> None:
    pairs = scored(("GPU-1", {"GPU-3": 200}), ("GPU-3", {"GPU-1": 200}))
    devices = (a_device(number) for number in range(4))
    node = the_node(a_kube_node(*devices, annotations={SCORES: pairs}))
    policy = {"hami.io/gpu-scheduler-policy": "topology-aware"}

    placement = place(a_pod({"gpu": 2, "gpumem": 1}, annotations=policy), node)

    assert {grant.card for grant in placement.grants} == {"GPU-1", "GPU-3"}


def test_a_pod_that_binds_to_a_numa_node_gets_cards_of_one() -> None:
    node = the_node(a_kube_node(*(a_device(number, numa=number % 2) for number in range(4))))
    bind = {"nvidia.com/numa-bind": "true"}

    placement = place(a_pod({"gpu": 2, "gpumem": 1}, annotations=bind), node)

    assert len({int(grant.card[-1]) % 2 for grant in placement.grants}) == 1
    assert rejection(a_pod({"gpu": 3, "gpumem": 1}, annotations=bind), node).text()


def test_a_cordoned_card_gets_no_pod_and_is_named() -> None:
    cordon = {"hami.io/device-cordon": "GPU-1, GPU-9,"}

    found = HAMI_DIALECT.read_node(a_kube_node(a_device(0), a_device(1), annotations=cordon), None)

    assert [card.healthy for card in found.cards] == [True, False]
    assert found.problems == ("hami.io/device-cordon: no pod gets card GPU-1 any more",)


def test_slices_are_where_nvml_says_and_begin_at_the_end_as_hami_places_them() -> None:
    (card,) = the_node(a_kube_node(a_mig_device())).cards

    found = {
        layout.name: [(s.start, s.size, s.memory // MIB, s.compute) for s in layout.slices]
        for layout in card.geometry.layouts
    }

    assert found == {
        "1g.5gb": [(start, 1, 4864, 15) for start in range(6, -1, -1)],
        "2g.10gb": [(start, 2, 9856, 29) for start in (0, 2, 4)],
        "3g.20gb": [(start, 4, 19968, 43) for start in (4, 0)],
    }


def test_pods_fill_a_partitioned_card_slice_by_slice() -> None:
    ledger = NodeLedger.of(the_node(a_kube_node(a_mig_device())))
    small, large = {"gpu": 1, "gpumem": 4000}, {"gpu": 1, "gpumem": 15000}

    ledger = run(ledger, a_pod(large), a_pod(small), a_pod(small))

    held = [g.slice for a in ledger.allocations.values() for g in a.grants if g.slice]
    assert [(each.profile, each.start) for each in held] == [
        ("3g.20gb", 4),
        ("1g.5gb", 3),
        ("1g.5gb", 2),
    ]
    assert rejection(a_pod(large), ledger).text()


@pytest.mark.parametrize(
    "profile",
    [{"name": "", "memoryMB": 1}, {"name": "1g.5gb", "memoryMB": 0}, {"memoryMB": 1}, "1g.5gb"],
)
def test_a_card_with_an_invalid_profile_is_reported(profile: object) -> None:
    found = described(entry(mode="mig", migProfiles=[profile]))

    assert found.cards == ()
    assert "migProfiles" in found.problems[0]


@pytest.mark.parametrize(
    ("limits", "profile"),
    [
        ({"gpu": 1, "gpumem": 1000}, "1g.5gb"),
        ({"gpu": 1, "gpumem": 1000, "gpucores": 30}, "3g.20gb"),
        ({"gpu": 1, "gpumem": 0}, "3g.20gb"),
    ],
)
def test_a_slice_has_the_memory_and_the_compute_and_all_memory_is_the_largest(
    limits: dict[str, Amount], profile: str
) -> None:
    (grant,) = place(a_pod(limits), the_node(a_kube_node(a_mig_device()))).grants

    assert grant.slice is not None
    assert grant.slice.profile == profile


def test_a_node_states_the_sums_of_healthy_cards_for_schedulers_that_add_up() -> None:
    node = the_node(a_kube_node(a_device(0), a_device(1), a_device(2, health=False)))

    assert HAMI_DIALECT.resources(node.cards) == {
        "nvidia.com/gpu": 20,
        "nvidia.com/gpumem": 2 * 40960,
        "nvidia.com/gpumem-percentage": 200,
        "nvidia.com/gpucores": 200,
        "nvidia.com/priority": 20,
    }
    factor = a_hami(memoryFactor=1000)
    assert factor.resources(node.cards)["nvidia.com/gpumem"] == 81


def test_the_sum_of_compute_has_room_for_seven_slices_of_15_percent() -> None:
    node = the_node(a_kube_node(a_mig_device()))

    assert HAMI_DIALECT.resources(node.cards)["nvidia.com/gpucores"] == 105


def test_two_devices_of_a_container_are_slices_of_two_cards() -> None:
    pod = a_pod({"gpu": 2, "gpumem": 4000})
    one, two = (the_node(a_kube_node(*map(a_mig_device, range(number)))) for number in (1, 2))

    assert "2 cards asked for one container, node has 1" in rejection(pod, one).text()
    assert {grant.card for grant in place(pod, two).grants} == {"GPU-0", "GPU-1"}
