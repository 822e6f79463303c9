"""The arguments of DeviceShare, and the order that follows from them."""

import pytest

from adapters.dialects.dialect import Defaults, DialectError, SchedulingPolicy
from adapters.dialects.formats.koordinator_settings import SCHEDULER_CONFIG
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.dialect import Koordinator
from adapters.dialects.koordinator.keys import INFO
from adapters.dialects.koordinator.tests.builders import (
    KOORDINATOR,
    a_device,
    a_koordinator,
    a_pod,
    an_info,
    cards,
    indexes,
    place,
    rejection,
    the_node,
    used,
    with_arguments,
)
from core.ledger.node_ledger import NodeLedger
from core.requests.request import CardKey, NodeKey, Weights

MEMORY_ONLY = Weights(slots=0, compute=0, memory=1)


def test_the_dialect_has_a_name() -> None:
    assert KOORDINATOR.name == "koordinator"


def test_the_scheduler_configuration_is_read() -> None:
    assert INFO.documents == {("koord-scheduler-config", "koord-scheduler-config")}


@pytest.mark.parametrize("arguments", [None, {}, {"scoringStrategy": {}}, {"allocator": "x"}])
def test_the_card_with_the_least_used_memory_is_chosen_by_default(arguments: object) -> None:
    assert a_koordinator(arguments) == KOORDINATOR
    assert KOORDINATOR.ranking.cards == (CardKey.EMPTIEST, CardKey.LOW_INDEX)
    assert KOORDINATOR.ranking.nodes == (NodeKey.EMPTIEST,)
    assert KOORDINATOR.ranking.weights == MEMORY_ONLY


FILES: list[object] = [None, {}, {"profiles": None}, {"profiles": [{}]}]


@pytest.mark.parametrize("file", FILES)
def test_a_configuration_without_device_share_changes_nothing(file: object) -> None:
    found = Koordinator.configured({SCHEDULER_CONFIG: file}, Defaults())

    assert found == KOORDINATOR


def test_most_allocated_packs() -> None:
    most = a_koordinator({"scoringStrategy": {"type": "MostAllocated"}})
    ledger = used(cards(2), half=[1])

    assert most.ranking.cards == (CardKey.FULLEST, CardKey.LOW_INDEX)
    assert most.ranking.nodes == (NodeKey.FULLEST,)
    assert indexes(ledger, place(a_pod({"gpu": 50}), ledger, most)) == [1]


def test_the_operators_defaults_win() -> None:
    policies = Defaults(SchedulingPolicy.BINPACK, SchedulingPolicy.SPREAD, topology_aware=True)
    least = a_koordinator({"scoringStrategy": {"type": "LeastAllocated"}}, policies)

    assert least.ranking.cards[0] is CardKey.EMPTIEST
    assert least.ranking.nodes == (NodeKey.LINKS, NodeKey.FULLEST)


@pytest.mark.parametrize(
    ("resources", "weights"),
    [
        ([], MEMORY_ONLY),
        ([{"name": "koordinator.sh/rdma", "weight": 5}], MEMORY_ONLY),
        ([{"name": "koordinator.sh/gpu-core"}], Weights(slots=0, compute=1, memory=0)),
        (
            [
                {"name": "koordinator.sh/gpu-core", "weight": 2},
                {"name": "koordinator.sh/gpu-memory", "weight": 3},
                {"name": "koordinator.sh/gpu-memory-ratio", "weight": 4},
            ],
            Weights(slots=0, compute=2, memory=7),
        ),
    ],
)
def test_scored_resources_are_weights(resources: list[object], weights: Weights) -> None:
    found = a_koordinator({"scoringStrategy": {"type": "", "resources": resources}})

    assert found.ranking.weights == weights


@pytest.mark.parametrize(
    "arguments",
    [
        {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
        {"scoringStrategy": {"resources": [{"name": "koordinator.sh/gpu-core", "weight": 0}]}},
        {"gpuShareUnsupportedModels": [{"vendor": "huawei"}]},
    ],
)
def test_an_invalid_argument_is_rejected_with_its_path(arguments: object) -> None:
    with pytest.raises(DialectError) as rejected:
        Koordinator.configured(with_arguments(arguments), Defaults())

    assert rejected.value.field == (
        "koord-scheduler-config[koord-scheduler-config].profiles[1].pluginConfig[1].args"
    )


def test_a_configuration_of_another_shape_is_rejected() -> None:
    with pytest.raises(DialectError, match="koord-scheduler-config"):
        Koordinator.configured({SCHEDULER_CONFIG: ["profiles"]}, Defaults())


def test_a_model_that_cannot_be_shared_goes_as_a_whole_only() -> None:
    koordinator = a_koordinator(
        {"gpuShareUnsupportedModels": [{"vendor": "Nvidia", "model": "A10"}]}
    )
    device = a_device(an_info(), labels={keys.VENDOR: "nvidia", keys.MODEL: "A10"})
    ledger = NodeLedger.of(the_node(device, koordinator=koordinator))

    reason = rejection(a_pod({"gpu": 50}), ledger, koordinator)

    assert reason.text() == "1 of 1 cards: other sharing mode"
    assert indexes(ledger, place(a_pod({"gpu": 100}), ledger, koordinator)) == [0]
