"""What counts against a quota, by example and by property."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.feasibility.fit import fit
from core.hardware.card import Mode
from core.hardware.mig import Geometry
from core.hardware.node import Node
from core.hardware.quantity import GIB, MIB
from core.quota.amounts import (
    CARD,
    QuotaAmounts,
    QuotaLimits,
    amounts_of,
    format_cards,
    least,
    text,
)
from core.requests.grant import Allocation, Grant, Placement
from core.requests.request import ContainerRequest, Phase
from core.tests.builders import (
    A30ISH,
    a_card,
    a_container,
    a_grant,
    a_mig_card,
    a_node,
    a_request,
    a_sliced_grant,
    empty,
    unreadable,
)
from core.tests.builders import held as holding
from core.tests.strategies import a_random_node, a_random_request

NODE = a_node(a_card("a", memory=16 * GIB), a_card("b", 1, memory=24 * GIB))


@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        ([a_grant("a", 4 * GIB)], QuotaAmounts(250, 4 * GIB, 0)),
        ([a_grant("a", 4 * GIB, 50)], QuotaAmounts(500, 4 * GIB, 50)),
        ([a_grant("a", 1)], QuotaAmounts(1, 1, 0)),
        ([a_grant("a", 0)], QuotaAmounts(1, 0, 0)),
        ([a_grant("a", 8 * GIB), a_grant("b", 8 * GIB)], QuotaAmounts(834, 16 * GIB, 0)),
        ([replace(a_grant("a", GIB), exclusive=True)], QuotaAmounts(CARD, GIB, 0)),
        ([a_grant("gone", GIB, 10)], QuotaAmounts(CARD, GIB, 10)),
        ([a_grant("a", 99 * GIB, 200)], QuotaAmounts(CARD, 99 * GIB, 200)),
        (
            [
                Grant("init", "a", 12 * GIB, 10, phase=Phase.INIT),
                Grant("main", "a", 4 * GIB, 20),
            ],
            QuotaAmounts(750, 12 * GIB, 20),
        ),
    ],
)
def test_a_share_counts_as_the_larger_of_its_fractions(
    grants: list[Grant], expected: QuotaAmounts
) -> None:
    assert amounts_of(holding(*grants), NODE) == expected


def test_a_slice_counts_as_what_it_has() -> None:
    node = a_node(a_mig_card())

    assert amounts_of(holding(a_sliced_grant(0, 2)), node) == QuotaAmounts(500, 2 * GIB, 50)


def test_a_card_without_memory_counts_whole() -> None:
    assert amounts_of(holding(a_grant("a", 0)), a_node(a_card("a", memory=0))) == QuotaAmounts(
        CARD, 0, 0
    )


def test_a_card_of_which_a_pod_may_have_any_part_counts_whole() -> None:
    assert amounts_of(unreadable("u", ["a", "gone"]), NODE) == QuotaAmounts(2 * CARD, 16 * GIB, 200)


@pytest.mark.parametrize(
    ("container", "sizes", "expected"),
    [
        (a_container(4 * GIB, compute=10), [16 * GIB], QuotaAmounts(250, 4 * GIB, 10)),
        (a_container(4 * GIB, count=2), [16 * GIB, 8 * GIB], QuotaAmounts(500, 8 * GIB, 0)),
        (a_container(4 * GIB, compute=10), [], QuotaAmounts(100, 4 * GIB, 10)),
        (a_container(4 * GIB), [], QuotaAmounts(1, 4 * GIB, 0)),
        (
            ContainerRequest("main", 1, memory_percent=50),
            [16 * GIB, 8 * GIB],
            QuotaAmounts(250, 4 * GIB, 0),
        ),
        (ContainerRequest("main", 1, memory_percent=50), [], QuotaAmounts(1, 0, 0)),
        (
            ContainerRequest("main", 3, memory=GIB, exclusive=True),
            [16 * GIB],
            QuotaAmounts(3 * CARD, 3 * GIB, 0),
        ),
    ],
)
def test_what_a_request_counts_at_least(
    container: ContainerRequest, sizes: list[int], expected: QuotaAmounts
) -> None:
    cards = [a_card("a", memory=size) for size in sizes]

    assert least(a_request(container), cards) == expected


def test_containers_of_one_pod_may_share_a_card_and_count_at_their_peak() -> None:
    init = replace(a_container(8 * GIB, compute=10, name="init"), phase=Phase.INIT)
    request = a_request(init, a_container(4 * GIB, compute=30), a_container(2 * GIB, name="b"))

    assert least(request, [a_card("a", memory=16 * GIB)]) == QuotaAmounts(500, 8 * GIB, 30)
    assert least(request, []) == QuotaAmounts(300, 8 * GIB, 30)


def test_containers_that_share_a_card_of_more_than_100_percent_count_one_card_at_least() -> None:
    request = a_request(a_container(GIB, compute=100), a_container(GIB, compute=100, name="b"))
    card = a_card("a", memory=16 * GIB)

    assert least(request, [card]).cards == 2 * CARD
    assert least(request, [card, replace(card, compute=200)]).cards == CARD


@example(1467)
@given(st.integers(0, 1 << 32))
def test_no_allocation_counts_less_than_its_request_at_least(number: int) -> None:
    seed = Random(number)  # noqa: S311
    node: Node = a_random_node(seed, "n0", 3)
    drawn = a_random_request(seed, "p", 3)
    in_start_order = sorted(drawn.containers, key=lambda each: each.phase is Phase.MAIN)
    request = replace(drawn, containers=tuple(in_start_order))
    placement = fit(request, empty(*node.cards, name="n0"))

    if isinstance(placement, Placement):
        counted = amounts_of(Allocation.of(request, placement), node)
        assert least(request, node.cards).within(counted)


@pytest.mark.parametrize(
    ("container", "slice_memory"),
    [(a_container(GIB + 100), GIB), (ContainerRequest("main", 1, memory_percent=100), 4 * GIB)],
)
def test_a_request_counts_at_least_the_slice_that_has_less_than_it_asks_for(
    container: ContainerRequest, slice_memory: int
) -> None:
    """Because of the slice's configured size, or because no slice is the whole card."""
    configured = Geometry(
        tuple(
            replace(each, configured=tuple(slot.memory + 100 for slot in each.slices))
            for each in A30ISH.layouts
        )
    )
    card = replace(a_mig_card(), memory=4 * GIB + 1, geometry=configured)
    request = replace(a_request(container), modes=frozenset({Mode.MIG}), by_configured_size=True)
    placement = fit(request, empty(card))

    assert isinstance(placement, Placement)
    counted = amounts_of(Allocation.of(request, placement), a_node(card))
    assert counted.memory == slice_memory
    assert least(request, [card]).within(counted)


def test_limits_name_what_is_exceeded() -> None:
    limits = QuotaLimits(cards=1000, memory=GIB)

    assert limits.exceeded(QuotaAmounts(1000, GIB, 900)) == ()
    assert limits.exceeded(QuotaAmounts(1001, GIB + 1, 0)) == ("cards", "memory")


def test_amounts_are_printed_in_the_units_of_people() -> None:
    assert [format_cards(each) for each in (0, 1, 500, 1000, 1250)] == [
        "0", "0.001", "0.5", "1", "1.25",
    ]  # fmt: skip
    assert [
        text("cards", 1000), text("cards", 1500), text("memory", 23 * GIB), text("memory", 3 * MIB),
        text("memory", 5), text("compute", 150),
    ] == ["1 card", "1.5 cards", "23 GiB", "3 MiB", "5 bytes", "150%"]  # fmt: skip


def test_the_strictest_of_two_limits_has_the_lower_one_of_each_resource() -> None:
    one, other = QuotaLimits(cards=2000, memory=GIB), QuotaLimits(cards=1000, compute=50)

    assert one.strictest(other) == QuotaLimits(1000, GIB, 50) == other.strictest(one)
    assert one.strictest(QuotaLimits()) == one
