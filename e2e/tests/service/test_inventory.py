"""Cards that the harness gives to nodes come back from the API server as the product reads them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec
import pytest

from adapters.dialects.dialect import Defaults
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialects
from adapters.wire.kube import DeviceObject, KubeNode
from core.hardware.card import Level, Mode, Scope
from core.hardware.node import Node
from e2e.harness.cluster.api import Api
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import cluster, wait_for_nodes
from e2e.harness.names import DEVICES
from e2e.harness.processes.usage import processor_seconds
from e2e.harness.schedulers.schedulers import define
from e2e.harness.workloads.inventory import (
    MIB,
    SLOTS,
    DialectRecords,
    Gpu,
    add_inventory,
    described,
    gpus,
    koordinator,
    metax,
    metax_whole,
    volcano,
)
from e2e.testbed import cache

pytestmark = pytest.mark.local

MANY = 200
"""Nodes; bench/scale.py makes thousands."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([]) as plane:
        define(plane, cache.asset("koordinator", "crd"))
        yield plane


def read_all(api: Api) -> dict[str, Node]:
    """Every node of the cluster as the product reads it; the product reports no problem."""
    words = dialects({}, Defaults())
    devices = {
        device.metadata.name: device
        for device in msgspec.convert(api.get(DEVICES)["items"], list[DeviceObject])
    }
    nodes = {}
    for kube in msgspec.convert(api.get("/api/v1/nodes")["items"], list[KubeNode]):
        name = kube.metadata.name
        nodes[name], problems = read_node(kube, devices.get(name), words)
        assert problems == ()
    return nodes


def add_one(plane: ControlPlane, name: str, *sayings: DialectRecords) -> Node:
    add_inventory(plane.api, [described(name, *sayings)])
    return read_all(plane.api)[name]


@pytest.mark.parametrize("saying", [volcano, koordinator, metax])
def test_every_dialect_gives_the_cards_that_were_asked_for(
    plane: ControlPlane, saying: Callable[[Sequence[Gpu]], DialectRecords]
) -> None:
    name = f"one-{saying.__name__}"
    first, *others = gpus(name, 8)
    cards = [replace(first, healthy=False), *others]

    node = add_one(plane, name, saying(cards))

    assert [
        (card.uuid, card.memory, card.index, card.healthy, card.mode, card.dialects)
        for card in node.cards
    ] == [
        (
            card.uuid,
            card.memory * MIB,
            index,
            card.healthy,
            Mode.SHARED,
            frozenset({saying.__name__}),
        )
        for index, card in enumerate(cards)
    ]
    assert all(card.model in read.model for card, read in zip(cards, node.cards, strict=True))


def test_dialects_that_know_places_give_them(plane: ControlPlane) -> None:
    name = "places"
    cards = gpus(name, 8)

    node = add_one(plane, name, koordinator(cards, vendor="metax"), metax(cards))

    assert [card.numa for card in node.cards] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [card.scope(Level.LINK) for card in node.cards] == [
        Scope(Level.LINK, "1" if index < 4 else "2") for index in range(8)
    ]
    assert [card.scope(Level.PCIE) for card in node.cards] == [
        Scope(Level.PCIE, f"pci0000:0{index // 2}") for index in range(8)
    ]


def test_a_card_that_two_dialects_describe_is_one(plane: ControlPlane) -> None:
    name = "two"
    cards = gpus(name, 4)

    node = add_one(plane, name, volcano(cards), koordinator(cards))

    assert [card.dialects for card in node.cards] == [frozenset({"volcano", "koordinator"})] * 4
    assert [card.slots for card in node.cards] == [SLOTS] * 4


def test_cards_in_mig_mode_are_read_as_such(plane: ControlPlane) -> None:
    node = add_one(plane, "mig", volcano(gpus("mig", 2), mode="mig"))

    assert [card.mode for card in node.cards] == [Mode.MIG] * 2


def test_metax_cards_of_which_only_the_number_is_known_are_whole(plane: ControlPlane) -> None:
    node = add_one(plane, "whole", metax_whole(8))

    assert [card.mode for card in node.cards] == [Mode.WHOLE] * 8
    assert len({card.uuid for card in node.cards}) == 8


def test_many_nodes_are_made_at_once_and_read(plane: ControlPlane) -> None:
    sayings = (volcano, koordinator, metax)
    rows = [
        described(name, sayings[number % 3](gpus(name, 8)))
        for number in range(MANY)
        for name in [f"many-{number}"]
    ]
    worked = processor_seconds(plane.run)
    started = time.monotonic()

    add_inventory(plane.api, rows)
    made = time.monotonic() - started
    wait_for_nodes(plane.api)  # the controllers see to one after the other
    ready = time.monotonic() - started
    read = [node for name, node in read_all(plane.api).items() if name.startswith("many-")]
    reading = time.monotonic() - started - ready

    print(f"{MANY} nodes with 8 cards made in {made:.1f} s, ready after {ready:.1f} s;", end=" ")
    print(f"fetched and read in {reading:.1f} s; processor seconds:", end=" ")
    print(
        {name: round(now - worked[name], 1) for name, now in processor_seconds(plane.run).items()}
    )
    assert sum(len(node.cards) for node in read) == MANY * 8
