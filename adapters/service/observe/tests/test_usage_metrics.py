"""Usage is exact, and no series steps back where leaders, clocks and watches change."""

import random
import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.exported_metrics import MARGIN, UsageMetrics
from adapters.service.observe.metrics import plain
from adapters.service.tests.builders import run, stored
from adapters.stores.store import Change, Stored
from adapters.wire.records.ledger import decode, encode
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger, metered
from core.tests.builders import a_grant, empty, held, like_cards

_LINE = re.compile(r'^(\w+)\{.*namespace="(\w+)".*\} (\S+)$', re.MULTILINE)
START = 1_700_000_000_000
SECOND = 1_000

Series = dict[tuple[str, str], float]
"""By name and namespace."""


class Replica:
    """One process, which sees the store's records late and has a clock of its own."""

    def __init__(self, record: NodeLedger, skew: int) -> None:
        self.ledgers = LedgerCache()
        self.ledgers.load({"n": stored(record)})
        self.skew = skew
        self.now = 0
        self.led_from: int | None = None
        self.fresh = 0
        self.usage = UsageMetrics(
            self.ledgers,
            lambda: self.now + self.skew,
            lambda: self.now,
            self._led_for,
            self._staleness,
        )

    def _led_for(self) -> float:
        return 0.0 if self.led_from is None else (self.now - self.led_from) / SECOND

    def _staleness(self) -> float:
        return (self.now - self.fresh) / SECOND

    def scrape(self, now: int) -> Series:
        self.now = now
        text = plain(b"", run(self.usage.families())).decode()
        return {(name, space): float(value) for name, space, value in _LINE.findall(text)}


@settings(max_examples=50)
@given(st.randoms(use_true_random=False))
def test_the_leaders_series_never_step_back_and_end_at_the_exact_sums(seed: random.Random) -> None:
    now = START
    record = metered(empty(*like_cards(1)), None, now)
    replicas = [Replica(record, seed.randint(-4_900, 4_900)) for _ in range(2)]
    leader = replicas[0]
    leader.led_from = now
    last: Series = {}
    exact = 0
    for number in range(30):
        before = len(record.allocations)
        step = seed.randint(1, 20_000)
        now += step
        writer = seed.choice(replicas)
        earlier = record.meter.until
        if seed.random() < 0.4:
            # Each write is read back as another process reads it.
            changed = change(record, seed, number)
            record = decode(encode(metered(changed, record, now + writer.skew)))
            exact += before * (record.meter.until - earlier)
        for replica in replicas:
            if seed.random() < 0.6:  # the others' watches are behind
                replica.ledgers.apply(Change("n", Stored(record, str(number))))
                replica.fresh = now
        if seed.random() < 0.1:  # it ends, and the other is elected, or the same after a restart
            leader.led_from = None
            place = seed.randint(0, 1)
            if seed.random() < 0.5:
                replicas[place] = Replica(record, seed.randint(-4_900, 4_900))
                replicas[place].fresh = now
            leader = replicas[place]
            leader.led_from = now
        found = leader.scrape(now)
        assert all(found[name] >= last[name] for name in found.keys() & last.keys())
        last |= found

    leader.ledgers.apply(Change("n", Stored(record, "end")))
    leader.led_from, now = now, record.meter.until + 10**7
    leader.fresh = now
    found = leader.scrape(now)
    until = now + leader.skew - int(MARGIN * SECOND)
    exact += len(record.allocations) * (until - record.meter.until)
    seconds = [
        value for (name, _), value in found.items() if name == "dragoman_share_seconds_total"
    ]
    assert round(sum(seconds) * SECOND) == exact


def change(record: NodeLedger, seed: random.Random, number: int) -> NodeLedger:
    uids = [*record.allocations]
    if uids and seed.random() < 0.5:
        return record.release(seed.choice(uids))
    pod = held(a_grant("c0", GIB, 10), uid=str(number))
    return record.adopt(replace(pod, pod=f"{seed.choice('ab')}/{number}"))


def test_the_units_are_shares_gib_and_whole_cards_by_seconds() -> None:
    record = metered(empty(*like_cards(1)), None, START)
    with_pod = metered(record.adopt(held(a_grant("c0", 3 * GIB, 25))), record, START)
    replica = Replica(with_pod, 0)
    replica.led_from = START
    replica.fresh = now = START + 100 * SECOND + int(MARGIN * SECOND)

    assert replica.scrape(now) == {
        ("dragoman_share_seconds_total", "default"): 100,
        ("dragoman_share_memory_gib_seconds_total", "default"): 300,
        ("dragoman_share_compute_card_seconds_total", "default"): 25,
    }


def test_a_clock_that_is_set_back_takes_no_seconds_back() -> None:
    record = metered(empty(*like_cards(1)), None, START)
    replica = Replica(metered(record.adopt(held(a_grant("c0", GIB, 10))), record, START), 0)
    replica.led_from = START
    replica.fresh = now = START + 100 * SECOND
    before = replica.scrape(now)
    replica.skew = -3_600 * SECOND

    assert before
    assert replica.scrape(now) == before


def test_a_clock_that_jumps_ahead_exports_no_seconds_that_the_next_leader_has_not() -> None:
    record = metered(empty(*like_cards(1)), None, START)
    record = metered(record.adopt(held(a_grant("c0", GIB, 10))), record, START)
    leader, successor = Replica(record, 0), Replica(record, 0)
    leader.led_from = START
    leader.fresh = now = START + 100 * SECOND
    before = leader.scrape(now)
    leader.skew = 3_600 * SECOND
    leader.fresh = now = now + SECOND
    jumped = leader.scrape(now)
    successor.led_from = now
    successor.fresh = now = now + 60 * SECOND
    after = successor.scrape(now)

    assert all(jumped[name] <= after[name] for name in jumped)
    assert before.keys() == jumped.keys() == after.keys()


def test_a_replica_that_does_not_lead_exports_no_usage() -> None:
    replica = Replica(metered(empty(*like_cards(1)), None, START), 0)

    assert replica.scrape(START + 10**6) == {}
