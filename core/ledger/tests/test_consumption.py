"""What namespaces have of the cards of a node."""

from dataclasses import replace

from core.hardware.quantity import GIB
from core.ledger.node_ledger import Amounts, Consumer, consumption
from core.tests.builders import DIALECT, a_grant, empty, held, like_cards, unreadable


def test_pods_of_a_namespace_are_counted_together_by_dialect_and_model() -> None:
    a100, other = like_cards(2)
    ledger = empty(a100, replace(other, model="H100"))
    two_cards = held(a_grant("c0", 2 * GIB, 10), a_grant("c1", 3 * GIB, 20), uid="a")
    ledger = ledger.adopt(two_cards).adopt(held(a_grant("c0", GIB, 5), uid="b"))
    ledger = ledger.adopt(replace(held(a_grant("c1", GIB), uid="c"), pod="team/c", dialect="x"))

    assert consumption(ledger) == {
        Consumer("default", DIALECT, "A100"): Amounts(2, 3 * GIB, 15),
        Consumer("default", DIALECT, "H100"): Amounts(1, 3 * GIB, 20),
        Consumer("team", "x", "H100"): Amounts(1, GIB, 0),
    }


def test_the_sum_of_memory_is_that_of_the_cards() -> None:
    ledger = empty(*like_cards(2))
    for number in range(4):
        ledger = ledger.adopt(held(a_grant(f"c{number % 2}", GIB * number), uid=str(number)))

    total = sum(each.memory for each in consumption(ledger).values())
    assert total == sum(usage.memory for usage in ledger.usages)


def test_a_pod_with_unknown_cards_is_left_out() -> None:
    ledger = empty(*like_cards(1)).adopt(unreadable("u", ["c0"]))

    assert consumption(ledger) == {}
