"""Fractions that NVIDIA's driver or KAI give are holders of the card that they name."""

import pytest

from adapters.cli.tests.builders import Plain, node, pod, report, uuid, volcano
from adapters.cli.tests.command import command

DEVICES = "nvidia.com/container.main.gpus.devices"
REQUEST = "nvidia.com/container.main.gpu-memory.request"


def a_fraction(name: str, **texts: str) -> Plain:
    return pod(
        name,
        metadata={"uid": name, "annotations": {DEVICES: uuid(0), **texts}},
        spec={"nodeName": "node-a", "schedulerName": "kai-scheduler"},
        status={"phase": "Running"},
    )


def a_reservation() -> Plain:
    annotations = {"run.ai/reserve_for_gpu_index": uuid(0)}
    namespace = "kai-resource-reservation"
    return pod(
        "gpu-reservation-x",
        {"nvidia.com/gpu": 1},
        metadata={"namespace": namespace, "uid": "r", "annotations": annotations},
        spec={"nodeName": "node-a"},
        status={"phase": "Running"},
    )


def test_fractions_leave_the_rest_of_their_card_and_other_cards() -> None:
    held = (a_fraction("f", **{REQUEST: "4Gi"}), a_fraction("g", **{REQUEST: "4Gi"}))

    found = report(node(cards=2), *held, pod("p", volcano(1000)), pod("q", volcano(9000)))

    cards = {card["uuid"]: set(card["sharers"]) for card in found["cards"]}
    assert {"default/f", "default/g"} <= cards[uuid(0)]
    assert all(line["placed"] for line in found["pods"] if line["name"] in ("p", "q"))


@pytest.mark.parametrize(
    "held",
    [
        (a_reservation(),),
        (a_reservation(), a_fraction("f", **{REQUEST: "4Gi"}), a_fraction("g")),
        (a_fraction("f", **{REQUEST: "half"}),),
    ],
    ids=["reservation", "reservation and fractions", "no amount"],
)
def test_a_card_of_which_an_unknown_part_is_given_gets_no_other_pod(held: tuple[Plain]) -> None:
    one = command("schedule", things=[node(cards=2), *held, pod("p", volcano(9000))])
    two = command(
        "schedule",
        things=[node(cards=2), *held, pod("p", volcano(9000)), pod("q", volcano(9000))],
    )
    audit = command("audit", things=[node(cards=2), *held])

    assert one.exit_code == 0, one.output
    assert two.exit_code == 1
    assert "may be in use by a pod whose card the kubelet chose" in two.stdout
    assert audit.exit_code == 0
    assert "no findings" in audit.stdout
