from dataclasses import replace

from core.hardware.card import Level, Scope
from core.tests.builders import a_card


def test_a_card_knows_its_scope_of_each_level_where_it_has_one() -> None:
    card = replace(a_card(), links=(Scope(Level.NUMA, "0"), Scope(Level.LINK, "ring")))

    assert card.scope(Level.LINK) == Scope(Level.LINK, "ring")
    assert card.scope(Level.PCIE) is None


def test_levels_are_ordered_by_closeness() -> None:
    assert sorted(Level) == [Level.NODE, Level.NUMA, Level.PCIE, Level.LINK]
