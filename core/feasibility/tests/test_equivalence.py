from dataclasses import replace

from core.feasibility.equivalence import NodeClassIds, hardware_class, node_state
from core.hardware.card import Level, Scope
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.tests.builders import a_card, a_grant, a_node, empty, held


def a_linked_node(name: str, *links: str) -> Node:
    cards = [
        replace(a_card(f"{name}-{index}", index), links=(Scope(Level.LINK, link),))
        for index, link in enumerate(links)
    ]
    return a_node(*cards, name=name)


def test_names_of_scopes_do_not_count_but_who_shares_one_does() -> None:
    one, same, other = (
        node_state(NodeLedger.of(node))
        for node in (
            a_linked_node("x", "p", "p", "q"),
            a_linked_node("y", "q", "q", "p"),
            a_linked_node("z", "p", "q", "q"),
        )
    )

    assert one == same != other


def test_a_card_that_falls_ill_keeps_its_shape_and_loses_its_likeness() -> None:
    well = empty(a_card())
    ill = empty(replace(a_card(), healthy=False))

    assert hardware_class(well.node) == hardware_class(ill.node)
    assert node_state(well) != node_state(ill)


def test_what_a_pod_is_called_does_not_count() -> None:
    one = empty(a_card()).adopt(held(a_grant(), uid="one"))
    other = empty(a_card("b"), name="m").adopt(held(a_grant("b"), uid="other"))

    assert node_state(one) == node_state(other)


def test_past_the_limit_numbers_are_given_anew() -> None:
    kinds = NodeClassIds(limit=1)
    first, second = empty(a_card()), empty(a_card(), a_card("b", 1), name="m")
    before = [kinds.of(first), kinds.of(second)]

    after = [kinds.of(second), kinds.of(first)]

    assert len({*before, *after}) == 4
