import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.model import CardLoad, Hardware
from adapters.agent.hardware.watcher import HardwareWatcher
from adapters.agent.injection.profiles import PROFILES
from adapters.dialects.dra.conditions import COMMITTED, REJECTED
from adapters.dra_driver.__main__ import BAD_INPUT, main
from adapters.dra_driver.main import NodeCards
from adapters.dra_driver.tests.cards import card
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger

ROOT = Path(__file__).parents[3]


class Source:
    """Cards that a test lists."""

    def __init__(self, *cards: Card) -> None:
        self.cards = cards

    def read(self) -> Hardware:
        return Hardware(self.cards)

    def loads(self) -> dict[str, CardLoad]:
        return {}


def node_cards(source: Source | None, *recorded: Card, known: bool = True) -> NodeCards:
    grants = LedgerGrants(NodeLedger.of(Node("n1", recorded)) if known else None)
    watcher = HardwareWatcher(source)
    watcher.read_first()
    return NodeCards("n1", watcher, grants, PROFILES, 7)


def published(cards: NodeCards) -> list[dict[str, object]]:
    pools = cards.pools()
    assert pools is not None
    return [each for pool in pools for item in pool.slices.values() for each in item["devices"]]


def test_nothing_is_published_before_the_ledger_is_known() -> None:
    assert node_cards(Source(card(0)), known=False).pools() is None


def test_devices_have_the_conditions_that_the_service_writes() -> None:
    cards = replace(node_cards(Source(card(0))), conditions=True)

    (device,) = published(cards)

    assert device["bindingConditions"] == [COMMITTED]
    assert device["bindingFailureConditions"] == [REJECTED]


def test_a_card_has_what_hardware_and_ledger_both_allow() -> None:
    recorded = replace(card(0), memory=40 * GIB, slots=4, healthy=False)

    (device,) = published(node_cards(Source(card(0)), recorded))

    assert "taints" in device
    assert isinstance(device["capacity"], dict)
    assert device["capacity"]["memory"]["value"] == "40960Mi"
    assert device["capacity"]["slots"]["value"] == "4"


def test_a_card_that_the_ledger_lacks_has_the_places_of_the_configuration() -> None:
    (device,) = published(node_cards(Source(card(0))))

    assert isinstance(device["capacity"], dict)
    assert device["capacity"]["slots"]["value"] == "7"


def test_without_a_source_the_cards_are_the_ledgers() -> None:
    assert [each["name"] for each in published(node_cards(None, card(1)))] == ["gpu-1"]


def test_cards_that_another_component_serves_are_not_published() -> None:
    cards = node_cards(Source(card(0), replace(card(1), vendor="metax")), card(0))

    assert [each["name"] for each in published(cards)] == ["gpu-0"]
    assert cards.cards() == {"gpu-0": "GPU-0"}


def test_a_missing_or_invalid_configuration_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "node.yaml").write_text("dra: {kubelt: x}")

    assert main([]) == BAD_INPUT
    assert main([str(tmp_path / "node.yaml")]) == BAD_INPUT
    assert "kubelt" in capsys.readouterr().err


def test_the_agent_does_not_import_the_driver() -> None:
    text = "import adapters.agent.__main__, sys; print([m for m in sys.modules if 'grpc' in m])"

    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert done.stdout.strip() == "[]"
