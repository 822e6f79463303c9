"""The meter counts every millisecond of every allocation once."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from core.hardware.quantity import GIB
from core.ledger.node_ledger import (
    CONSUMERS,
    OTHERS,
    UNMETERED,
    Amounts,
    Consumer,
    Meter,
    NodeLedger,
    metered,
)
from core.tests.builders import DIALECT, a_grant, empty, held, like_cards

START = 1_700_000_000_000
"""Milliseconds since 1970."""

A, B = Consumer("a", DIALECT, "A100"), Consumer("b", DIALECT, "A100")


@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_totals_are_those_of_every_allocation_by_its_start_and_end(
    seed: random.Random, changes: int
) -> None:
    """Two writers, with clocks that differ, whose writes conflict and are repeated or lost."""
    record = metered(empty(*like_cards(2)), None, START)
    clock = START
    expected: dict[Consumer, Amounts] = {}
    for number in range(changes):
        clock += seed.randint(0, 5_000)
        now = max(clock + seed.choice((0, 0, -700)), record.meter.until)
        for consumer, amounts in slow(record).items():
            elapsed = now - record.meter.until
            expected[consumer] = expected.get(consumer, Amounts()).plus(amounts, elapsed)
        changed = changed_by(record, seed, number)
        # Another writer's attempt, which the store rejects, leaves nothing behind.
        metered(changed_by(record, seed, number + 1_000), record, now + 9)
        record = metered(changed, record, now)

    assert {name: sums for name, sums in record.meter.totals.items() if sums != Amounts()} == {
        name: sums for name, sums in expected.items() if sums != Amounts()
    }


def changed_by(ledger: NodeLedger, seed: random.Random, number: int) -> NodeLedger:
    uids = [*ledger.allocations]
    if uids and seed.random() < 0.4:
        return ledger.release(seed.choice(uids))
    grant = a_grant(f"c{seed.randint(0, 1)}", seed.randint(1, 4) * GIB, seed.randint(0, 50))
    allocation = replace(held(grant, uid=str(number)), pod=f"{seed.choice('ab')}/{number}")
    return ledger.adopt(allocation)


def slow(ledger: NodeLedger) -> dict[Consumer, Amounts]:
    """What is allocated, one grant after the other."""
    found: dict[Consumer, Amounts] = {}
    for allocation in ledger.allocations.values():
        (grant,) = allocation.grants
        consumer = Consumer(allocation.pod.partition("/")[0], DIALECT, "A100")
        share = Amounts(1, grant.memory, grant.compute)
        found[consumer] = found.get(consumer, Amounts()).plus(share)
    return found


def test_counting_begins_with_the_first_write() -> None:
    ledger = empty(*like_cards(1)).adopt(held(a_grant("c0", GIB)))

    assert metered(ledger, ledger, START).meter == Meter(START)


def test_a_clock_that_is_behind_counts_nothing_and_does_not_go_back() -> None:
    meter = Meter(START, {A: Amounts(1, 2, 3)})

    assert meter.advanced({A: Amounts(1)}, START - 5) is meter
    assert UNMETERED.advanced({A: Amounts(1)}, 0) is UNMETERED


def test_consumers_beyond_the_bound_are_counted_together() -> None:
    many = {Consumer(f"n{number:03}", "d", "m"): Amounts(1) for number in range(CONSUMERS + 2)}
    first = Meter(START).advanced(many, START + 10)
    meter = first.advanced(many, START + 20)

    assert len(first.totals) == len(meter.totals) == CONSUMERS + 1
    assert meter.totals[OTHERS] == Amounts(40)
    assert sum(each.shares for each in meter.totals.values()) == 20 * len(many)


def test_who_had_no_share_for_longest_makes_room() -> None:
    """Namespaces that come and go never end the count of those that stay."""
    meter = Meter(START).advanced({A: Amounts(1), B: Amounts(1)}, START + 10)
    for number in range(CONSUMERS - 1):
        new = Consumer(f"n{number:03}", "d", "m")
        meter = meter.advanced({A: Amounts(1), new: Amounts(1)}, START + 11 + number)

    assert len(meter.totals) == CONSUMERS
    assert meter.totals[A] == Amounts(10 + CONSUMERS - 1)
    assert not {B, OTHERS} & meter.totals.keys()
