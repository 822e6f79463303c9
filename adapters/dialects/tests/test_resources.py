"""The extended resources that each dialect publishes for a node that all of them describe."""

from dataclasses import replace

import pytest

from adapters.dialects.dialect import Dialect
from adapters.dialects.tests.builders import ALL, NODE
from core.hardware.quantity import GIB

EXPECTED = {
    "volcano": {
        "volcano.sh/vgpu-number": 30,
        "volcano.sh/vgpu-cores": 300,
        "volcano.sh/vgpu-memory": 2 * 81920 + 40960,
    },
    "koordinator": {
        "koordinator.sh/gpu": 200,
        "koordinator.sh/gpu-core": 200,
        "koordinator.sh/gpu-memory": 160 * GIB,
        "koordinator.sh/gpu-memory-ratio": 200,
        "koordinator.sh/gpu.shared": 200,
    },
    "metax": {"metax-tech.com/sgpu": 32},
    "hami": {},
    "nvidia": {},
}


def test_each_dialect_counts_the_cards_that_it_describes() -> None:
    assert {dialect.name: dialect.resources(NODE.cards) for dialect in ALL} == EXPECTED


def test_cards_that_are_not_healthy_do_not_count() -> None:
    sick = [replace(card, healthy=False) for card in NODE.cards]

    published = {dialect.name: dialect.resources(sick) for dialect in ALL}

    assert published == {name: dict.fromkeys(amounts, 0) for name, amounts in EXPECTED.items()}


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
def test_a_dialect_publishes_nothing_where_it_describes_no_card(dialect: Dialect) -> None:
    others = [card for card in NODE.cards if dialect.name not in card.dialects]

    assert dialect.resources(others) == {}
