import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.adoption import adopt
from adapters.dialects.dialect import NodeDescription
from adapters.dialects.formats.hami_record import NODE_DEVICES, NVIDIA_ALLOCATED
from adapters.dialects.hami.keys import HamiConfig
from adapters.dialects.hami.node import read_node as read_hami
from adapters.dialects.hami.tests.builders import (
    GOLDEN,
    a_container,
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
from adapters.dialects.hami.tests.builders import HAMI as HAMI_DIALECT
from adapters.dialects.matching import dialect_of
from adapters.dialects.merge import read_node
from adapters.dialects.tests.builders import ALL, bound
from adapters.wire.kube import Amount, KubeNode, Metadata, NodeStatus
from core.feasibility.fit import fit
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.node import Node
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Placement
from core.requests.reason import Reason
from core.tests.builders import placed

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

    unknown = "card GPU-a is in mode mig and lists no migProfiles, as before HAMi 2.10"
    assert found.problems == (unknown,)
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


NODES = json.loads((GOLDEN / "device_plugin.nodes.json").read_text())
"""What HAMi's device plugin 2.10.0 (4707fb0) registered and counted, by configuration."""


@pytest.mark.parametrize(
    ("case", "memory", "slots", "compute", "mode"),
    [
        (NODES[0], (81559, 40960, 81559, 24564), 10, 100, Mode.SHARED),
        (NODES[1], (163118, 81920, 163118, 49128), 4, 150, Mode.SHARED),
        (NODES[2], (81559, 40960, 81559, 24564), 10, 100, Mode.MPS),
    ],
)
def test_what_the_real_plugin_registers_is_read(
    case: dict[str, dict[str, str]], memory: tuple[int, ...], slots: int, compute: int, mode: Mode
) -> None:
    found = read_hami_node(
        KubeNode(
            Metadata("n", annotations=case["annotations"]),
            status=NodeStatus(allocatable=dict(case["allocatable"])),
        )
    )

    assert found.problems == ()
    assert [(card.index, card.uuid[4:8], card.memory // MIB) for card in found.cards] == [
        *zip(range(4), ("aaaa", "bbbb", "cccc", "dddd"), memory, strict=True)
    ]
    assert {(card.slots, card.compute, card.mode) for card in found.cards} == {
        (slots, compute, mode)
    }
    sums = HAMI_DIALECT.resources(found.cards)
    assert case["allocatable"] == {name: str(sums[name]) for name in case["allocatable"]}


def test_the_real_plugins_scores_and_handshakes_are_read() -> None:
    plain, scored, greeted = (
        HAMI_DIALECT.read_node(
            KubeNode(
                Metadata("n", annotations=NODES[0]["annotations"] | NODES[also]["annotations"])
            ),
            None,
        )
        for also in (0, 3, 4)
    )

    assert greeted == plain
    # 40 is a way over several switches: it joins no cards.
    assert (scored.cards, scored.problems) == (plain.cards, ())
    assert {score for row in scored.scores.values() for score in row.values()} == {40}


def the_one(*entries: dict[str, object]) -> NodeLedger:
    """The ledger of a node with one card."""
    node = kube(json.dumps(entries))
    return NodeLedger.of(read_node(node, None, [HAMI_DIALECT])[0])


def cores(percent: int, memory: int = 1024) -> dict[str, Amount]:
    return {"gpu": 1, "gpumem": memory, "gpucores": percent}


def test_a_card_of_half_its_compute_has_no_room_for_two_pods_of_30_percent() -> None:
    """HAMi's device plugin writes deviceCoreScaling times 100 as devcore, 50 for 0.5.

    pkg/device-plugin/nvidiadevice/nvinternal/plugin/register.go:175-177. Its scheduler compares
    what is left of it with the request: pkg/device/nvidia/device.go:794.
    """
    ledger = the_one(entry(devcore=50))
    ledger = run(ledger, a_pod(cores(30)))

    assert rejection(a_pod(cores(30)), ledger).text() == "1 of 1 cards: compute 10% short"
    assert run(ledger, a_pod(cores(20))).usages[0].compute == 50


def test_two_pods_of_all_compute_share_a_card_of_twice_its_compute() -> None:
    """A request of 100 is exclusive only where devcore is 100: pkg/device/nvidia/device.go:800."""
    ledger = the_one(entry(devcore=200))
    ledger = run(ledger, a_pod(cores(100)), a_pod(cores(100)))

    assert ledger.usages[0].compute == 200
    assert rejection(a_pod(cores(0)), ledger).text() == "1 of 1 cards: compute fully allocated"


def test_a_whole_card_is_exclusive_also_where_compute_is_overcommitted() -> None:
    ledger = the_one(entry(devcore=200))
    pod = a_pod({"gpu": 1})
    dialect = dialect_of(pod, ALL)
    assert dialect is not None
    whole = dialect.read_request(pod)
    assert whole.dialect == "nvidia"
    ledger = placed(ledger, whole, fit(whole, ledger))

    assert rejection(a_pod(cores(0)), ledger).text() == "1 of 1 cards: held exclusively"
    assert isinstance(fit(whole, the_one(entry(devcore=50))), Reason)


def test_the_record_of_hamis_scheduler_of_all_compute_shares_such_a_card() -> None:
    """It holds for pods that HAMi's own scheduler bound before."""
    ledger = the_one(entry(devcore=200))
    pod = a_pod(cores(100), annotations={NVIDIA_ALLOCATED: "GPU-a,NVIDIA,1024,100:;"}, node="n")
    of_other_names = a_pod({}, annotations=pod.metadata.annotations, node="n")

    for each in (pod, of_other_names):
        found = adopt(each, ledger.node, [HAMI_DIALECT])
        assert found is not None
        assert [(grant.compute, grant.exclusive) for grant in found.grants] == [(100, False)]


def test_a_card_without_compute_takes_pods_of_memory_alone() -> None:
    """HAMi compares with the total only where it is not 0: pkg/device/nvidia/device.go:806."""
    ledger = the_one(entry(devcore=0))
    ledger = run(ledger, a_pod(cores(0)), a_pod(cores(0)))

    assert rejection(a_pod(cores(1)), ledger).text() == "1 of 1 cards: compute 1% short"


def test_a_partitioned_card_has_all_of_its_compute() -> None:
    """HAMi scales no compute of a card in MIG mode: register.go:175-176."""
    assert described(entry(devcore=50, mode="mig")).cards[0].compute == 100


def test_cards_of_mps_are_of_pods_that_name_that_mode_or_none() -> None:
    """checkType compares the mode of the card with the annotation: nvidia/device.go:486-497."""
    node = the_node(a_kube_node(a_device(0), a_device(1, mode="mps")))
    assert [card.mode for card in node.cards] == [Mode.SHARED, Mode.MPS]
    mode = "nvidia.com/vgpu-mode"

    for text, card in (("mps", "GPU-1"), ("hami-core", "GPU-0")):
        pod = a_pod({"gpu": 1, "gpumem": 1000}, annotations={mode: text})
        assert [grant.card for grant in place(pod, node).grants] == [card]
    both = a_pod({"gpu": 2, "gpumem": 1000}, annotations={mode: "mps"})
    assert rejection(both, node).text() == "1 of 2 cards: other sharing mode"
    any_mode = place(a_pod({"gpu": 2, "gpumem": 1000}), node)
    assert {grant.card for grant in any_mode.grants} == {"GPU-0", "GPU-1"}


def test_what_a_nodes_own_settings_change_is_read_from_its_annotation() -> None:
    """nodeconfig is read by HAMi's device plugin alone, which registers the outcome.

    pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go:134-170; register.go:160-187.
    """
    [card] = described(entry(count=3, devmem=16384, devcore=150, mode="hami-core")).cards

    assert (card.slots, card.memory, card.compute) == (3, 16384 * MIB, 150)


def test_of_two_dialects_the_smaller_compute_of_a_card_counts() -> None:
    """Pods of another dialect know no more than 100 percent of a card."""
    vgpu = "GPU-a,10,8192,NVIDIA A100,true:"
    for stated, counts in ((50, 50), (200, 100)):
        texts = {NODE_DEVICES: json.dumps([entry(devcore=stated)])}
        texts |= {"volcano.sh/node-vgpu-register": vgpu}
        node = KubeNode(Metadata(name="n", annotations=texts))
        card = read_node(node, None, ALL)[0].cards[0]

        assert card.dialects == {"hami", "volcano"}
        assert card.compute == counts


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

    zero = "allocatable nvidia.com/gpu is 0: HAMi's device plugin does not run"
    assert [(card.dialects, card.healthy) for card in node.cards] == [(frozenset(), True)]
    assert problems == (zero,)
    assert rejection(a_pod({"gpu": 1, "gpumem": 1}), node).text() == zero


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
    st.integers(0, 400),
)


@given(shapes)
def test_both_texts_of_a_card_say_the_same(
    shape: tuple[int, int, int, bool, int, str, int],
) -> None:
    count, memory, numa, health, index, mode, compute = shape
    health_word = "true" if health else "false"
    text = f"GPU-a,{count},{memory},{compute},NVIDIA-x,{numa},{health_word},{index},{mode}:"
    fields = {"count": count, "devmem": memory, "devcore": compute, "numa": numa, "health": health}

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


def graded(*rows: tuple[int, ...]) -> Node:
    """A node whose cards have these scores of pairs."""
    uuids = [f"GPU-{number}" for number in range(len(rows))]
    text = scored(
        *((uuid, dict(zip(uuids, row, strict=True))) for uuid, row in zip(uuids, rows, strict=True))
    )
    node = a_kube_node(*map(a_device, range(len(rows))), annotations={SCORES: text})
    return read_node(node, None, [HAMI_DIALECT])[0]


CHAIN = graded((0, 100, 20, 20), (100, 0, 200, 20), (20, 200, 0, 20), (20, 20, 20, 0))
"""One NVLink between the first two cards, two between the second and the third."""
TOPOLOGY = {"hami.io/gpu-scheduler-policy": "topology-aware"}


def chosen(node: Node, count: int, **texts: str) -> list[str]:
    pod = a_pod({"gpu": count, "gpumem": 1000}, annotations={**TOPOLOGY, **texts})
    return sorted(grant.card for grant in place(pod, node).grants)


def test_the_cards_of_the_largest_sum_of_scores_are_chosen() -> None:
    """Each NVLink is 100: pkg/device/nvidia/calculate_score.go:246-281, calculateGPUPairScore.

    The sum over all pairs decides: pkg/device/nvidia/device.go, computeBestCombination.
    """
    assert chosen(CHAIN, 2) == ["GPU-1", "GPU-2"]
    assert chosen(CHAIN, 3) == ["GPU-0", "GPU-1", "GPU-2"]
    switches = graded((0, 50, 30, 10), (50, 0, 30, 10), (30, 30, 0, 60), (10, 10, 60, 0))
    assert chosen(switches, 2) == ["GPU-2", "GPU-3"]


def test_of_a_chain_of_links_the_ends_are_not_linked() -> None:
    """Two pairs of one NVLink each are a sum of 220, three pairs at one switch each of 150."""
    rows = [[0] * 6 for _ in range(6)]
    for one, other, score in (
        (0, 1, 100),
        (1, 2, 100),
        (0, 2, 20),
        (3, 4, 90),
        (4, 5, 90),
        (3, 5, 90),
    ):
        rows[one][other] = rows[other][one] = score

    assert chosen(graded(*map(tuple, rows)), 3) == ["GPU-3", "GPU-4", "GPU-5"]


def test_a_single_card_is_the_one_that_is_linked_worst() -> None:
    """pkg/device/nvidia/device.go, computeWorstSingleCard; only cards that fit are compared."""
    assert chosen(CHAIN, 1) == ["GPU-3"]
    ledger = run(
        NodeLedger.of(CHAIN),
        a_pod({"gpu": 1, "gpucores": 100}, annotations={"nvidia.com/use-gpuuuid": "GPU-3"}),
    )
    found = place(a_pod({"gpu": 1, "gpumem": 1000}, annotations=TOPOLOGY), ledger)
    assert [grant.card for grant in found.grants] == ["GPU-0"]


def test_cards_of_one_numa_node_are_compared_where_a_pod_binds_to_one() -> None:
    node = replace(
        CHAIN,
        cards=tuple(
            replace(card, links=(Scope(Level.NUMA, str(card.index // 2)),)) for card in CHAIN.cards
        ),
    )

    assert chosen(node, 2, **{"nvidia.com/numa-bind": "true"}) == ["GPU-0", "GPU-1"]
    with_three = a_pod(
        {"gpu": 3, "gpumem": 1000}, annotations={**TOPOLOGY, "nvidia.com/numa-bind": "true"}
    )
    assert "within one scope" in rejection(with_three, node).text()


def test_scores_of_0_are_none() -> None:
    assert graded((0, 0), (0, 0)).scores == ()


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
    assert [card.problem for card in found.cards] == ["", "hami.io/device-cordon names it"]
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


def starts(placement: Placement) -> list[tuple[str, str, int]]:
    """Card, profile and start of each slice."""
    return [
        (grant.card, grant.slice.profile, grant.slice.start)
        for grant in placement.grants
        if grant.slice is not None
    ]


def test_two_devices_of_a_container_are_slices_of_one_card() -> None:
    """The search stays on a card in MIG mode until it has no slice left.

    pkg/device/nvidia/device.go:838 (``i++`` of Fit); expected by HAMi's own
    pkg/scheduler/mig_allocation_test.go, TestFitInDevicesAllowsMultipleMigPlacementsOnSingleGPU,
    and shown by docs/develop/dynamic-mig.md: ``nvidia.com/gpu: 2`` with ``gpumem: 8000``.
    """
    one, two = (the_node(a_kube_node(*map(a_mig_device, range(number)))) for number in (1, 2))

    for node in (one, two):
        found = starts(place(a_pod({"gpu": 2, "gpumem": 4000}), node))
        assert [found[0][1:], found[1][1:]] == [("1g.5gb", 6), ("1g.5gb", 5)]
        assert found[0][0] == found[1][0]
    guide = starts(place(a_pod({"gpu": 2, "gpumem": 8000}), one))
    assert guide == [("GPU-0", "2g.10gb", 0), ("GPU-0", "2g.10gb", 2)]


def test_what_one_card_has_no_slice_for_is_on_the_next_one() -> None:
    """Fit goes on with the next card where CustomFilterRule finds no place."""
    two = the_node(a_kube_node(*map(a_mig_device, range(2))))
    pod = a_pod({"gpu": 3, "gpumem": 16000})

    found = starts(place(pod, two))
    assert sorted(found) == [
        ("GPU-0", "3g.20gb", 4),
        ("GPU-1", "3g.20gb", 0),
        ("GPU-1", "3g.20gb", 4),
    ]
    one = the_node(a_kube_node(a_mig_device()))
    text = "1 of 1 cards: no free MIG slices for a large enough profile"
    assert rejection(pod, one).text() == text


def test_shared_cards_are_different_ones_for_each_device() -> None:
    """pkg/scheduler/mig_allocation_test.go, the test of the physical count without MIG."""
    node = the_node(a_kube_node(a_device()))

    assert rejection(a_pod({"gpu": 2, "gpumem": 4000}), node).text() == (
        "2 cards asked for one container, node has 1"
    )
    mode = {"nvidia.com/vgpu-mode": "hami-core"}
    cut = the_node(a_kube_node(a_mig_device()))
    pod = a_pod({"gpu": 2, "gpumem": 4000}, annotations=mode)
    assert "2 cards asked for one container" in rejection(pod, cut).text()


def test_devices_are_slices_and_shares_where_a_node_has_both() -> None:
    node = the_node(a_kube_node(a_device(0), a_mig_device(1)))
    found = place(a_pod({"gpu": 3, "gpumem": 4000}), node)

    assert {grant.card for grant in found.grants} == {"GPU-0", "GPU-1"}


@pytest.mark.parametrize(
    "texts",
    [
        {"nvidia.com/numa-bind": "true"},
        {"hami.io/gpu-scheduler-policy": "topology-aware"},
    ],
)
def test_linked_devices_are_slices_of_one_card_where_the_node_has_no_more(
    texts: dict[str, str],
) -> None:
    node = the_node(a_kube_node(a_mig_device()))

    assert len(place(a_pod({"gpu": 2, "gpumem": 4000}, annotations=texts), node).grants) == 2


def test_linked_devices_are_on_different_cards_first() -> None:
    node = the_node(a_kube_node(*map(a_mig_device, range(2))))
    texts = {"hami.io/gpu-scheduler-policy": "topology-aware"}
    found = place(a_pod({"gpu": 2, "gpumem": 4000}, annotations=texts), node)

    assert {grant.card for grant in found.grants} == {"GPU-0", "GPU-1"}


def test_an_init_containers_slices_are_of_one_card_too() -> None:
    node = the_node(a_kube_node(a_mig_device()))
    first = a_container({"gpu": 2, "gpumem": 4000}, "first")
    pod = a_pod({"gpu": 2, "gpumem": 4000, "gpucores": 10}, init=[first])

    assert len(set(starts(place(pod, node)))) == 2
    [use] = run(NodeLedger.of(node), pod).usages
    assert (use.slots, len(use.slices())) == (2, 2)
