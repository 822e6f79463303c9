"""What cards cost of which each pod takes more than half."""

from dataclasses import replace

import pytest

from core.hardware.card import Mode
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.moves.bound import MOST, CardPrices
from core.moves.search import never
from core.moves.situation import PlannedPod
from core.moves.tests.builders import a_pod, on, places
from core.tests.builders import a_container, a_ledger


def held(*pods: PlannedPod, cards: int = 1) -> NodeLedger:
    """A node of cards of 16 GiB, on the first of which are these pods."""
    ledger = a_ledger(cards=cards)
    for pod in pods:
        ledger = on(ledger, pod, "n-0")
    return ledger


def cost(ledger: NodeLedger, movable: list[PlannedPod], *waiting: PlannedPod) -> int:
    prices = CardPrices(waiting, places(ledger, movable=movable), never)
    return int(prices.cost([pod.request.uid for pod in waiting]))


def test_each_pod_has_a_card_of_its_own() -> None:
    few = [a_pod("a", 4, ["n"], 3), a_pod("b", 4, ["n"], 1), a_pod("c", 4, ["n"], 2)]
    first, second = a_pod("w1", 12, ["n"], 0), a_pod("w2", 12, ["n"], 0)

    # Of 12 GiB on the first card 8 have to leave: the two lightest pods; the second card is free.
    assert cost(held(*few, cards=2), few, first) == 0
    assert cost(held(*few, cards=2), few, first, second) == 3


def test_pods_of_two_kinds_cost_what_both_cost() -> None:
    a = a_pod("a", 10, ["n"], 5)
    ledger = held(a)

    assert cost(ledger, [a], a_pod("w1", 9, ["n"], 0), a_pod("w2", 10, ["n"], 0)) == 10


def test_pods_that_may_share_a_card_cost_nothing() -> None:
    a = a_pod("a", 10, ["n"], 5)
    half = a_pod("w", 8, ["n"], 0)
    two = replace(half.request, containers=(a_container(9 * GIB), a_container(9 * GIB, name="b")))

    assert cost(held(a), [a], half) == 0
    assert cost(held(a), [a], replace(half, request=two)) == 0


def test_cards_in_mig_mode_have_no_price() -> None:
    a = a_pod("a", 10, ["n"], 5)
    ledger = held(a)
    cut = tuple(replace(card, mode=Mode.MIG) for card in ledger.node.cards)
    modes = frozenset({Mode.MIG, Mode.SHARED})
    pod = a_pod("w", 9, ["n"], 0)

    wants = replace(pod, request=replace(pod.request, modes=modes))
    assert cost(ledger.with_node(replace(ledger.node, cards=cut)), [a], wants) == 0


def test_a_card_of_which_too_little_may_leave_has_no_price() -> None:
    a, b = a_pod("a", 4, ["n"], 5), a_pod("b", 8, ["n"], 5)

    assert cost(held(a, b), [a], a_pod("w", 12, ["n"], 0)) == 0


def test_of_many_pods_on_a_card_one_leaves_at_least() -> None:
    many = [a_pod(f"p{number}", 1, ["n"], 2) for number in range(MOST + 1)]
    ledger = held()
    roomy = ledger.with_node(replace(ledger.node, cards=(replace(ledger.node.cards[0], slots=40),)))
    for pod in many:
        roomy = on(roomy, pod, "n-0")

    assert cost(roomy, many, a_pod("w", 12, ["n"], 0)) == 2


@pytest.mark.parametrize(("count", "expected"), [(1, 0), (2, 4)])
def test_a_pod_with_several_cards_has_them_of_one_node(count: int, expected: int) -> None:
    a = a_pod("a", 10, ["n"], 4)
    pod = a_pod("w", 12, ["n"], 0)
    (container,) = pod.request.containers
    wants = replace(pod.request, containers=(replace(container, count=count),))

    assert cost(held(a, cards=2), [a], replace(pod, request=wants)) == expected
