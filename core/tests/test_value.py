from dataclasses import fields

import pytest

from core.hardware.card import Card
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardShare, CardUsage
from core.requests.grant import Allocation, Grant
from core.tests.builders import a_card, a_grant, a_node, held

VALUES = (Card, NodeLedger, CardShare, CardUsage, Allocation, Grant)


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_has_its_fields_and_no_others(kind: type) -> None:
    assert vars(kind)["__slots__"] == tuple(each.name for each in fields(kind))
    assert "__dict__" not in dir(kind)


def test_equal_values_are_one_key() -> None:
    for one, equal, other in (
        (a_card("a"), a_card("a"), a_card("b")),
        (a_grant("a"), a_grant("a"), a_grant("b")),
        (held(a_grant("a")), held(a_grant("a")), held(a_grant("b"))),
    ):
        assert {one: "found"}.get(equal) == "found"
        assert one != other


def test_ledgers_are_compared_by_all_fields() -> None:
    node = a_node(a_card("a"))

    assert NodeLedger.of(node) == NodeLedger.of(node)
    assert NodeLedger.of(node) != NodeLedger.of(node).adopt(held(a_grant("a")))
