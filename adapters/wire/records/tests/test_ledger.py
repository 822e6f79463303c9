import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.records.ledger import LedgerRecordError, decode, encode
from adapters.wire.tests.ledgers import a_full_ledger, a_rich_ledger
from core.hardware.card import Mode
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import AllocationState
from core.tests.builders import a_card, a_grant, empty, held, tentative
from core.tests.strategies import ledgers, seeds

ETCD_LIMIT = 3 << 19
"""Bytes of a request. Source: etcd-io/etcd server/embed/config.go, DefaultMaxRequestBytes."""


def read(ledger: NodeLedger) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(encode(ledger))
    return record


def write(record: object) -> bytes:
    return json.dumps(record).encode()


@given(ledgers(pods=8))
def test_the_record_of_a_ledger_gives_it_back(ledger: NodeLedger) -> None:
    assert decode(encode(ledger)) == ledger


def test_no_field_is_lost() -> None:
    ledger = a_rich_ledger()

    again = decode(encode(ledger))

    assert again == ledger
    assert [*again.allocations] == [*ledger.allocations]
    assert again.node.cards[1].geometry is again.node.cards[2].geometry


@given(seeds, ledgers(pods=8))
def test_reservations_are_left_out(seed: Any, ledger: NodeLedger) -> None:
    some = {uid for uid in ledger.allocations if seed.random() < 0.5}
    mixed = ledger
    for uid in some:
        mixed = mixed.adopt(tentative(ledger.allocations[uid], expires=5))

    again = decode(encode(mixed))

    assert [*again.allocations] == [uid for uid in ledger.allocations if uid not in some]
    assert all(one.state is AllocationState.COMMITTED for one in again.allocations.values())
    rest = [one for uid, one in ledger.allocations.items() if uid not in some]
    assert again.usages == NodeLedger.restored(ledger.node, rest).usages


@given(ledgers())
def test_fields_of_a_later_program_are_passed_over(ledger: NodeLedger) -> None:
    def add(value: Any) -> Any:
        match value:
            case dict():
                return {"later": {"more": [1]}, **{key: add(each) for key, each in value.items()}}
            case list():
                return [add(each) for each in value]
            case _:
                return value

    assert decode(write(add(read(ledger)))) == ledger


@given(ledgers(pods=8))
def test_the_order_of_keys_does_not_matter(ledger: NodeLedger) -> None:
    assert decode(json.dumps(read(ledger), sort_keys=True).encode()) == ledger


def test_a_person_can_read_the_record() -> None:
    ledger = empty(a_card("GPU-0"), name="worker-1").adopt(
        held(a_grant("GPU-0", 2 * GIB, 30), node="worker-1")
    )

    assert read(ledger) == {
        "node": "worker-1",
        "changes": 1,
        "summary": {"cards": 1, "healthy": 1, "pods": 1, "memory": "2 of 16 GiB"},
        "cards": [
            {
                "uuid": "GPU-0",
                "index": 0,
                "vendor": "nvidia",
                "model": "A100",
                "memory": 17179869184,
                "slots": 4,
                "dialects": ["tongue"],
            }
        ],
        "allocations": [
            {
                "uid": "old",
                "pod": "default/old",
                "dialect": "tongue",
                "grants": [
                    {"container": "main", "card": "GPU-0", "memory": 2147483648, "compute": 30}
                ],
            }
        ],
    }


def test_a_card_of_an_earlier_programs_record_has_all_of_its_compute() -> None:
    record = read(empty(replace(a_card(), compute=50)))
    del record["cards"][0]["compute"]

    assert decode(write(record)) == empty(a_card())


def test_a_card_of_mps_is_a_shared_card_for_an_earlier_program() -> None:
    ledger = empty(replace(a_card(), mode=Mode.MPS))
    [card] = read(ledger)["cards"]

    assert "mode" not in card
    assert card["mps"] is True
    assert decode(encode(ledger)) == ledger


def test_scores_that_are_not_of_the_records_cards_count_as_none() -> None:
    record = read(a_rich_ledger())
    for scores in ([[0]], [[0], [0], [0]]):
        assert decode(write({**record, "scores": scores})).node.scores == ()


def spoiled(change: str) -> Any:
    record = read(a_rich_ledger())
    card, pod = record["cards"][0], record["allocations"][0]
    match change:
        case "card twice":
            record["cards"].append(card)
        case "pod twice":
            record["allocations"].append(pod)
        case "hold of a pod":
            record["holds"] = [{"plan": "p", "allocation": pod}]
        case "negative memory":
            pod["grants"][0]["memory"] = -1
        case "negative slots":
            card["slots"] = -1
        case "unknown geometry":
            card["geometry"] = 9
        case "unknown level":
            card["links"][0]["level"] = "rack"
        case "unknown mode":
            card["mode"] = "quantum"
        case "no node":
            del record["node"]
        case _:
            raise ValueError(change)
    return record


@pytest.mark.parametrize(
    "change",
    [
        "card twice",
        "pod twice",
        "hold of a pod",
        "negative memory",
        "negative slots",
        "unknown geometry",
        "unknown level",
        "unknown mode",
        "no node",
    ],
)
def test_a_record_that_contradicts_itself_is_rejected(change: str) -> None:
    with pytest.raises(LedgerRecordError):
        decode(write(spoiled(change)))


LISTS = (
    *("cards", "cards/links", "geometries", "geometries/layouts", "geometries/layouts/slices"),
    *("partitions", "losses", "gains", "scores", "allocations", "allocations/grants", "holds"),
    "meter/totals",
)
"""The API server looks into none of them, so the reader does."""


def malformed(place: str, entry: Any) -> Any:
    """A record in which a list has an entry that is none of its."""
    found = record = {**read(a_rich_ledger()), "meter": {"until": 1}}
    *steps, last = place.split("/")
    for step in steps:
        found = found[step] if step == "meter" else found[step][0]
    found[last] = [*found.get(last, []), entry]
    return record


@pytest.mark.parametrize("entry", [5, "x", None, True, [None], {}])
@pytest.mark.parametrize("place", LISTS)
def test_an_entry_that_is_none_of_its_list_is_refused_with_field_and_value(
    place: str, entry: Any
) -> None:
    with pytest.raises(LedgerRecordError) as refusal:
        decode(write(malformed(place, entry)))

    field, value = place.split("/")[-1], write(entry).decode().strip("[]")
    assert re.search(rf"{field}\[\d\](\[0\])?` is \[?{value}\]?$", str(refusal.value))


@pytest.mark.parametrize(
    ("place", "entry", "said"),
    [
        ("allocations", {"uid": "u", "pod": "p", "dialect": "d", "priority": "high"}, '"high"'),
        ("allocations", {"uid": "u", "pod": "p", "dialect": "d", "taskClass": "x"}, '"x"'),
        ("allocations", {"uid": "u", "pod": "p", "dialect": "d", "since": -1}, "-1"),
        ("allocations", {"uid": "u", "pod": "p", "dialect": "d", "taskClass": "`$.a[9]`"}, '"`'),
        ("cards/links", {"level": "rack", "name": "r"}, '"rack"'),
        ("losses", {"cards": 1, "value": 1.5}, "1.5"),
    ],
)
def test_a_field_that_cannot_be_read_is_named_with_its_value(
    place: str, entry: Any, said: str
) -> None:
    with pytest.raises(LedgerRecordError, match=rf"{place[-5:]}\[\d\]\.\w+` is {said}"):
        decode(write(malformed(place, entry)))


def test_a_share_of_no_memory_has_all_of_its_cards() -> None:
    record = read(a_rich_ledger())
    allocation = next(each for each in record["allocations"] if "unread" not in each)
    allocation["grants"][0] |= {"memory": 0, "exclusive": False, "slice": None}
    cards = {each["card"] for each in allocation["grants"]}

    found = decode(write(record)).allocations[allocation["uid"]]

    assert found.grants == ()
    assert found.blocked >= cards
    assert found.unread == "the ledger's record grants it no memory of a card"
    assert decode(encode(decode(write(record)))) == decode(write(record))


@given(st.binary() | st.text().map(str.encode))
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(LedgerRecordError):
        decode(garbage)


@given(ledgers(), st.data())
def test_a_damaged_record_is_a_ledger_or_an_error(ledger: NodeLedger, data: st.DataObject) -> None:
    record = bytearray(encode(ledger))
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))

    try:
        decode(bytes(record))
    except LedgerRecordError:
        return


def test_the_record_of_a_full_node_is_far_below_what_etcd_takes() -> None:
    ledger = a_full_ledger()

    record = encode(ledger)
    began = time.perf_counter()
    for _ in range(20):
        encode(ledger)
    middle = time.perf_counter()
    for _ in range(20):
        decode(record)
    end = time.perf_counter()

    print(  # noqa: T201 (a measurement, shown by -s)
        f"8 cards, {len(ledger.allocations)} pods: {len(record)} bytes,"
        f" {ETCD_LIMIT // len(record)} times below etcd's limit;"
        f" encode {(middle - began) * 5e4:.0f} us, decode {(end - middle) * 5e4:.0f} us"
    )
    assert len(record) * 20 < ETCD_LIMIT
