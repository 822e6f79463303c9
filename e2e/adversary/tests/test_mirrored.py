import json
from dataclasses import replace

import pytest

from e2e.adversary.cards import Card
from e2e.adversary.mirrored import TARGETS, differences, expected, said, taken_of
from e2e.adversary.rules import Held
from e2e.adversary.terms import Terms
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.ready_cluster import pod

CARD = Card("GPU-0", 16000, frozenset(TARGETS), minor=0)
OTHER = replace(CARD, uuid="GPU-1", minor=1)
CARDS = [CARD, OTHER]
HELD = Held("p", "GPU-0", 4001, 20)
RECORD, MARK = "volcano.sh/vgpu-ids-new", "dragoman.dev/mirror-volcano"
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4001"}
VOLCANO = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4001"}


def rows(*held: Held, target: str = "volcano") -> list[tuple[object, ...]]:
    return expected(target, taken_of(held, CARDS))


def wrong(limits: dict[str, str], texts: dict[str, str]) -> int:
    made: Object = pod("p", "none", limits)
    made["metadata"]["annotations"] = texts
    return len([*differences(made, taken_of([HELD], CARDS), ["volcano"])])


def test_amounts_are_rounded_up_and_each_container_has_a_place() -> None:
    init = replace(HELD, memory=9000, turn="init")

    assert rows(HELD) == [("GPU-0", 4001, 20)]
    assert rows(HELD, target="koordinator") == [(0, "GPU-0", 4001 << 20, 26, 20)]
    assert rows(HELD, HELD, init) == [("GPU-0", 9000, 40), ("GPU-0", 1, 0)]


@pytest.mark.parametrize(
    "change",
    [{"exclusive": True}, {"terms": Terms("online")}, {"terms": Terms(qos="fixed-share")}],
)
def test_what_a_peer_cannot_say_is_the_whole_card(change: dict[str, object]) -> None:
    assert rows(replace(HELD, **change), HELD) == [("GPU-0", 16000, 100)]  # type: ignore[arg-type]


def test_a_card_that_the_peer_does_not_describe_is_left_out() -> None:
    card = replace(CARD, dialects=frozenset(("metax",)))

    assert expected("volcano", taken_of([HELD], [card])) == []


def test_records_are_read_as_peers_read_them_and_garbage_is_none() -> None:
    amounts = {"koordinator.sh/gpu-memory": "4001Mi", "koordinator.sh/gpu-memory-ratio": "26"}
    row = {"minor": 0, "id": "GPU-0", "resources": {"koordinator.sh/gpu-core": "20", **amounts}}

    assert said("koordinator", json.dumps({"gpu": [row]})) == rows(HELD, target="koordinator")
    assert said("volcano", "GPU-0,NVIDIA,4001,20:") == rows(HELD)
    for text in ("", "?", "[]", '{"gpu":[null]}', "a,b"):
        assert [said(target, text) for target in TARGETS] == [None, None]


@pytest.mark.parametrize(
    ("limits", "texts", "found"),
    [
        (HAMI, {RECORD: "GPU-0,NVIDIA,4001,20:", MARK: "true"}, 0),
        (HAMI, {RECORD: "GPU-0,NVIDIA,4001,20:"}, 1),
        (HAMI, {RECORD: "GPU-0,NVIDIA,1,20:", MARK: "true"}, 1),
        (HAMI, {}, 1),
        (VOLCANO, {RECORD: "GPU-0,NVIDIA,4001,20:"}, 0),
        (VOLCANO, {RECORD: "GPU-0,NVIDIA,4001,20:", MARK: "true"}, 1),
    ],
)
def test_a_pod_of_another_dialect_has_the_mirror_and_its_mark_and_one_of_the_same_has_no_mark(
    limits: dict[str, str], texts: dict[str, str], found: int
) -> None:
    assert wrong(limits, texts) == found
