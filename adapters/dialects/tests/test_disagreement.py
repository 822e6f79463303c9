"""The record on a bound pod beside its request."""

import json

import pytest

from adapters.dialects.adoption import disagreements
from adapters.dialects.allocation_record import KEY, encode
from adapters.dialects.tests.builders import ALL, NODE, bound
from adapters.wire.kube import Amount
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB, MIB
from core.requests.grant import Grant

SHARE: dict[str, Amount] = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3072}
LISTED = "volcano.sh/vgpu-ids-new"


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({}, ()),
        ({LISTED: "u1,NVIDIA,3072,0:"}, ()),
        ({LISTED: "gone,NVIDIA,1,0:"}, ()),
        ({LISTED: "?"}, ()),
        (
            {LISTED: "u1,NVIDIA,1024,50:"},
            ("its record gives c 1.0 GiB and 50% of u1, its request 3.0 GiB",),
        ),
        (
            {KEY: encode((Grant("x", "u1", MIB, 0),))},
            ("its record names container 'x', which requests no share",),
        ),
    ],
)
def test_a_record_is_compared_with_the_request(
    record: dict[str, str], found: tuple[str, ...]
) -> None:
    assert disagreements(bound(SHARE, record), NODE, ALL) == found


KOORDINATOR_CARD = Card(
    "k0", "n", 0, "nvidia", "A100", 32 * GIB, 100, dialects=frozenset({"koordinator"})
)


def of_koordinator(limits: dict[str, Amount], memory: int) -> tuple[str, ...]:
    """What differs in a record of these bytes of a card of 32 GiB."""
    resources = {"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory": str(memory)}
    record = {"gpu": [{"minor": 0, "id": "k0", "resources": resources}]}
    annotations = {"scheduling.koordinator.sh/device-allocated": json.dumps(record)}
    asked: dict[str, Amount] = {"koordinator.sh/gpu-core": 30, **limits}
    return disagreements(bound(asked, annotations), Node("n", (KOORDINATOR_CARD,)), ALL)


@pytest.mark.parametrize(
    ("memory", "differs"), [(509, True), (510, False), (511, False), (512, True)]
)
def test_a_part_of_a_card_may_be_rounded_either_way_to_the_unit_of_the_record(
    memory: int, *, differs: bool
) -> None:
    """30 % of 32 GiB are 10307921510.4 bytes.

    Source: Koordinator v1.8.0 pkg/scheduler/plugins/deviceshare/devicehandler_gpu.go:128 rounds
    down; the Value of a Kubernetes quantity with a fraction of a byte is rounded up.
    """
    found = of_koordinator({"koordinator.sh/gpu-memory-ratio": 30}, 10307921000 + memory)

    assert bool(found) is differs


def test_a_part_without_a_fraction_is_not_rounded() -> None:
    half = 16 * GIB
    limits: dict[str, Amount] = {"koordinator.sh/gpu-memory-ratio": 50}

    assert of_koordinator(limits, half) == ()
    assert of_koordinator(limits, half + 1) != ()
    assert of_koordinator({"koordinator.sh/gpu-memory": half}, half + 1) != ()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (GIB, "17.0 GiB and 30% of k0, its request 16.0 GiB and 30%"),
        (MIB, "16385 MiB and 30% of k0, its request 16 GiB and 30%"),
        (1, "17179869185 bytes and 30% of k0, its request 17179869184 bytes and 30%"),
    ],
)
def test_amounts_that_differ_are_printed_so_that_they_differ(more: int, text: str) -> None:
    found = of_koordinator({"koordinator.sh/gpu-memory": 16 * GIB}, 16 * GIB + more)

    assert found == (f"its record gives c {text}",)


def test_a_pod_of_no_dialect_and_one_that_names_no_containers_are_not_compared() -> None:
    assert disagreements(bound({"cpu": 1}, {LISTED: "u1,NVIDIA,1,0:"}), NODE, ALL) == ()
    for_the_pod = {KEY: encode((Grant("", "u1", MIB, 0),))}
    assert disagreements(bound(SHARE, for_the_pod), NODE, ALL) == ()
