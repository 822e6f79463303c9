import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.records.ledger import (
    LedgerReader,
    LedgerRecord,
    LedgerRecordError,
    SplitRecord,
    decode,
    encode,
)
from adapters.wire.tests.ledgers import a_rich_ledger
from core.ledger.node_ledger import UNMETERED, Amounts, Consumer, Hold, Meter, NodeLedger
from core.tests.builders import a_grant, empty, held, like_cards
from core.tests.strategies import ledgers, seeds


def a_record(*pods: str, cards: int = 2) -> bytes:
    ledger = empty(*like_cards(cards))
    for pod in pods:
        ledger = ledger.adopt(held(a_grant("c0"), uid=pod))
    return encode(ledger)


@given(seeds, st.lists(ledgers(pods=8), min_size=1, max_size=3))
def test_records_in_any_order_give_what_they_give_alone(
    seed: Random, some: list[NodeLedger]
) -> None:
    reader = LedgerReader()
    for _ in range(12):
        ledger = seed.choice(some)
        for uid in [uid for uid in ledger.allocations if seed.random() < 0.3]:
            ledger = ledger.release(uid) if seed.random() < 0.5 else ledger.renew(uid)
        if seed.random() < 0.3:
            kept = held(a_grant("c0"), uid=f"kept-{seed.randint(0, 1)}", node=ledger.node.name)
            ledger = ledger.hold(Hold("plan", "owner", by_name=False, allocation=kept))
        record = encode(ledger)

        found = reader.read(record)

        assert found == decode(record)
        assert [*found.allocations] == [*decode(record).allocations]


def outcome(read: Callable[[bytes], NodeLedger], record: bytes) -> NodeLedger | str:
    try:
        return read(record)
    except LedgerRecordError as error:
        return str(error)


def damaged(record: bytes, seed: Random) -> bytes:
    """The record with one value somewhere in it removed or replaced, its text in another layout."""
    whole: Any = json.loads(record)
    inner: Any = whole
    while True:
        keys = [*inner] if isinstance(inner, dict) else [*range(len(inner))]
        key = seed.choice(keys)
        if isinstance(inner[key], (dict, list)) and inner[key] and seed.random() < 0.8:
            inner = inner[key]
            continue
        if seed.random() < 0.3:
            del inner[key]
        else:
            inner[key] = seed.choice([None, -1, 0, "x", "", [], [1], {}, True, inner[key]])
        break
    return json.dumps(whole, sort_keys=seed.random() < 0.5, indent=seed.choice([None, 1])).encode()


@given(seeds, st.lists(ledgers(pods=6), min_size=1, max_size=2))
def test_a_damaged_record_gives_what_it_gives_alone(seed: Random, some: list[NodeLedger]) -> None:
    reader = LedgerReader()
    for _ in range(12):
        record = encode(seed.choice(some))
        if seed.random() < 0.7:
            record = damaged(record, seed)

        assert outcome(reader.read, record) == outcome(decode, record)


def test_no_field_of_a_record_is_left_out() -> None:
    assert set(SplitRecord.__struct_fields__) == set(LedgerRecord.__struct_fields__)


def test_an_allocation_and_a_node_that_did_not_change_are_not_decoded_again() -> None:
    reader = LedgerReader()
    before = reader.read(a_record("a", "b"))

    after = reader.read(a_record("a", "b", "c"))

    assert after.node is before.node
    assert after.allocations["a"] is before.allocations["a"]
    assert after.usages[1] is before.usages[1]


def test_a_node_with_other_cards_is_decoded_whole() -> None:
    reader = LedgerReader()
    reader.read(a_record("a"))

    assert reader.read(a_record("a", cards=3)) == decode(a_record("a", cards=3))


@pytest.mark.parametrize("field", sorted(json.loads(encode(a_rich_ledger()))))
def test_a_change_of_any_field_is_seen(field: str) -> None:
    reader = LedgerReader()
    rich: dict[str, Any] = json.loads(encode(a_rich_ledger()))
    plain: dict[str, Any] = json.loads(encode(empty(*like_cards(3), name=rich["node"])))
    if field in ("geometries", "cards"):
        plain["geometries"] = rich["geometries"]
    reader.read(json.dumps(plain).encode())
    changed = json.dumps({**plain, field: rich[field]}).encode()

    assert reader.read(changed) == decode(changed)


def test_the_meter_is_that_of_the_latest_record() -> None:
    reader = LedgerReader()
    for until in (5, 9):
        totals = {Consumer("default", "volcano", "A100"): Amounts(1, until, 2)}
        metered = replace(decode(a_record("a")), meter=Meter(until, totals))

        assert reader.read(encode(metered)) == metered

    assert reader.read(a_record("a")).meter == UNMETERED


def test_a_node_whose_record_was_deleted_is_decoded_whole() -> None:
    reader = LedgerReader()
    before = reader.read(a_record("a"))
    reader.forget("n")

    assert reader.read(a_record("a")).node is not before.node


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"allocations": [{"uid": 5}]}, "allocations"),
        ({"changes": -1}, "changes"),
        ({"summary": 1}, "summary"),
        ({"allocations": 1}, "allocations"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_field(
    change: dict[str, Any], text: str
) -> None:
    reader = LedgerReader()
    reader.read(a_record("a"))
    record = {**json.loads(a_record("a", "b")), **change}

    with pytest.raises(LedgerRecordError, match=text):
        reader.read(json.dumps(record).encode())


def test_a_record_that_names_a_pod_twice_is_an_error() -> None:
    reader = LedgerReader()
    reader.read(a_record("a"))
    record = json.loads(a_record("a"))
    record["allocations"] *= 2

    with pytest.raises(LedgerRecordError, match="twice"):
        reader.read(json.dumps(record).encode())
