"""The cards in a node's annotations and capacity."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import NodeDescription
from adapters.dialects.metax.node import MAX_CARDS
from adapters.dialects.metax.tests.builders import (
    GOLDEN,
    METAX,
    a_device,
    a_kube_node,
    golden_node,
)
from adapters.wire.kube import Amount, Container, KubeNode, Metadata, Pod, PodSpec, Resources
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.quantity import GIB, MIB

GPU = "metax-tech.com/gpu"


def described(*devices: object) -> NodeDescription:
    return METAX.read_node(a_kube_node(list(devices)), None)


def test_the_golden_node_has_eight_cards_in_two_zones() -> None:
    cards = golden_node().cards

    assert [card.index for card in cards] == list(range(8))
    assert cards[7] == Card(
        uuid="GPU-7f3a10c2-0000-4b6e-9d21-a00000000007",
        node="node-a",
        index=7,
        vendor="metax",
        model="sgpu",
        memory=64 * GIB,
        slots=16,
        numa=1,
        links=(Scope(Level.LINK, "2"),),
        dialects=frozenset({"metax"}),
        names=("sgpu",),
    )
    assert (cards[0].numa, cards[0].links) == (0, (Scope(Level.LINK, "1"),))


def test_memory_is_stated_in_mib() -> None:
    assert described(a_device(0)).precision == MIB


def test_what_hami_omits_when_zero_is_zero() -> None:
    plain = a_device(0)
    del plain["healthy"], plain["model"]

    (card,) = described(plain).cards

    assert (card.healthy, card.numa, card.links, card.model) == (False, 0, (), "")


@pytest.mark.parametrize("zone", [0, -1])
def test_a_card_without_a_positive_zone_has_no_links(zone: int) -> None:
    (card,) = described(a_device(0, linkZone=zone, numa=-1)).cards

    assert (card.links, card.numa) == ((), None)


def test_the_published_qos_of_a_card_is_ignored() -> None:
    assert described(a_device(0, qosPolicy="fixed-share")) == described(a_device(0))


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (7, "Expected `object`"),
        ({}, "missing required field `uuid`"),
        (a_device(0, uuid=""), "is not a valid card uuid"),
        (a_device(0, uuid="\u00a0"), "is not a valid card uuid"),
        (a_device(0, uuid="GPU-0,GPU-1"), "is not a valid card uuid"),
        (a_device(0, totalCompute=50), "totalCompute of card GPU-0 is 50, must be 100"),
        (a_device(0, totalVRam=0), ">= 1"),
        (a_device(0, totalDevCount=0), ">= 1"),
        (a_device(0, totalVRam=2**31), "<= 2147483647"),
        (a_device(0, healthy="yes"), "Expected `bool`"),
        (a_device(1), "card GPU-1 is listed twice"),
    ],
)
def test_an_invalid_entry_is_ignored_and_reported_and_the_others_keep_their_index(
    entry: object, problem: str
) -> None:
    description = described(a_device(1), entry, a_device(2))

    assert [(card.uuid, card.index) for card in description.cards] == [("GPU-1", 0), ("GPU-2", 2)]
    (sentence,) = description.problems
    assert sentence.startswith("metax-tech.com/node-gpu-devices, entry 1: ")
    assert problem in sentence


@pytest.mark.parametrize("text", ["", "[", "{}", "null", '"x"', "\ud800"])
def test_a_record_that_is_not_a_list_has_no_cards_and_is_reported(text: str) -> None:
    description = METAX.read_node(a_kube_node(text), None)

    assert description.cards == ()
    assert "metax-tech.com/node-gpu-devices is not a list of cards" in description.problems[0]


def test_a_node_without_metax_has_nothing_to_say() -> None:
    assert METAX.read_node(KubeNode(Metadata("cpu-1")), None) == NodeDescription(precision=MIB)


# --- whole cards -----------------------------------------------------------------------------


def node_with_count(capacity: Amount, allocatable: Amount | None = None) -> NodeDescription:
    usable = None if allocatable is None else {GPU: allocatable}
    return METAX.read_node(a_kube_node(capacity={GPU: capacity}, allocatable=usable), None)


def test_a_number_of_whole_cards_makes_cards_without_a_real_uuid() -> None:
    cards = node_with_count("3").cards

    assert [card.uuid for card in cards] == ["node-a-metax-0", "node-a-metax-1", "node-a-metax-2"]
    assert {(card.mode, card.memory, card.slots) for card in cards} == {(Mode.WHOLE, 64 * GIB, 1)}


def test_whole_cards_that_are_not_allocatable_are_not_offered() -> None:
    cards = node_with_count(8, "6").cards

    assert [card.index for card in cards if not card.healthy] == [0, 1]
    assert [card.healthy for card in node_with_count(2, 0).cards] == [False, False]


@pytest.mark.parametrize("amount", ["-1", "x", "1.5", MAX_CARDS + 1])
def test_an_invalid_number_of_cards_is_reported(amount: Amount) -> None:
    for description in (node_with_count(amount), node_with_count(2, amount)):
        assert description.cards == ()
        assert "are not numbers of cards" in description.problems[0]


def test_cards_that_are_shared_are_not_counted_as_whole_cards_too() -> None:
    description = METAX.read_node(a_kube_node([a_device(0)], capacity={GPU: "8"}), None)
    unread = METAX.read_node(a_kube_node("[{}]", capacity={GPU: "8"}), None)
    empty = METAX.read_node(a_kube_node([], capacity={GPU: "8"}), None)

    assert [card.mode for card in description.cards] == [Mode.SHARED]
    assert "lists the same cards" in description.problems[0]
    assert unread.cards == ()
    assert len(empty.cards) == 8


def a_switched_node(whole: int | None) -> NodeDescription:
    stated: dict[str, Amount] = {"metax-tech.com/sgpu": "16"}
    counted: dict[str, Amount] = {} if whole is None else {GPU: whole}
    zero: dict[str, Amount] = {"metax-tech.com/sgpu": "0"}
    node = a_kube_node([a_device(0)], capacity=stated | counted, allocatable=zero | counted)
    return METAX.read_node(node, None)


def test_a_node_that_was_switched_to_whole_cards_gives_no_shares() -> None:
    """HAMi issue 1062: the plugin leaves its annotation, and states 0 shares."""
    switched = a_switched_node(2)

    assert [(card.uuid, card.mode) for card in switched.cards] == [
        ("node-a-metax-0", Mode.WHOLE),
        ("node-a-metax-1", Mode.WHOLE),
    ]
    assert switched.problems == (
        "allocatable metax-tech.com/sgpu is 0: MetaX's device plugin serves no shares",
    )


@pytest.mark.parametrize("whole", [None, 0])
def test_a_node_whose_plugin_serves_nothing_keeps_its_cards_and_says_why_no_pod_gets_them(
    whole: int | None,
) -> None:
    (card,) = (description := a_switched_node(whole)).cards

    assert (card.uuid, card.dialects) == ("GPU-0", frozenset())
    assert (card.problem,) == description.problems


# --- topology tables -------------------------------------------------------------------------


def test_losses_and_gains_are_read_by_number_of_cards() -> None:
    description = METAX.read_node(
        a_kube_node(losses='{"1":0,"8":1240,"2":110}', scores='{"4":-5}'), None
    )

    assert description.losses == ((1, 0), (2, 110), (8, 1240))
    assert description.gains == ((4, -5),)


@pytest.mark.parametrize(
    "text", ["", "[]", "\ud800", '{"one":1}', '{"1":"x"}', '{"1":0.5}', '{"1":2147483648}']
)
def test_an_invalid_table_is_reported(text: str) -> None:
    description = METAX.read_node(a_kube_node(losses=text, scores=text), None)

    assert (description.losses, description.gains) == ((), ())
    assert [problem.split()[0] for problem in description.problems] == [
        "metax-tech.com/gpu.topology.losses",
        "metax-tech.com/gpu.topology.scores",
    ]


# --- anything at all -------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers(-5, 2**70) | st.text(max_size=6)
devices = st.dictionaries(st.sampled_from([*a_device(0), "numa", "linkZone"]), scalars)
entries = scalars | devices | devices.map(lambda extra: {**a_device(0), **extra})


@given(st.lists(entries, max_size=4))
def test_every_entry_becomes_a_card_or_a_problem(given: list[object]) -> None:
    description = METAX.read_node(a_kube_node(msgspec.json.encode(given).decode()), None)

    assert len(description.cards) + len(description.problems) == len(given)


@given(st.text(max_size=30), st.text(max_size=30), scalars)
def test_no_text_on_a_node_is_an_error(record: str, table: str, amount: Amount) -> None:
    METAX.read_node(a_kube_node(record, capacity={GPU: amount}, losses=table), None)


def test_reading_a_node_leaves_nothing_behind() -> None:
    text = (GOLDEN / "node_8_cards.json").read_text()
    other = text.replace("best-effort", "fixed-share")

    before = METAX.read_node(a_kube_node(text), None)
    METAX.read_node(a_kube_node(other), None)

    assert METAX.read_node(a_kube_node(text), None) == before


WHOLE = {GPU: 1}
SHARE = {"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": 4}


@pytest.mark.parametrize(
    ("main", "init", "described", "locked"),
    [
        (SHARE, None, True, True),
        (SHARE, SHARE, True, True),
        (SHARE, None, False, False),
        ({"cpu": 1}, SHARE, True, False),
        (WHOLE, None, True, False),
    ],
)
def test_the_plugin_goes_by_the_lock_for_shares_of_main_containers_where_it_is(
    main: dict[str, Amount], init: dict[str, Amount] | None, described: bool, locked: bool
) -> None:
    node = a_kube_node([a_device(0)]) if described else KubeNode(Metadata(name="bare"))
    pod = Pod(
        spec=PodSpec(
            (Container("main", Resources(limits=main)),),
            None if init is None else (Container("init", Resources(limits=init)),),
        )
    )

    assert METAX.needs_node_lock(METAX.read_request(pod), node) is locked
