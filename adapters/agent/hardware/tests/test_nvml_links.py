"""Tests on a stand-in of NVML without cards; see ``nvml_stand_in.c``."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapters.agent.hardware.nvidia import groups, scopes
from adapters.agent.tests.stand_in import begin
from adapters.agent.tests.stand_in import nvml as the_nvml
from core.hardware.card import Level

SWITCH = 9


def names(library: Any, level: Level) -> list[str]:
    """The scope of each card at a level, or nothing."""
    nvml = the_nvml(library)
    found = scopes(nvml, nvml.cards())
    return [
        next((scope.name for scope in belongs if scope.level is level), "")
        for belongs in found.values()
    ]


def linked(library: Any, *pairs: tuple[int, int]) -> None:
    """Let cards be connected, each pair by a link of its own."""
    used = dict.fromkeys(range(8), 0)
    for pair in pairs:
        for card, peer in (pair, pair[::-1]):
            library.stand_in_link(card, used[card], peer + 1)
            used[card] += 1


def test_cards_below_the_same_pcie_switches_are_near_each_other() -> None:
    library = begin(4)
    for card, tree in enumerate((1, 2, 1, 2)):
        library.stand_in_switch(card, tree)

    assert names(library, Level.PCIE) == ["pcie-0", "pcie-1", "pcie-0", "pcie-1"]
    assert names(library, Level.LINK) == [""] * 4


def test_cards_on_nvlinks_switches_are_all_connected() -> None:
    library = begin(3)
    for card in (0, 2):
        library.stand_in_link(card, 0, SWITCH)

    assert names(library, Level.LINK) == ["nvlink-0", "", "nvlink-0"]


def test_bridges_connect_pairs() -> None:
    library = begin(4)
    linked(library, (0, 3), (1, 2))

    assert names(library, Level.LINK) == ["nvlink-0", "nvlink-1", "nvlink-1", "nvlink-0"]


def test_a_group_in_a_mesh_has_only_cards_that_are_all_connected() -> None:
    library = begin(8)
    quads = [
        (left + base, right + base)
        for base in (0, 4)
        for left, right in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    ]
    linked(library, *quads, *((card, card + 4) for card in range(4)))

    assert names(library, Level.LINK) == ["nvlink-0"] * 4 + ["nvlink-4"] * 4


def test_a_link_that_only_one_end_reports_does_not_count() -> None:
    library = begin(2)
    library.stand_in_link(0, 0, 2)

    assert names(library, Level.LINK) == ["", ""]


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))))
def test_any_two_of_a_group_are_a_pair_and_every_card_is_in_one_group(
    drawn: set[tuple[int, int]],
) -> None:
    cards = [str(number) for number in range(8)]
    pairs = {(str(left), str(right)) for left, right in drawn}

    found = groups(cards, pairs)

    assert sorted(card for group in found for card in group) == cards
    assert all(
        (left, right) in pairs
        for group in found
        for place, right in enumerate(group)
        for left in group[:place]
    )
