from dataclasses import replace

from core.feasibility.columns import NodeClassIds, hardware_class
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
    ids = NodeClassIds()
    one, same, other = (
        ids.of(NodeLedger.of(node))
        for node in (
            a_linked_node("x", "p", "p", "q"),
            a_linked_node("y", "q", "q", "p"),
            a_linked_node("z", "p", "q", "q"),
        )
    )

    assert one == same != other


def test_an_unhealthy_card_changes_the_state_and_not_the_hardware_class() -> None:
    well = empty(a_card())
    ill = empty(replace(a_card(), healthy=False))

    assert hardware_class(well.node) == hardware_class(ill.node)
    ids = NodeClassIds()
    assert ids.of(well) != ids.of(ill)


def test_what_a_pod_is_called_does_not_count() -> None:
    one = empty(a_card()).adopt(held(a_grant(), uid="one"))
    other = empty(a_card("b"), name="m").adopt(held(a_grant("b"), uid="other"))

    ids = NodeClassIds()
    assert ids.of(one) == ids.of(other)


def test_past_the_limit_ids_are_new_ones() -> None:
    ids = NodeClassIds(limit=1)
    first, second = empty(a_card()), empty(a_card(), a_card("b", 1), name="m")
    before = [ids.of(first), ids.of(second)]

    after = [ids.of(second), ids.of(first)]

    assert len({*before, *after}) == 4


def test_the_id_of_a_node_does_not_depend_on_what_is_allocated_nor_on_names() -> None:
    ids = NodeClassIds()
    used = empty(a_card()).adopt(held(a_grant()))
    renamed = empty(a_card("b"), name="m")
    larger = empty(a_card(), a_card("b", 1), name="l")

    assert ids.of_node(used.node) == ids.of_node(renamed.node) != ids.of_node(larger.node)
    assert ids.of_node(used.node) == ids.of_node(used.node)


def test_past_the_limit_nodes_are_dropped_and_equal_hardware_keeps_one_id() -> None:
    ids = NodeClassIds(limit=1)
    nodes = [empty(a_card(f"c{number}"), name=f"n{number}").node for number in range(5)]

    assert len({ids.of_node(node) for node in nodes}) == 1


def test_past_the_limit_kinds_of_hardware_are_dropped_and_never_confused() -> None:
    ids = NodeClassIds(limit=1)
    kinds = [empty(*(a_card(f"c{n}", n) for n in range(1 + kind))) for kind in range(4)]

    assert len({ids.of(replace(kind, node=replace(kind.node))) for kind in kinds}) == len(kinds)
