from dataclasses import replace

from core.tests.builders import a_grant, held


def test_an_allocation_has_the_cards_of_its_grants_and_those_that_it_may_have() -> None:
    allocation = replace(held(a_grant("a"), a_grant("b")), blocked=frozenset({"b", "c"}))

    assert allocation.cards == {"a", "b", "c"}
